"""Prometheus metrics of the node, read from its versions when they are scraped.

Labels are the configured versions and fixed words, so the number of series does not grow. Counters are sums over
all workers that a version has had.
"""

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from online.inference.node.version import Version
from online.inference.report import BUSY_BOUNDS_S, ROWS_BOUNDS, bucket_name

_PREFIX = "hotset_inference_"
_LABELS = ["model", "version"]
# Name, help, the worker's count it is, and what that has to be multiplied by.
_COUNTERS = (
    ("batches", "Batches executed.", "batches", 1.0),
    ("rows", "Rows executed.", "rows", 1.0),
    ("out_of_memory", "Batches that did not fit into memory at first.", "out_of_memory", 1.0),
    ("failed_batches", "Batches that the model failed.", "failed_batches", 1.0),
    ("busy_seconds", "Time for which the device was busy.", "busy_ns", 1e-9),
    ("queue_seconds", "Time that rows waited for their batch, summed over rows.", "queue_ns", 1e-9),
    ("emulated_overruns", "Batches that took longer than the emulated device.", "overruns", 1.0),
)
_OUTCOMES = ("answered", "overloaded", "not_ready", "deadline_exceeded", "cancelled", "invalid", "failed")

_Values = list[tuple[list[str], float | None]]


class NodeMetrics(Collector):
    """`text` is the answer to a scrape."""

    def __init__(self, versions: Sequence[Version], device: str) -> None:
        self._versions, self._device = versions, device
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        named = _named(self._versions)
        yield _gauge("device_info", "The device, as set.", [([self._device], 1.0)], ["device"])
        yield _gauge("ready", "Whether the version is warm.", [(n, float(v.is_ready)) for n, v in named])
        yield _gauge("queued_rows", "Rows that wait.", [(n, v.report.queued_rows) for n, v in named])
        ages: _Values = [(n, v.report.queue_age_ms / 1e3) for n, v in named]
        yield _gauge("queue_age_seconds", "For how long the first of them has waited.", ages)
        yield _gauge("executing_rows", "Rows on the device.", [(n, v.report.executing_rows) for n, v in named])
        yield _gauge("busy_share", "Of the last second.", [(n, v.report.busy_share) for n, v in named])
        yield _gauge("tau0_ms", "Fitted fixed time of a batch.", [(n, v.report.tau0_ms) for n, v in named])
        yield _gauge("alpha_ms", "Fitted time of a row.", [(n, v.report.alpha_ms) for n, v in named])
        yield _counter("loads", "Workers started.", [(n, v.loads) for n, v in named])
        yield _counter("restarts", "Workers started after another ended.", [(n, v.restarts) for n, v in named])
        for name, text, count, factor in _COUNTERS:
            yield _counter(name, text, [(n, v.counts[count] * factor) for n, v in named])
        times = [(n, v.load_s) for n, v in named]
        yield _gauge("load_seconds", "From start to warm, of the worker that is in service.", times)
        yield _histogram("batch_rows", "Rows of a batch.", named, "rows", ROWS_BOUNDS, "rows", 1.0)
        yield _histogram(
            "batch_seconds",
            "For how long a batch occupied the device.",
            named,
            "busy",
            BUSY_BOUNDS_S,
            "busy_ns",
            1e-9,
        )
        outcomes = [([*n, outcome], v.counts[outcome]) for n, v in named for outcome in _OUTCOMES]
        yield _counter("requests", "Requests by outcome.", [*outcomes], [*_LABELS, "outcome"])


def _named(versions: Sequence[Version]) -> list[tuple[list[str], Version]]:
    """Labels of each version. A bundle whose manifest was never read has no name but its digest; neither has one
    that bears another's name, since a scrape with two series of the same labels is refused whole."""
    named: dict[tuple[str, str], Version] = {}
    for version in versions:
        digest = version.bundle.digest[:12]
        labels = (version.model or "unknown", version.name or digest)
        named[(labels[0], digest) if labels in named else labels] = version
    return [(list(labels), version) for labels, version in named.items()]


def _gauge(name: str, text: str, values: _Values, labels: list[str] = _LABELS) -> Metric:
    family = GaugeMetricFamily(_PREFIX + name, text, labels=labels)
    for names, value in values:
        if value is not None:
            family.add_metric(names, value)
    return family


def _counter(name: str, text: str, values: _Values, labels: list[str] = _LABELS) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, text, labels=labels)
    for names, value in values:
        if value is not None:
            family.add_metric(names, value)
    return family


def _histogram(
    name: str,
    text: str,
    named: list[tuple[list[str], Version]],
    histogram: str,
    bounds: Sequence[float],
    total: str,
    factor: float,
) -> Metric:
    """Of the counts by bucket that workers report; `total` is the count that is the sum of the values."""
    family = HistogramMetricFamily(_PREFIX + name, text, labels=_LABELS)
    for names, version in named:
        counts, below, buckets = version.counts, 0, []
        for place, bound in enumerate((*bounds, float("inf"))):
            below += counts[bucket_name(histogram, place)]
            buckets.append((floatToGoString(bound), below))  # type: ignore[no-untyped-call]
        family.add_metric(names, buckets, counts[total] * factor)
    return family
