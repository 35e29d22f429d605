"""A slow and obvious backtest, with none of the product's code: lists, dictionaries, loops over single requests.

Redis's eviction is left out of it: where all that is asked for fits the cache, nothing is evicted.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence

Request = tuple[float, str]


def top(counts: dict[str, float], slots: int) -> list[str]:
    """The largest counts first; of equals, the first by its bytes."""
    asked = [name for name in counts if counts[name] > 0]
    return sorted(asked, key=lambda name: (-counts[name], name.encode()))[:slots]


def decayed(requests: Sequence[Request], begin: float, end: float, half_life: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for when, name in requests:
        if begin <= when < end:
            found[name] = found.get(name, 0.0) + 0.5 ** ((end - when) / half_life)
    return {name: round(total, 9) for name, total in found.items()}


def window_of(requests: Sequence[Request], begin: float, end: float) -> list[str]:
    return [name for when, name in requests if begin <= when < end]


def set_hits(
    requests: Sequence[Request], edges: Sequence[float], history: int, slots: int, kind: str
) -> list[bool]:
    """`last_window`, `past_top` or `static_oracle` of each window, whole trace."""
    hits: list[bool] = []
    for window in range(len(edges) - 1):
        asked = window_of(requests, edges[window], edges[window + 1])
        if kind == "static_oracle":
            source = asked
        elif kind == "past_top":
            source = window_of(requests, edges[max(0, window - history)], edges[window])
        else:
            source, back = [], window
            while back > 0 and not source:
                back -= 1
                source = window_of(requests, edges[back], edges[back + 1])
        chosen = top(dict(Counter(source)), slots)
        hits += [name in chosen for name in asked]
    return hits


def lru_hits(names: Sequence[str], slots: int) -> list[bool]:
    """The last `slots` different names asked for, found by looking back."""
    hits = []
    for at, name in enumerate(names):
        recent = list(OrderedDict.fromkeys(reversed(names[:at])))[:slots]
        hits.append(name in recent)
    return hits


def lfu_hits(names: Sequence[str], slots: int) -> list[bool]:
    """Held names with their counts and when they reached them; all looked at for every eviction."""
    held: dict[str, tuple[int, int]] = {}
    hits = []
    for at, name in enumerate(names):
        hits.append(name in held)
        if name not in held and slots and len(held) == slots:
            del held[min(held, key=held.__getitem__)]
        if slots:
            held[name] = (held.get(name, (0, 0))[0] + 1, at)
    return hits


def sieve_hits(names: Sequence[str], slots: int) -> list[bool]:
    """One list from old to new; the hand is a place in it."""
    queue: list[str] = []
    visited: dict[str, bool] = {}
    hand = 0
    hits = []
    for name in names:
        hits.append(name in queue)
        if name in queue:
            visited[name] = True
            continue
        if not slots:
            continue
        if len(queue) == slots:
            while visited[queue[hand]]:
                visited[queue[hand]] = False
                hand = (hand + 1) % len(queue)
            queue.pop(hand)
            # Behind the newest there is nobody, also when somebody comes in later: on with the oldest.
            hand = hand if hand < len(queue) else 0
        queue.append(name)
        visited[name] = False
    return hits


def belady_best(names: Sequence[str], slots: int) -> int:
    """The most hits there can be: every set of held names is tried, at each request."""
    best: dict[frozenset[str], int] = {frozenset(): 0}
    for name in names:
        after: dict[frozenset[str], int] = {}
        for held, hits in best.items():
            got = hits + (name in held)
            with_it = held | {name}
            options = [held, *([with_it] if len(with_it) <= slots else [with_it - {other} for other in with_it])]
            for option in options:
                if len(option) <= slots:
                    after[option] = max(after.get(option, 0), got)
        best = after
    return max(best.values())


def choice_hits(requests: Sequence[Request], edges: Sequence[float], sets: Sequence[Sequence[str]]) -> list[bool]:
    """With sets that are given, and a cache that holds everything for ever."""
    written: set[str] = set()
    hits: list[bool] = []
    for window in range(len(edges) - 1):
        for name in window_of(requests, edges[window], edges[window + 1]):
            hits.append(name in sets[window] or name in written)
            if name not in sets[window]:
                written.add(name)
    return hits


def window_facts(
    requests: Sequence[Request],
    edges: Sequence[float],
    history: int,
    sets: Sequence[Sequence[str]],
    hits: Sequence[bool],
    window: int,
) -> dict[str, float | None]:
    """Of one window, which has requests; `hits` of the whole trace."""
    begin, end = edges[window], edges[window + 1]
    inside = [(when, name, hit) for (when, name), hit in zip(requests, hits, strict=True) if begin <= when < end]
    asked = [name for _, name, _ in inside]
    before = window_of(requests, edges[max(0, window - history)], begin)
    chosen, last = sets[window], sets[window - 1]
    minutes = sorted({int(when // 60) for when, _, _ in inside})
    in_minute = {minute: [hit for when, _, hit in inside if int(when // 60) == minute] for minute in minutes}
    misses = {minute: found.count(False) for minute, found in in_minute.items()}
    worst = max(minutes, key=lambda minute: (misses[minute], -minute))
    return {
        "hit_rate": sum(hit for _, _, hit in inside) / len(inside),
        "precomputed_hit_rate": sum(name in chosen for name in asked) / len(asked),
        "realised_requests": sum(name in chosen for name in asked),
        "never_read_share": sum(name not in asked for name in chosen) / len(chosen) if chosen else None,
        "unseen_share": sum(name not in before for name in asked) / len(asked),
        "churn": sum(name not in last for name in chosen) / len(chosen) if chosen else None,
        "peak_minute_misses": misses[worst],
        "peak_minute_miss_rate": misses[worst] / len(in_minute[worst]),
    }
