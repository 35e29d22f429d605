"""The queue and the batcher under random arrivals, cancels and failures: every row once, as its own, in order."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online.inference.worker.batch_policy import BatchPolicy
from online.inference.worker.batch_queue import BatchQueue
from online.inference.worker.batcher import Batcher
from online.inference.worker.execution import DeviceLost, Outcome
from online.inference.worker.jobs import Job
from online.inference.worker.stage import plain_arrays
from schemas.capacity import BatchTime
from schemas.wire import Float32Array, Tensor

MAX_ROWS = 4


def job(number: int, rows: int = 1, priority: int = 0, width: int = 1, arrived_ns: int = 0) -> Job:
    """All its values are its number."""
    tensor = np.full((rows, width), number, np.float32)
    return Job(None, number, priority, [tensor, tensor.astype(np.int64)], arrived_ns, MAX_ROWS)


def double(tensors: list[Tensor]) -> Float32Array:
    assert np.array_equal(tensors[0], tensors[1])
    return np.asarray(tensors[0][:, :1] * 2, np.float32)


arrivals = st.tuples(st.just("put"), st.integers(1, 10), st.integers(0, 1), st.sampled_from([1, 1, 1, 2]))
cancels = st.tuples(st.just("cancel"), st.integers(0, 40), st.just(0), st.just(0))
takes = st.tuples(st.just("take"), st.booleans(), st.just(0), st.just(0))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(arrivals, cancels, takes), max_size=40))
def test_each_row_is_taken_once_stacked_as_its_own_and_in_order(steps: list[tuple[str, int, int, int]]) -> None:
    queue = BatchQueue(BatchPolicy(MAX_ROWS), 24, plain_arrays)
    jobs: list[Job] = []
    waiting: set[int] = set()  # jobs that have not been cancelled and are not wholly taken
    taken: dict[int, int] = {}

    def take() -> None:
        batch = queue.take()
        parts, tensors = batch.parts, batch.tensors
        stacked = np.concatenate([np.full(part.rows, part.job.request_id) for part in parts])
        assert len(stacked) <= MAX_ROWS
        for tensor in tensors:
            assert np.array_equal(tensor[:, 0], stacked)
        assert {part.job.priority for part in parts} <= {0, 1}
        for part in parts:
            number = part.job.request_id
            assert number in waiting
            assert part.start == taken.get(number, 0)
            taken[number] = part.start + part.rows
            if taken[number] == part.job.rows:
                waiting.discard(number)

    for action, first, priority, width in steps:
        if action == "put":
            new = job(len(jobs), first, priority, width)
            fits = queue.rows == 0 or queue.rows + first <= 24
            assert queue.has_room(new) is fits
            if fits:
                queue.put(new)
            jobs.append(new)
            waiting |= {new.request_id} if fits else set()
        elif action == "cancel" and jobs:
            queue.withdraw(jobs[first % len(jobs)])
            waiting.discard(first % len(jobs))
        elif action == "take" and queue.rows:
            take()
            if first:
                queue.stack_ahead()
    while queue.rows:
        take()
    assert waiting == set()


def run_all(jobs: list[Job], run_batch: object, **options: int) -> list[Outcome]:
    """Outcomes of jobs that all wait when the device becomes free."""
    outcomes: list[Outcome] = []
    fixed = BatchTime(1.0, 0.0)
    batcher = Batcher(1, BatchPolicy(MAX_ROWS), 1000, fixed, outcomes.append, **options)  # type: ignore[arg-type]
    assert batcher.submit(jobs) == []
    batcher.stop()
    batcher.run(run_batch)  # type: ignore[arg-type]
    assert batcher.queued_rows == 0
    return outcomes


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 1), st.booleans()), min_size=1, max_size=30))
def test_every_job_has_one_answer_its_own_and_bad_ones_fail_alone(given_jobs: list[tuple[int, int, bool]]) -> None:
    jobs = [job(n, rows, priority) for n, (rows, priority, _) in enumerate(given_jobs)]
    bad = {n for n, (_, _, is_bad) in enumerate(given_jobs) if is_bad}

    def run_batch(tensors: list[Tensor]) -> Float32Array:
        if bad & set(tensors[0][:, 0].astype(int).tolist()):
            raise ArithmeticError("bad row")
        return double(tensors)

    failed: set[int] = set()
    done: list[int] = []
    for outcome in run_all(jobs, run_batch):
        at = 0
        for part in outcome.parts:
            if outcome.outputs is None:
                assert outcome.error == "ArithmeticError: bad row"
                failed.add(part.job.request_id)
            elif part.job.accept(part, outcome.outputs[at : at + part.rows], outcome.times):
                done.append(part.job.request_id)
            at += part.rows
    assert failed == bad
    assert sorted(done) == sorted(set(range(len(jobs))) - bad)
    for number in done:
        outputs = jobs[number].outputs
        assert outputs is not None
        assert outputs.tolist() == [[2.0 * number]] * jobs[number].rows


def test_outputs_that_alias_the_stage_are_copied() -> None:
    outcomes = run_all([job(n) for n in range(9)], lambda tensors: tensors[0])
    rows = [outcome.outputs for outcome in outcomes]
    assert [r.tolist() for r in rows if r is not None] == [[[0], [1], [2], [3]], [[4], [5], [6], [7]], [[8]]]


def test_times_are_of_arrival_forming_and_execution() -> None:
    clock = iter(range(0, 10_000, 100))
    (outcome,) = run_all([job(1)], double, now_ns=lambda: next(clock))  # type: ignore[arg-type]
    (part,) = outcome.parts
    assert outcome.outputs is not None
    assert part.job.accept(part, outcome.outputs, outcome.times)
    assert (part.job.queue_ns, part.job.batch_ns, part.job.execute_ns) == (300, 100, 100)


def test_a_lost_device_ends_the_thread() -> None:
    def run_batch(tensors: list[Tensor]) -> Float32Array:
        raise DeviceLost("gone")

    with pytest.raises(DeviceLost):
        run_all([job(1), job(2)], run_batch)


class Watched(threading.Condition):
    """Counts how often it was waited for."""

    waits = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        return super().wait(timeout)


def test_what_arrives_together_and_is_more_than_a_batch_goes_to_all_free_devices() -> None:
    together = threading.Barrier(2)

    def run_batch(tensors: list[Tensor]) -> Float32Array:
        together.wait(3)  # raises unless the other device works too
        return double(tensors)

    outcomes: list[Outcome] = []
    watched = Watched()
    batcher = Batcher(
        *(1, BatchPolicy(MAX_ROWS), 1000, BatchTime(1.0, 0.0), outcomes.append),
        instances=2,
        condition=lambda: watched,
    )
    devices = [threading.Thread(target=batcher.run, args=(run_batch,)) for _ in range(2)]
    for device in devices:
        device.start()
    while watched.waits < 2:
        time.sleep(0.001)
    batcher.submit([job(n) for n in range(2 * MAX_ROWS)])
    while len(outcomes) < 2:
        time.sleep(0.001)
    batcher.stop()  # wakes all
    for device in devices:
        device.join()
    assert [outcome.error for outcome in outcomes] == ["", ""]
