"""What Prometheus gets from the site: of each model how the newest drift run and the compared hits of a day are.

The API and the nodes tell of themselves; the drift job is over long before it is scraped, and the site reads its
results anyway. Whatever callers send, the series are those of the site's models.
"""

import time
from collections.abc import Iterator
from math import nan

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from online.monitor.quality.drift import DriftResults, read_drift
from online.monitor.quality.parity import Parity, parity_of
from online.monitor.sources import Sources
from online.monitor.windows import DEFAULT_RANGE, window_at
from schemas.drift import LEVELS, POPULATIONS
from schemas.parity import Kind


class SiteMetrics(Collector):
    """Reads when it is asked, what has changed since."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Nothing: else registering would read everything."""
        return []

    def collect(self) -> Iterator[Metric]:
        now_s = time.time()
        window = window_at(DEFAULT_RANGE, now_s)
        settings = self._sources.settings
        drift = {model: read_drift(settings.data_url, model, self._sources.files) for model in settings.models}
        parity = {model: parity_of(log.read(window)) for model, log in self._sources.parity.items()}
        yield from _of_drift(drift, now_s)
        yield from _of_parity(parity)


def _of_drift(drift: dict[str, DriftResults], now_s: float) -> Iterator[Metric]:
    psi = GaugeMetricFamily(
        "hotset_drift_worst_psi",
        "Largest PSI of a feature or output in the newest window; NaN where nothing is compared",
        labels=("model", "population"),
    )
    found = GaugeMetricFamily(
        "hotset_drift_findings",
        "Features and outputs of the newest window, by level",
        labels=("model", "population", "level"),
    )
    age = GaugeMetricFamily(
        "hotset_drift_age_seconds", "Since the newest drift run; NaN where there was none", labels=("model",)
    )
    for model, results in drift.items():
        for population in POPULATIONS:
            values = [row.psi for row in results.of(population) if row.psi is not None]
            psi.add_metric((model, population), max(values, default=nan))
            for level in LEVELS:
                found.add_metric((model, population, level), results.count(level, population))
        newest = results.newest
        ended = (newest.computed_at or newest.window_end) if newest else None
        age.add_metric((model,), now_s - ended.timestamp() if ended else nan)
    yield from (psi, found, age)


def _of_parity(parity: dict[str, Parity]) -> Iterator[Metric]:
    share = GaugeMetricFamily(
        "hotset_parity_share",
        "Share of the hits compared in the last 24 hours, by kind; NaN where none was",
        labels=("model", "kind"),
    )
    compared = GaugeMetricFamily("hotset_parity_compared", "Hits compared in the last 24 hours", labels=("model",))
    for model, one in parity.items():
        compared.add_metric((model,), one.compared)
        for kind in Kind:
            share.add_metric((model, kind.value), one.kinds[kind.value] / one.compared if one.compared else nan)
    yield from (share, compared)
