"""Commands of the product as their users give them, but in this process: starting one takes a second or more."""

import importlib.util
import io
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple


class Ended(NamedTuple):
    """Exit status, standard output and standard error."""

    status: int | str | None
    out: str
    err: str


def run_command(name: str, *words: str) -> Ended:
    """`python -m name words`."""
    found = importlib.util.find_spec(name)
    assert found is not None, name
    is_package = found.submodule_search_locations is not None
    main = importlib.import_module(f"{name}.__main__" if is_package else name).main
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            status = main(list(words))
        except SystemExit as end:
            status = end.code
    return Ended(status, out.getvalue(), err.getvalue())
