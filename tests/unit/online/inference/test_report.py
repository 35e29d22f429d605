import pytest

from online.inference.report import MAX_LINE_BYTES, Report, State

FULL = Report(
    state=State.FAILED,
    reason="é" * 5000,
    model="m" * 64,
    version="v" * 64,
    address="/" + "p" * 107,
    max_batch_rows=1 << 20,
    tau0_ms=1 / 3,
    alpha_ms=1 / 3,
    table=[(1 << n, 1e3 / 3 + n) for n in range(21)],
    counts={f"a_count_with_a_name_{n}": 2**63 - 1 for n in range(16)},
)


def test_the_longest_report_is_one_write_of_a_pipe() -> None:
    line = FULL.to_line()
    assert len(line) <= MAX_LINE_BYTES
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


def test_a_report_comes_back_as_it_was_but_for_a_long_reason() -> None:
    again = Report.from_line(FULL.to_line())
    assert again.reason == FULL.reason[:500]
    assert [tuple(point) for point in again.table] == FULL.table
    assert (again.state, again.counts, again.address) == (FULL.state, FULL.counts, FULL.address)


@pytest.mark.parametrize(
    "line", [b"Hello\n", b"[]\n", b"{}\n", b'{"state":"dancing"}\n', b'{"state":"ready","x":1}\n']
)
def test_what_is_no_report_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        Report.from_line(line)
