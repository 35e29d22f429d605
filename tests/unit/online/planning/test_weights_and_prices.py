"""Whether weights fit, default prices with their month and source, and a core that reads and writes nothing."""

import ast
import re
from pathlib import Path

import pytest

from online.planning import prices
from online.planning.__main__ import main
from online.planning.checks import OutOfRange
from online.planning.prices import Price
from online.planning.weights import NOT_ASKED, Weights

_PACKAGE = Path(__file__).parents[4] / "online" / "planning"
# These read files and the command line, and write to the terminal; all else computes.
_EDGES = {"__main__", "profile_file", "request_log", "rendering"}
_OUTSIDE_WORLD = {
    "os",
    "pathlib",
    "io",
    "sys",
    "subprocess",
    "socket",
    "fsspec",
    "time",
    "random",
    "logging",
    "rich",
}


def test_weights_beside_a_card() -> None:
    assert Weights(20, 16).share_of_memory == 1.25
    assert Weights(20, 16).notes[0].startswith("The weights do not fit: 125% of a card's memory")
    assert Weights(16, 16).notes == ("The weights fit: 100% of a card's memory.",)
    assert (NOT_ASKED.share_of_memory, NOT_ASKED.notes) == (None, ())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"weight_gb": 1.0}, "memory_gb is missing: allowed is weight_gb and memory_gb, or neither"),
        ({"memory_gb": 1.0}, "weight_gb is missing: allowed is weight_gb and memory_gb, or neither"),
        ({"weight_gb": 0.0, "memory_gb": 1.0}, r"weight_gb is 0\.0: allowed is a finite number above 0"),
        ({"weight_gb": 1.0, "memory_gb": float("inf")}, "memory_gb is inf: allowed is a finite number above 0"),
    ],
)
def test_half_of_the_question_is_told_by_its_field(given: dict[str, float], says: str) -> None:
    with pytest.raises(OutOfRange, match=says):
        Weights(**given)


def test_every_default_price_is_an_example_with_its_month_and_source() -> None:
    found = [one for one in vars(prices).values() if isinstance(one, Price)]
    assert len(found) >= 4
    for price in found:
        assert re.fullmatch(r"20\d\d-[01]\d", price.dated)
        assert price.source
        assert "an example" in str(price)
        assert price.dated in str(price)


@pytest.mark.parametrize("question", ["size", "plan", "queues", "strategy", "serverless"])
def test_help_names_the_month_of_each_default_price(capsys: pytest.CaptureFixture[str], question: str) -> None:
    with pytest.raises(SystemExit):
        main([question, "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(r"default [0-9.e-]+ \$/\S+ \(an example, [^)]+, 20\d\d-[01]\d\)", told)


def test_the_core_reads_and_writes_nothing() -> None:
    cores = [path for path in _PACKAGE.glob("*.py") if path.stem not in _EDGES]
    assert len(cores) > 15
    for path in [*cores, _PACKAGE.parents[1] / "schemas" / "capacity.py"]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        }
        called = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not imported & _OUTSIDE_WORLD, path.name
        assert not called & {"open", "print", "input"}, path.name
