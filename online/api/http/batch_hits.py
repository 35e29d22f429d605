"""The short way of the hits of a batch; `hits.py` has that of single ones. One look-up for all.

What turns out to be no plain hit goes the general way, with the replies it has. A test holds the answers of both
ways against each other.
"""

from collections.abc import Sequence

from online.api.answering.asking import NO_WISH, Asking
from online.api.answering.l1 import L1, Kept
from online.api.answering.outcome import Item
from online.api.http.lanes import Lane, Lanes
from online.api.http.turns import Turns
from online.api.lookup.connection import RedisDown, RedisSlow
from online.api.lookup.invalidations import Invalidations
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import Command

# An answer; or Redis's replies, or why there are none; or nothing, where an item is not to be looked up.
Found = Kept | list[object] | Exception | None


class BatchHits:
    """Holds no state of a request.

    Attributes:
        turns: of all work on batches, since a thousand items take tens of milliseconds each time.
    """

    def __init__(self, lanes: Lanes, link: RedisLink, l1: L1, invalidations: Invalidations) -> None:
        self._lanes, self._link, self._l1, self._invalidations = lanes, link, l1, invalidations
        self.turns = Turns()

    def lane(self, asking: Asking) -> Lane | None:
        """None where the batch goes the general way as a whole."""
        if asking.wish is not NO_WISH or self._invalidations.of(asking.view.document.model) is None:
            return None
        return self._lanes.of(asking.view)

    async def look_up(self, lane: Lane, items: Sequence[Item]) -> list[Found]:
        """What is stored of each item, in order. `lane` is that of the batch."""
        marks = self._invalidations.of(lane.version.model) or {}
        found: list[Found] = [None] * len(items)
        commands: list[Command] = []
        asked: list[int] = []
        prefix, l1 = lane.version.l1_prefix, self._l1
        for place, item in enumerate(items):
            if item.record is not None:
                continue
            raw = item.raw
            if l1.keeps and raw not in marks and (kept := l1.get(prefix + raw)) is not None:
                found[place] = kept
            else:
                commands += lane.questions(raw)
                asked.append(place)
        if not asked:
            return found
        try:
            replies = await self._link.ask(commands)
            await self.turns.next()
        except (RedisSlow, RedisDown) as error:
            for place in asked:
                found[place] = error
            return found
        for place, precomputed, written_back in zip(asked, replies[::2], replies[1::2], strict=True):
            raw = items[place].raw
            kept = None if raw in marks else lane.kept(raw, precomputed, written_back, l1)
            found[place] = [precomputed, written_back] if kept is None else kept
        return found
