"""What a worker promises to a request, under random arrivals, cancels, deadlines and failures, in virtual time."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from online.inference.worker.execution import OutOfMemory
from schemas import wire
from schemas.capacity import BatchTime
from schemas.wire import Float32Array, Tensor
from tests.support.virtual_time import VirtualWorker

MAX_ROWS, MAX_QUEUED_ROWS = 8, 40
FITTING_ROWS = 6  # of a model that is short of memory
TIME = BatchTime(6.0, 1.2)


@dataclass(frozen=True)
class Asked:
    gap_ms: int
    rows: int
    priority: int
    deadline_ms: int
    cancelled_after_ms: int | None
    is_bad: bool


asked = st.builds(
    Asked,
    gap_ms=st.integers(0, 30),
    rows=st.sampled_from([1, 1, 1, 2, 3, 8, 9, 20]),
    priority=st.integers(0, 1),
    deadline_ms=st.sampled_from([0, 0, 5, 20, 60, 200]),
    cancelled_after_ms=st.one_of(st.none(), st.none(), st.integers(0, 60)),
    is_bad=st.sampled_from([False] * 7 + [True]),
)


class Model:
    """Doubles. Raises where a bad request is in the batch, and, if told so, where the batch is large."""

    def __init__(self, bad: set[int], is_short_of_memory: bool) -> None:
        self.bad, self.is_short_of_memory = bad, is_short_of_memory
        self.executed: list[list[int]] = []

    def __call__(self, tensors: list[Tensor]) -> Float32Array:
        x = np.asarray(tensors[0], np.float32)
        if self.is_short_of_memory and len(x) > FITTING_ROWS:
            raise OutOfMemory(f"{len(x)} rows")
        ids = [int(value) for value in x[:, 0]]
        self.executed.append(ids)
        if self.bad & set(ids):
            raise ArithmeticError("bad row")
        return 2 * x


@settings(max_examples=200, deadline=None)
@given(st.lists(asked, min_size=1, max_size=40), st.booleans(), st.sampled_from([0.0, 5.0]), st.booleans())
def test_every_request_has_one_answer_its_own_and_in_time(
    requests: list[Asked], is_short_of_memory: bool, max_delay_ms: float, is_launcher: bool
) -> None:
    model = Model({n for n, request in enumerate(requests) if request.is_bad}, is_short_of_memory)
    worker = VirtualWorker(model, MAX_ROWS, MAX_QUEUED_ROWS, TIME, max_delay_ms, is_launcher)
    at, sent_at, cancelled_at = worker.clock.now, {}, {}
    for number, request in enumerate(requests):
        at += request.gap_ms * 1_000_000
        sent_at[number] = at
        rows = np.full((request.rows, 1), number, np.float32)
        worker.clock.at(at, worker.send, number, [rows], request.priority, request.deadline_ms)
        if request.cancelled_after_ms is not None:
            cancelled_at[number] = at + request.cancelled_after_ms * 1_000_000
            worker.clock.at(cancelled_at[number], worker.cancel, number)
    worker.run()

    assert max(worker.batch_rows, default=0) <= MAX_ROWS
    assert (worker.server.open_jobs, worker.batcher.queued_rows) == (0, 0)
    for number, request in enumerate(requests):
        answers = worker.client.answers.pop(number, [])
        if number in cancelled_at and not answers:
            continue
        ((answered_at, answer),) = answers
        assert answered_at <= cancelled_at.get(number, answered_at)
        if request.deadline_ms:
            assert answered_at <= sent_at[number] + request.deadline_ms * 1_000_000
        if isinstance(answer, wire.Result):
            assert not request.is_bad
            assert answer.outputs.tolist() == [[2.0 * number]] * request.rows
        elif answer.code == "overloaded":
            assert answered_at == sent_at[number]
            assert answer.retry_after_ms > 0
        elif answer.code == "deadline_exceeded":
            assert answered_at == sent_at[number] + request.deadline_ms * 1_000_000
        else:
            assert answer.code == "model_error"
            assert request.is_bad or is_short_of_memory
    assert worker.client.answers == {}
    ends = ("answered", "overloaded", "deadline_exceeded", "cancelled", "failed")
    assert sum(getattr(worker.counts, end) for end in ends) == len(requests)


@given(st.lists(asked, min_size=1, max_size=40), st.booleans())
def test_order_is_kept_within_a_priority(requests: list[Asked], is_launcher: bool) -> None:
    model = Model(set(), False)
    worker = VirtualWorker(model, MAX_ROWS, 10_000, TIME, is_launcher=is_launcher)
    at = worker.clock.now
    for number, request in enumerate(requests):
        at += request.gap_ms * 1_000_000
        rows = np.full((request.rows, 1), number, np.float32)
        worker.clock.at(at, worker.send, number, [rows], request.priority)
    worker.run()
    served = [number for batch in model.executed for number in batch]
    assert len(served) == sum(request.rows for request in requests)
    for priority in (0, 1):
        own = [number for number in served if requests[number].priority == priority]
        assert own == sorted(own)


def test_one_bad_request_costs_its_mates_a_few_halves_not_a_batch_each() -> None:
    model = Model({17}, False)
    worker = VirtualWorker(model, 64, 1000, TIME)
    for number in range(64):
        worker.clock.at(worker.clock.now, worker.send, number, [np.full((1, 1), number, np.float32)])
    worker.clock.at(worker.clock.now, worker.send, 99, [np.full((1, 1), 99, np.float32)])
    worker.run()
    failed = [n for n, [(_, answer)] in worker.client.answers.items() if isinstance(answer, wire.Failure)]
    assert failed == [17]
    assert len(model.executed) <= 1 + 1 + 2 * 6  # the first alone, the rest whole, then two for each halving


def test_under_overload_the_device_is_used_and_refusals_come_at_once() -> None:
    """Twice what the device can do, all with the same deadline: it does what it can, and nobody waits in vain."""
    model = Model(set(), False)
    worker = VirtualWorker(model, 64, 2048, TIME)
    per_s, seconds, deadline_ms = 1500, 8, 250
    start = worker.clock.now
    for number in range(per_s * seconds):
        at = start + round(number * 1e9 / per_s)
        rows = [np.full((1, 1), number, np.float32)]
        worker.clock.at(at, worker.send, number, rows, 0, deadline_ms)
    worker.run()
    in_time = sum(isinstance(answer, wire.Result) for [(_, answer)] in worker.client.answers.values())
    assert in_time >= 0.97 * TIME.rows_per_s(64) * seconds
    assert worker.counts.deadline_exceeded <= 0.01 * in_time
    assert worker.counts.answered == in_time


def test_an_impossible_deadline_is_refused_but_for_a_probe_now_and_then() -> None:
    """Else T(b), once thought to be too long, would never be measured again."""
    model = Model(set(), False)
    worker = VirtualWorker(model, 8, 100, TIME)
    for number in range(40):
        at = worker.clock.now + number * 100_000_000
        worker.clock.at(at, worker.send, number, [np.full((1, 1), number, np.float32)], 0, 5)
    worker.run()
    codes = [answer.code for [(_, answer)] in worker.client.answers.values() if isinstance(answer, wire.Failure)]
    assert len(codes) == 40
    assert 3 <= codes.count("deadline_exceeded") <= 5
    assert codes.count("overloaded") == 40 - codes.count("deadline_exceeded")


def test_what_the_device_is_busy_with_and_what_goes_first_count_and_what_goes_later_does_not() -> None:
    """T(b) = 100 ms. At 10 ms a batch is on the device for 90 more, and two batches of priority 1 wait."""
    worker = VirtualWorker(Model(set(), False), 8, 100, BatchTime(100.0, 0.0))
    start = worker.clock.now

    def send(number: int, rows: int, priority: int, deadline_ms: int, at_ms: int = 10) -> None:
        tensors = [np.full((rows, 1), number, np.float32)]
        worker.clock.at(start + at_ms * 1_000_000, worker.send, number, tensors, priority, deadline_ms)

    send(0, 1, 1, 0, at_ms=0)
    send(1, 8, 1, 0)
    send(2, 8, 1, 0)
    send(3, 1, 0, 150)  # 90 ms and its own 100 are over 150
    send(4, 1, 0, 250)
    send(5, 1, 1, 350)  # two batches of its own priority go before
    worker.run()
    answers = {number: answer for number, [(_, answer)] in worker.client.answers.items()}
    refused = {number: answer.code for number, answer in answers.items() if isinstance(answer, wire.Failure)}
    assert refused == {3: "overloaded", 5: "overloaded"}


def test_a_device_that_can_be_given_a_batch_while_it_works_gets_whole_ones_before_it_is_done() -> None:
    worker = VirtualWorker(Model(set(), False), 8, 100, TIME, is_launcher=True)
    for number in range(30):
        worker.clock.at(worker.clock.now, worker.send, number, [np.full((1, 1), number, np.float32)])
    worker.run()
    assert worker.batch_rows == [1, 8, 8, 8, 5]
    # The first comes to a free device, and the last is not whole.
    assert [ns > 0 for ns in worker.launched_ahead_ns] == [False, True, True, True, False]
    assert max(worker.launched_ahead_ns) < 0.25 * 1e6 * TIME.batch_ms(8)
    answers = [answer for [(_, answer)] in worker.client.answers.values() if isinstance(answer, wire.Result)]
    assert len(answers) == 30
    assert {(a.batch_rows, a.execute_us) for a in answers} == {(n, 1000 * TIME.batch_ms(n)) for n in (1, 8, 5)}
    queue_ms = [answer.queue_us / 1e3 for answer in answers]
    assert queue_ms[-1] == TIME.batch_ms(1) + 3 * TIME.batch_ms(8)


def test_a_batch_that_is_not_whole_is_not_launched_while_the_device_works() -> None:
    """Who comes in the last moment of a batch still goes into the next."""
    worker = VirtualWorker(Model(set(), False), 8, 100, TIME, is_launcher=True)
    start, batch_ns = worker.clock.now, round(1e6 * TIME.batch_ms(1))
    for number, at_ns in enumerate([0, 1_000_000, batch_ns - 1000]):
        worker.clock.at(start + at_ns, worker.send, number, [np.full((1, 1), number, np.float32)])
    worker.run()
    assert worker.batch_rows == [1, 2]
    assert worker.launched_ahead_ns == [0, 0]


def test_a_batch_that_was_launched_ahead_counts_for_who_comes_after_it() -> None:
    """It waits no longer and runs not yet: whoever comes in that moment still has it before them."""
    worker = VirtualWorker(Model(set(), False), 8, 100, TIME, is_launcher=True)
    start, late_ns = worker.clock.now, round(1e6 * (TIME.batch_ms(1) - 0.5))
    for number in range(9):
        worker.clock.at(start, worker.send, number, [np.full((1, 1), number, np.float32)])
    for number, deadline_ms in ((20, 12), (21, 40)):
        worker.clock.at(
            start + late_ns, worker.send, number, [np.full((1, 1), number, np.float32)], 0, deadline_ms
        )
    worker.run()
    assert [ns > 0 for ns in worker.launched_ahead_ns] == [False, True, False]
    ((refused_ns, refusal),) = worker.client.answers[20]
    assert isinstance(refusal, wire.Failure)
    assert (refused_ns, refusal.code) == (start + late_ns, "overloaded")
    ((_, answer),) = worker.client.answers[21]
    assert isinstance(answer, wire.Result)
