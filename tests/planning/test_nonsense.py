"""Each number of each question replaced by nonsense: an answer, or the field and what is allowed in it."""

import math
from collections.abc import Iterator

import orjson
import pytest

from online.planning.__main__ import COMMANDS, main

DEVICE = "--tau0 6 --alpha 1.2 --max-batch-rows 32"
# One valid line for each question that takes numbers.
QUICK = (
    "queues --rate-per-s 600 --service 7.2 --more 2 --price-per-hour 1",
    "blend --hit-share 0.7 --hit 2 --miss 45 --replicas 10",
    "cascade --answered-share 0.85 --first 3 --second 60",
    "serverless --memory-gb 3 --duration 500 --rate-per-s 10 --machines 2 --machine-price-per-hour 0.3"
    " --price-per-gb-s 1e-5 --price-per-request 1e-7 --cold-start 3000 --keep-warm-s 600",
    "memory --parameters 7e9 --layers 32 --hidden 4096 --ffn-hidden 11008 --kv-heads 32 --head-dim 128"
    " --card-memory-gb 24 --reserve-gb 1 --bandwidth-gb-s 900 --tflops 100 --tensor-parallel 2"
    " --pipeline-parallel 2 --tokens 4096 --prefill-rows 1 --conversations 5",
    "pipeline --stages 4 --micro-batches 4 --most-idle-share 0.1",
    "economics --training-cost 1000 --price-per-request 0.001 --cost-per-request 0.0002 --requests-per-month 1e6",
)
SIMULATED = (
    f"batch {DEVICE} --rate-per-s 100 --max-delay 1 --deadline 90 --requests 6400 --seed 1",
    f"size {DEVICE} --peak-per-s 200 --p99 50 --utilisation 0.6 --hit-share 0.5 --cache-share 0.2 --hit 1"
    " --outside 1 --outside-row 0.1 --price-per-hour 1 --budget 100 --requests-per-month 1e6"
    " --weight-gb 1 --memory-gb 2",
    f"strategy {DEVICE} --rate-per-s 200 --p99 50 --utilisation 0.6 --outside 1 --outside-row 0.1"
    " --budget 900 --price-per-hour 1 --weight-gb 1"
    " --memory-gb 16 --cards 2 --layers 12 --row-kb 200 --link-gb-s 12 --link-us 20 --quantised-share 0.5"
    " --bigger-speed 2 --bigger-memory-gb 40 --bigger-price-per-hour 2",
)
REFUSED = ("-1", "nan", "inf")
EDGES = ("0", "0.5", "1e-308", "1e15", "1e308")


def name_of(line: str) -> str:
    return line.split()[0]


def cases(line: str, values: tuple[str, ...]) -> Iterator[tuple[list[str], str]]:
    """The line with one option's number replaced, and that option."""
    words = line.split()
    for place, word in enumerate(words):
        if word.startswith("--"):
            for value in values:
                yield [*words[:place], f"{word}={value}", *words[place + 2 :]], word


def answer_or_refusal(capsys: pytest.CaptureFixture[str], words: list[str]) -> tuple[bool, str]:
    """Whether it answered, and what it printed. Anything but an answer or a refusal raises."""
    try:
        status = main([*words, "--json"])
    except SystemExit as refused:  # argparse's own: no number of that kind
        status = int(str(refused.code))
    told = capsys.readouterr()
    assert status == (0 if told.out else 2)
    return bool(told.out), told.out or told.err.splitlines()[-1]


def test_every_question_that_needs_no_files_is_tried() -> None:
    assert {name_of(line) for line in (*QUICK, *SIMULATED)} == {one.NAME for one in COMMANDS} - {"plan"}


@pytest.mark.parametrize("line", [*QUICK, *SIMULATED], ids=name_of)
def test_the_lines_themselves_are_answered(capsys: pytest.CaptureFixture[str], line: str) -> None:
    assert answer_or_refusal(capsys, line.split())[0]


@pytest.mark.parametrize("line", [*QUICK, *SIMULATED], ids=name_of)
def test_what_is_no_number_is_refused_by_its_name(capsys: pytest.CaptureFixture[str], line: str) -> None:
    for words, option in cases(line, REFUSED):
        is_answered, told = answer_or_refusal(capsys, words)
        assert not is_answered, words
        field = option.removeprefix("--")
        assert field in told or field.replace("-", "_") in told, (words, told)


@pytest.mark.parametrize("line", QUICK, ids=name_of)
def test_edges_are_answered_or_refused(capsys: pytest.CaptureFixture[str], line: str) -> None:
    for words, option in cases(line, EDGES):
        is_answered, told = answer_or_refusal(capsys, words)
        assert is_answered or "allowed is " in told or f"argument {option}: " in told, (words, told)


@pytest.mark.long
@pytest.mark.parametrize("line", SIMULATED, ids=name_of)
def test_edges_of_what_is_simulated(capsys: pytest.CaptureFixture[str], line: str) -> None:
    test_edges_are_answered_or_refused(capsys, line)


def test_no_answer_holds_what_json_cannot(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SIMULATED[1].split(), "--json"]) == 0
    numbers = _numbers(orjson.loads(capsys.readouterr().out))
    assert len(numbers) > 30
    assert all(math.isfinite(number) for number in numbers)


def _numbers(value: object) -> list[float]:
    match value:
        case dict():
            return [number for one in value.values() for number in _numbers(one)]
        case list():
            return [number for one in value for number in _numbers(one)]
        case bool() | str() | None:
            return []
    return [float(str(value))]
