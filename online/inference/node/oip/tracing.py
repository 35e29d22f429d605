"""The trace that a request is part of, by its `traceparent`: a header, or a key of gRPC's metadata. Pure."""

from collections.abc import Iterable

from online.tracing.context import HEADER, TraceContext, parse

_KEY = HEADER.decode()


def trace_of_header(value: bytes | None) -> TraceContext | None:
    """What the worker's spans are children of; None where the caller has no trace, or does not sample it."""
    given = parse(value) if value is not None else None
    return given if given is not None and given.is_sampled else None


def trace_of_metadata(metadata: Iterable[tuple[str, str | bytes]] | None) -> TraceContext | None:
    """As `trace_of_header`; of several the first counts."""
    value = next((value for key, value in metadata or () if key == _KEY), None)
    return trace_of_header(value.encode("latin-1", "replace") if isinstance(value, str) else value)
