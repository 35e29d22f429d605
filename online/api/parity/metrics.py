"""Counts of compared hits: the labels are our own enumerations and models of settings."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter

from schemas.parity import Kind, Skip


class ParityMetrics:
    """Made after the worker has its place in the folder of metrics. Every series begins at zero."""

    def __init__(self, models: Iterable[str]) -> None:
        registry = CollectorRegistry()
        self._compared = Counter(
            "hotset_parity",
            "Hits that were computed again, by kind of difference",
            ["model", "kind"],
            registry=registry,
        )
        self._skipped = Counter(
            "hotset_parity_skipped",
            "Hits that were to be computed again and were not",
            ["model", "reason"],
            registry=registry,
        )
        for model in models:
            for kind in Kind:
                self._compared.labels(model, kind.value)
            for reason in Skip:
                self._skipped.labels(model, reason.value)

    def count(self, model: str, kind: Kind | None, skipped: Skip | None) -> None:
        if kind is not None:
            self._compared.labels(model, kind.value).inc()
        if skipped is not None:
            self._skipped.labels(model, skipped.value).inc()
