"""What a choice is compared with: other ways to use the same number of slots, replayed over the same trace."""

from collections.abc import Callable, Collection, Mapping

import numpy as np

from batch_scoring.hotset.choice import by_worth
from batch_scoring.hotset.expected import realised
from batch_scoring.hotset.policies import Lfu, Lru, Policy, Sieve, WTinyLfu, belady_hits
from batch_scoring.hotset.split import Bools
from batch_scoring.hotset.trace import Floats, Trace, Windows

POLICIES: Mapping[str, Callable[[int], Policy]] = {"lru": Lru, "lfu": Lfu, "wtinylfu": WTinyLfu, "sieve": Sieve}
# Sets chosen once a window, and what nobody could do who does not know the future.
SETS = ("random", "last_window", "past_top", "static_oracle")
NAMES = (*POLICIES, *SETS, "belady")


def baseline_hits(
    trace: Trace,
    windows: Windows,
    slots: int,
    ttl_s: float | None,
    seed: int,
    advance: Callable[[], None],
    names: Collection[str] = NAMES,
) -> dict[str, Bools]:
    """(n,) hits of each baseline of `names`."""
    found = {}
    for name in names:
        if name in POLICIES:
            found[name] = policy_hits(trace, POLICIES[name](slots), ttl_s)
            advance()
        elif name in SETS:
            found[name] = _set_hits(trace, windows, name, slots, seed)
        else:
            found[name] = belady_hits(trace.codes, slots)
            advance()
    return found


def policy_hits(trace: Trace, policy: Policy, ttl_s: float | None) -> Bools:
    """(n,) hits. A result older than `ttl_s` is a miss, and written anew."""
    codes = trace.codes.tolist()
    if ttl_s is None:
        return np.fromiter(map(policy.ask, codes), np.bool_, len(codes))
    written_s: dict[int, float] = {}
    hits = np.zeros(len(codes), np.bool_)
    for at, (key, now_s) in enumerate(zip(codes, trace.times_s.tolist(), strict=True)):
        if now_s - written_s.get(key, now_s) >= ttl_s:
            policy.drop(key)
        hits[at] = policy.ask(key)
        if not hits[at]:
            written_s[key] = now_s
    return hits


def _set_hits(trace: Trace, windows: Windows, name: str, slots: int, seed: int) -> Bools:
    hits = np.zeros(len(trace.codes), np.bool_)
    random = np.random.default_rng(seed)
    for window in range(len(windows)):
        span = windows.span(window)
        if span.start < span.stop and (span.start or name == "static_oracle"):
            worth = _worth(trace, windows, name, window, random)
            is_chosen = np.zeros(trace.entities, np.bool_)
            is_chosen[by_worth(worth, worth, trace, slots)] = True
            hits[span] = is_chosen[trace.codes[span]]
    return hits


def _worth(trace: Trace, windows: Windows, name: str, window: int, random: np.random.Generator) -> Floats:
    if name == "static_oracle":
        return realised(trace, windows, window)
    if name == "last_window":
        last = window - 1
        while windows.first[last] == windows.first[last + 1]:  # closed days
            last -= 1
        return realised(trace, windows, last)
    counts = _counts(trace, windows.past(window))
    return counts if name == "past_top" else (counts > 0) * (1 - random.random(len(counts)))


def _counts(trace: Trace, past: slice) -> Floats:
    return np.bincount(trace.codes[past], minlength=trace.entities).astype(np.float64)


def seen_before(trace: Trace, windows: Windows, window: int) -> Bools:
    """(requests of the window,) whether the entity was asked for in the past that a choice looks at."""
    return np.asarray(_counts(trace, windows.past(window))[trace.codes[windows.span(window)]] > 0)
