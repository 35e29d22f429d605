"""The batch end point: hits by the short way, all else by the general one, in the order asked."""

import time
from collections.abc import Sequence

import orjson

from online.api.answering.answerer import Answerer, LookedUp
from online.api.answering.asking import Asking
from online.api.answering.l1 import Kept
from online.api.answering.outcome import Item, Outcome
from online.api.http.batch_hits import BatchHits
from online.api.http.body import parse_batch, parse_json
from online.api.http.exchange import Exchange
from online.api.http.lanes import Lane, told
from online.api.http.sending import outcome_lines, send, us_since
from online.api.http.teller import Teller
from online.api.lookup.clock import RedisClock
from online.api.requestlog.columns import Row
from online.api.requestlog.hit_columns import whole_row
from online.api.tracing import EXECUTE
from online.errors import ServingError

_Parsed = Sequence[Item | ServingError]
_Answers = Sequence[Kept | Outcome]


class Batches:
    """Holds no state of a request."""

    def __init__(self, answerer: Answerer, hits: BatchHits, teller: Teller, clock: RedisClock) -> None:
        self._answerer, self._hits, self._teller, self._clock = answerer, hits, teller, clock
        self._turns = hits.turns

    async def serve(self, asking: Asking, asked: Exchange) -> None:
        """Raises InvalidRequest, ClientGone."""
        await self._turns.next()
        parsed = parse_batch(parse_json(asked.body))
        route_us, began_ns = us_since(asked.started_ns), time.perf_counter_ns()
        lane = self._hits.lane(asking)
        answers, lookup_us = await self._answers(asking, lane, parsed, began_ns)
        await self._turns.next()
        post_ns = time.perf_counter_ns()
        now_us = self._clock.now_us()
        body = self._body(answers, asked.request_id, now_us // 1000)
        post_us = us_since(post_ns)
        outcomes = [one for one in answers if isinstance(one, Outcome)] or [Outcome(lookup_us=lookup_us)]
        send(asked, 200, body, None, outcome_lines(asking, outcomes, route_us, post_us))
        times_us = (us_since(asked.started_ns), route_us, lookup_us, post_us)
        row = self._log(asking, lane, asked, parsed, answers, now_us, times_us)
        self._teller.trace(asked, asking.view.document.model, row, len(answers))

    async def _answers(
        self, asking: Asking, lane: Lane | None, parsed: _Parsed, began_ns: int
    ) -> tuple[list[Kept | Outcome], int]:
        """What each is told, in order, and what the first look-up took."""
        items = [item for item in parsed if isinstance(item, Item)]
        found = await self._hits.look_up(lane, items) if lane and items else [None] * len(items)
        lookup_us = us_since(began_ns)
        open_ = [place for place, one in enumerate(found) if not isinstance(one, Kept)]
        so_far = LookedUp([one for one in found if not isinstance(one, Kept)], began_ns)
        left = [items[place] for place in open_]
        outcomes = iter(await self._answerer.answer(asking, left, so_far) if left else ())
        answered = iter([one if isinstance(one, Kept) else next(outcomes) for one in found])
        return [next(answered) if isinstance(one, Item) else _refused(asking, one) for one in parsed], lookup_us

    def _body(self, answers: _Answers, request_id: str, now_ms: int) -> bytes:
        text, quoted = self._teller.text, orjson.dumps(request_id)[1:-1]
        texts = [
            told(one, quoted, now_ms) if isinstance(one, Kept) else text(one, request_id, now_ms)
            for one in answers
        ]
        return b'{"results":[%b]}' % b",".join(texts)

    def _log(
        self,
        asking: Asking,
        lane: Lane | None,
        asked: Exchange,
        parsed: _Parsed,
        answers: _Answers,
        now_us: int,
        times_us: tuple[int, int, int, int],
    ) -> Row | None:
        """The row of what took longest. `times_us`: in total, before the look-up, of it, and for the text."""
        sink, request_id = self._teller.sink, asked.request_id
        if sink is None:
            return None
        longest: Row | None = None
        kept: list[Kept] = []
        general_us = (times_us[0], times_us[1], times_us[3])
        for item, one in zip(parsed, answers, strict=True):
            if isinstance(one, Kept):
                kept.append(one)
            else:
                row = self._teller.log(asking.view, request_id, item, one, now_us, general_us)
                if row and (longest is None or (row[EXECUTE] or 0) > (longest[EXECUTE] or 0)):  # type: ignore[operator]
                    longest = row
        if not kept or lane is None:
            return longest
        own_id, numbers = request_id.encode(), (now_us, *times_us)
        sink.hits.add_batch(lane, own_id, kept, numbers)
        return longest or whole_row(lane.version, kept[0], own_id, numbers)


def _refused(asking: Asking, error: ServingError) -> Outcome:
    entity = error.context.get("entity")
    return Outcome(entity=entity if isinstance(entity, str) else None, version=asking.view.stable, error=error)
