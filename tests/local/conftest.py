"""Stacks of the tests' own: state in a folder of their own, on free ports, gone afterwards."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.local.programs import Program
from infra.local.settings import StackSettings
from infra.local.stack import LocalStack


@pytest.fixture
def make_stack() -> Iterator[Callable[..., LocalStack]]:
    """`make_stack(programs=None, folder="s", **settings)`: a stack that is stopped after the test."""
    root = Path(tempfile.mkdtemp(prefix="hotset-local-"))
    made: list[LocalStack] = []

    def make(programs: list[Program] | None = None, folder: str = "s", **settings: object) -> LocalStack:
        stack = LocalStack(StackSettings.on_free_ports(root / folder, **settings), {}, programs)
        made.append(stack)
        return stack

    yield make
    for stack in made:
        stack.stop()
    shutil.rmtree(root)
