"""What a service's `/metrics` says, parsed as Prometheus parses it."""

from collections.abc import Mapping

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families


class Scraped:
    """One scrape."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families: list[Metric] = list(text_string_to_metric_families(text))

    @property
    def series(self) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        """Name and sorted labels of each."""
        return {
            (one.name, tuple(sorted(one.labels.items()))) for family in self.families for one in family.samples
        }

    @property
    def labels_by_name(self) -> Mapping[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name, labels in self.series:
            found.setdefault(name, set()).update(label for label, _ in labels)
        return found

    def total(self, name: str, **labels: str) -> float:
        """Of all series of this name that have these labels; 0 where there is none."""
        samples = [one for family in self.families for one in family.samples if one.name == name]
        return sum(one.value for one in samples if labels.items() <= one.labels.items())
