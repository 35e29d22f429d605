"""What `size` and the site's Plan page are asked, and the one answer to it. Pure."""

from dataclasses import dataclass, replace
from math import nan

from online.planning.answer import Answer
from online.planning.checks import positive
from online.planning.fleets_answer import fleets_answer
from online.planning.prices import SECONDS_PER_MONTH
from online.planning.profile_file import Profile
from online.planning.profile_notes import profile_document, profile_notes
from online.planning.replica import Goal, Replica, size_batch
from online.planning.sizing import size
from online.planning.traffic import Traffic
from online.planning.weights import NOT_ASKED, Weights


@dataclass(frozen=True)
class SizeQuestion:
    """A peak for a device and a goal; None for what is not known.

    Attributes:
        requests_per_month: None for the peak all the time.
        hit_share, cache_share: of the busiest minute, in the hot set; and of the rest, in a cache.
        profile: what the replica's T(b) is from, to tell how sure it is.
    """

    replica: Replica
    goal: Goal
    peak_per_s: float
    requests_per_month: float | None = None
    hit_share: float | None = None
    cache_share: float | None = None
    hit_ms: float | None = None
    weights: Weights = NOT_ASKED
    profile: Profile | None = None

    def traffic(self) -> Traffic:
        """Raises OutOfRange."""
        positive(peak_per_s=self.peak_per_s)
        month = self.requests_per_month
        return Traffic.of_shares(
            self.peak_per_s,
            hit_share=self.hit_share,
            cache_share=self.cache_share,
            requests_per_month=self.peak_per_s * SECONDS_PER_MONTH if month is None else month,
            hit_ms=nan if self.hit_ms is None else self.hit_ms,
        )


def size_answer(question: SizeQuestion) -> Answer:
    """Raises OutOfRange."""
    replica, goal, traffic = question.replica, question.goal, question.traffic()
    notes = profile_notes(question.profile)
    if question.requests_per_month is None:
        notes.append("A million costs as if the peak lasted all month: give --requests-per-month.")
    batch, fleets = size_batch(replica, goal), size(replica, traffic, goal)
    found = fleets_answer(replica, traffic, batch, fleets, goal, [*notes, *question.weights.notes])
    return replace(found, document=found.document | basis_document(question.profile, question.weights))


def basis_document(profile: Profile | None, weights: Weights) -> dict[str, object]:
    """What an answer rests on, beside its numbers."""
    return {**profile_document(profile), "weights_share_of_memory": weights.share_of_memory}
