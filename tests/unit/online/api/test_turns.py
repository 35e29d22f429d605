"""One long piece of work a round of the event loop, in order, whoever of those that wait goes away."""

import asyncio

from online.api.http.turns import Turns


async def rounds_of(turns: Turns, workers: int, cancelled: frozenset[int] = frozenset()) -> list[tuple[int, int]]:
    """(round, worker) of each turn; all ask in the same round."""
    now, had = 0, []

    async def work(number: int) -> None:
        await turns.next()
        had.append((now, number))

    tasks = [asyncio.create_task(work(number)) for number in range(workers)]
    for now in range(3 * workers):
        await asyncio.sleep(0)
        if now == 0:
            for number in cancelled:
                tasks[number].cancel()
    return had


async def test_each_round_has_one_turn_and_order_is_kept() -> None:
    had = await rounds_of(Turns(), 5)
    assert [number for _, number in had] == [0, 1, 2, 3, 4]
    rounds = [at for at, _ in had]
    assert sorted(set(rounds)) == rounds, "two had the same round"


async def test_who_goes_away_is_passed_over_and_later_ones_need_not_wait() -> None:
    turns = Turns()
    had = await rounds_of(turns, 5, frozenset({1, 2}))
    assert [number for _, number in had] == [0, 3, 4]
    await asyncio.wait_for(turns.next(), 1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await rounds_of(turns, 1) == [(0, 0)], "a free turn is had at once"
