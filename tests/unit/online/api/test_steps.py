"""Steps of the event loop's turn: each for all, and a mistake with one costs the others nothing."""

import asyncio
from collections.abc import Sequence

from online.api.http.steps import Steps


async def test_an_item_that_fails_goes_no_further_and_costs_the_others_nothing() -> None:
    seen = list[tuple[str, object]]()

    def first(item: int) -> bool:
        seen.append(("first", item))
        if item == 2:
            raise ValueError(item)
        return item != 3

    def second(item: int) -> bool:
        seen.append(("second", item))
        return True

    steps = Steps[int](first, second, failed=lambda item, error: seen.append(("failed", item)))
    for item in (1, 2, 3, 4):
        steps.add(item)
    await asyncio.sleep(0)
    assert seen == [
        *(("first", 1), ("first", 2), ("failed", 2), ("first", 3), ("first", 4)),
        *(("second", 1), ("second", 4)),
    ]


async def test_the_last_step_gets_all_that_are_left_at_once() -> None:
    seen = list[object]()

    def last(items: Sequence[int]) -> None:
        seen.append(items)
        if 6 in items:
            raise ValueError(items)

    steps = Steps[int](lambda item: item % 2 == 0, failed=lambda item, error: seen.append(item), last=last)
    for turn in ((1, 2, 3, 4), (5, 7), (6, 8)):
        for item in turn:
            steps.add(item)
        await asyncio.sleep(0)
    assert seen == [[2, 4], [6, 8], 6, 8]
