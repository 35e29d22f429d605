"""What a worker promises to a request, with the device held at the moment that matters."""

import asyncio

import numpy as np
import pytest

from schemas import wire
from schemas.wire import Result, Tensor
from tests.support.gated_worker import BAD_ROW, DIGEST, FATAL_ROW, SHORT_ROW, gated_worker, rows
from tests.support.inference import eventually
from tests.support.wire_client import Failed, WireClient


async def code_of(future: "asyncio.Future[Result]") -> str:
    with pytest.raises(Failed) as caught:
        await future
    return caught.value.code


async def test_what_waits_while_the_device_is_busy_is_one_batch() -> None:
    async with gated_worker() as worker, worker.connect() as client:
        first = client.start(DIGEST, rows(1))[1]
        await worker.model.began(1)
        later = [client.start(DIGEST, rows(x))[1] for x in (2, 3, 4)]
        await eventually(lambda: worker.batcher.queued_rows == 3, "three rows queued")
        worker.model.permit(1)
        results = [await first]
        worker.model.permit(1)
        results += [await future for future in later]
        assert worker.model.batches == [[1], [2, 3, 4]]
        assert [result.outputs.tolist() for result in results] == [[[10]], [[20]], [[30]], [[40]]]
        assert [result.batch_rows for result in results] == [1, 3, 3, 3]
        assert client.answers_in_reads[-1] == 3  # the answers of a batch come in one write
        assert results[1].execute_us > 0


async def test_requests_of_one_write_share_a_batch_on_an_idle_device() -> None:
    async with gated_worker() as worker, worker.connect() as client:
        worker.model.permit(1)
        tag = wire.version_tag(DIGEST)
        futures = [client.expect(n) for n in (101, 102, 103)]
        client.send(
            b"".join(wire.request(wire.Request(n, tag, 0, 0, rows(n))) for n in (101, 102, 103)),
        )
        await asyncio.gather(*futures)
        assert worker.model.batches == [[101, 102, 103]]


async def test_an_idle_device_waits_for_company_only_as_long_as_it_may() -> None:
    async with gated_worker(max_rows=2, max_delay_ms=60_000) as worker, worker.connect() as client:
        worker.model.permit(3)
        first = client.start(DIGEST, rows(1))[1]
        await eventually(lambda: worker.batcher.queued_rows == 1, "one row waits")
        assert worker.model.batches == []
        second = client.start(DIGEST, rows(2))[1]  # fills the batch, which ends the delay
        await asyncio.gather(first, second)
        assert worker.model.batches == [[1, 2]]
    async with gated_worker(max_delay_ms=1) as worker, worker.connect() as client:
        worker.model.permit(1)
        await client.ask(DIGEST, rows(1))


async def test_a_deadline_fires_while_the_request_is_on_the_device_and_while_it_waits() -> None:
    async with gated_worker(max_rows=1) as worker, worker.connect() as client:
        running = client.start(DIGEST, rows(1), deadline_s=0.05)[1]
        await worker.model.began(1)
        waiting = client.start(DIGEST, rows(2), deadline_s=0.05)[1]
        patient = client.start(DIGEST, rows(3))[1]
        assert await code_of(running) == await code_of(waiting) == "deadline_exceeded"
        assert worker.counts.deadline_exceeded == 2
        worker.model.permit(3)
        assert (await patient).outputs.tolist() == [[30]]
        assert worker.model.batches == [[1], [3]]  # the late one was not executed


async def test_cancelled_requests_are_not_executed_and_leave_room() -> None:
    async with gated_worker(max_rows=2, max_queued_rows=2) as worker, worker.connect() as client:
        first = client.start(DIGEST, rows(1))[1]
        await worker.model.began(1)
        cancelled, _ = client.start(DIGEST, rows(2))
        kept = client.start(DIGEST, rows(3))[1]
        client.send(wire.cancel(cancelled) + wire.cancel(999_999))  # one that nobody knows is no fault
        await eventually(lambda: worker.counts.cancelled == 1, "the cancel has arrived")
        late = client.start(DIGEST, rows(4))[1]
        await eventually(lambda: worker.batcher.queued_rows == 2, "two rows queued")
        worker.model.permit(3)
        await asyncio.gather(first, kept, late)
        assert worker.model.batches == [[1], [3, 4]]
        assert worker.counts.cancelled == 1


async def test_a_client_that_goes_away_is_not_executed() -> None:
    async with gated_worker() as worker, worker.connect() as client:
        first = client.start(DIGEST, rows(1))[1]
        await worker.model.began(1)
        async with worker.connect() as leaving:
            _, unanswered = leaving.start(DIGEST, rows(2, 3))
            await eventually(lambda: worker.batcher.queued_rows == 2, "its rows wait")
            leaving.abort()
            await eventually(lambda: worker.batcher.queued_rows == 0, "its rows are gone")
            with pytest.raises(ConnectionError):
                await unanswered
        kept = client.start(DIGEST, rows(4))[1]
        worker.model.permit(2)
        await asyncio.gather(first, kept)
        assert worker.model.batches == [[1], [4]]


async def test_a_full_queue_refuses_at_once_and_says_when_to_come_again() -> None:
    async with gated_worker(2, 4, tau0_ms=6.0, alpha_ms=1.0) as worker, worker.connect() as client:
        first = client.start(DIGEST, rows(0))[1]
        await worker.model.began(1)  # rows on the device do not count
        queued = [client.start(DIGEST, rows(x))[1] for x in (1, 2, 3, 4)]
        refused = client.start(DIGEST, rows(5))[1]
        with pytest.raises(Failed) as caught:
            await refused
        assert caught.value.code == "overloaded"
        assert caught.value.retry_after_ms == 16  # two batches of 6 + 2 ms
        worker.model.permit(3)
        await asyncio.gather(first, *queued)
        assert worker.model.batches == [[0], [1, 2], [3, 4]]


async def test_priority_0_goes_first_and_order_is_kept_within_a_priority() -> None:
    async with gated_worker(max_rows=2) as worker, worker.connect() as client:
        futures = [client.start(DIGEST, rows(0))[1]]
        await worker.model.began(1)
        futures += [
            client.start(DIGEST, rows(x), priority=p)[1] for x, p in ((1, 1), (2, 1), (3, 0), (4, 1), (5, 0))
        ]
        await eventually(lambda: worker.batcher.queued_rows == 5, "five rows queued")
        worker.model.permit(4)
        results = await asyncio.gather(*futures)
        assert worker.model.batches == [[0], [3, 5], [1, 2], [4]]
        assert [float(result.outputs[0, 0]) for result in results] == [0, 10, 20, 30, 40, 50]


async def test_more_rows_than_a_batch_are_split_and_joined() -> None:
    async with gated_worker(max_rows=4, max_queued_rows=8) as worker, worker.connect() as client:
        worker.model.permit(9)
        values = list(range(30))
        result = await client.ask(DIGEST, rows(*values))
        assert result.outputs[:, 0].tolist() == [10 * x for x in values]
        assert result.batch_rows == 4
        assert [len(batch) for batch in worker.model.batches] == [4] * 7 + [2]


async def test_one_bad_row_fails_alone() -> None:
    async with gated_worker(max_rows=4) as worker, worker.connect() as client:
        futures = [client.start(DIGEST, rows(1))[1]]
        await worker.model.began(1)
        futures += [client.start(DIGEST, rows(x))[1] for x in (2, BAD_ROW, 3)]
        await eventually(lambda: worker.batcher.queued_rows == 3, "three rows queued")
        worker.model.permit(9)
        bad = futures.pop(2)
        results = await asyncio.gather(*futures)
        assert [float(result.outputs[0, 0]) for result in results] == [10, 20, 30]
        assert await code_of(bad) == "model_error"
        assert worker.counts.failed == 1


async def test_a_wrong_number_of_output_rows_is_nobodys_answer() -> None:
    async with gated_worker() as worker, worker.connect() as client:
        worker.model.permit(9)
        with pytest.raises(Failed, match=r"the model gave \(1, 1\) for 2 rows"):
            await client.ask(DIGEST, rows(SHORT_ROW, 2))
        assert (await client.ask(DIGEST, rows(2))).outputs.tolist() == [[20]]


async def test_when_the_device_is_lost_everyone_is_told_and_nobody_hangs() -> None:
    async with gated_worker(max_rows=1) as worker, worker.connect() as client, worker.connect() as other:
        fatal = client.start(DIGEST, rows(FATAL_ROW))[1]
        await worker.model.began(1)
        waiting = other.start(DIGEST, rows(1))[1]
        await eventually(lambda: worker.batcher.queued_rows == 1, "one row queued")
        worker.model.permit(1)
        assert await code_of(fatal) == "live_unavailable"
        assert await code_of(waiting) == "not_ready"  # no batch had taken it: another replica may
        assert await code_of(client.start(DIGEST, rows(2))[1]) == "not_ready"
        assert worker.server.open_jobs == 0
        assert len(worker.died) == 1


BAD_REQUESTS: dict[str, tuple[str, list[Tensor], int, str]] = {
    "another bundle": ("ff" * 32, rows(1), 0, "not_ready"),
    "an input too many": (DIGEST, rows(1) * 2, 0, "invalid_features"),
    "another dtype": (DIGEST, [np.ones((1, 1), np.int64)], 0, "invalid_features"),
    "another width": (DIGEST, [np.ones((1, 2), np.float32)], 0, "invalid_features"),
    "another rank": (DIGEST, [np.ones((1,), np.float32)], 0, "invalid_features"),
    "no rows": (DIGEST, [np.ones((0, 1), np.float32)], 0, "invalid_request"),
    "no tensors": (DIGEST, [], 0, "invalid_features"),
    "an unknown priority": (DIGEST, rows(1), 7, "invalid_request"),
}


async def test_a_bad_request_fails_alone_before_batching() -> None:
    async with gated_worker(max_rows=16, max_queued_rows=16) as worker, worker.connect() as client:
        first = client.start(DIGEST, rows(0))[1]
        await worker.model.began(1)
        good, bad = [], []
        for number, (digest, tensors, priority, code) in enumerate(BAD_REQUESTS.values()):
            bad.append((client.start(digest, tensors, priority=priority)[1], code))
            good.append(client.start(DIGEST, rows(number))[1])
        broken = wire.request(wire.Request(9999, wire.version_tag(DIGEST), 0, 0, rows(1)))
        cut_short = (len(broken) - 6).to_bytes(4, "little") + broken[4:-2]
        bad.append((client.expect(9999), "invalid_request"))
        client.send(cut_short)
        assert [await code_of(future) for future, _ in bad] == [code for _, code in bad]
        worker.model.permit(2)
        await asyncio.gather(first, *good)
        assert len(worker.model.batches) == 2
        assert worker.counts.invalid == len(bad)


async def wait_closed(client: WireClient) -> None:
    async with asyncio.timeout(5):
        await client.is_closed.wait()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        wire.cancel(1),
        wire.hello({}, (7, 9)),
        wire.hello({}) + wire.status({}),
        wire.hello({}) + b"\xff\xff\xff\xff\x02",
        wire.hello({}) + b"\x02\x00\x00\x00\x02\x00",
    ],
    ids=["http", "no hello", "other wire versions", "a frame of the other side", "too long", "no id"],
)
async def test_who_breaks_the_protocol_is_disconnected_and_others_are_not(sent: bytes) -> None:
    async with gated_worker() as worker, worker.connect() as good:
        async with WireClient.connect(worker.address, say_hello=False) as bad:
            bad.send(sent)
            await wait_closed(bad)
        worker.model.permit(1)
        assert (await good.ask(DIGEST, rows(1))).outputs.tolist() == [[10]]


async def test_a_client_that_sends_without_end_and_no_hello_is_cut_off() -> None:
    async with gated_worker() as worker, WireClient.connect(worker.address, say_hello=False) as bad:
        bad.send(b"\xff\xff\xff\x03\x01" + bytes(2 << 20))
        await wait_closed(bad)


async def test_an_id_used_twice_at_a_time_ends_the_connection() -> None:
    async with gated_worker() as worker, worker.connect() as bad:
        frame = wire.request(wire.Request(5, wire.version_tag(DIGEST), 0, 0, rows(1)))
        bad.send(frame + frame)
        await wait_closed(bad)
        await eventually(lambda: worker.server.open_jobs == 0, "its jobs are gone")
