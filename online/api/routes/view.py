"""What a request needs of a routes document, compiled once: the document with the manifests it names.

A request takes one view and looks at nothing else, so a switch in its midst cannot mix versions or generations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from schemas import wire
from schemas.features import FeatureTransform
from schemas.keys import bucket_prefix, feature_prefix, live_key
from schemas.manifest import Manifest
from schemas.outputs import AnswerMaker
from schemas.routes import FeatureTable, Generation, RoutesDocument


class Loaded(NamedTuple):
    """What is read of a bundle."""

    manifest: Manifest
    transform: FeatureTransform


class Layer(NamedTuple):
    """One precomputed set of a version: a generation, or a delta that patches it. `prefix`: of its buckets."""

    generation: str
    ordinal: int
    buckets: int
    prefix: bytes


@dataclass(frozen=True, slots=True, eq=False)
class VersionView:
    """One routed version.

    Attributes:
        layers: what is looked up, newest first: deltas, then the generation; none where nothing is precomputed.
        previous: the generation before, where a value of it may be answered as stale.
        renewal_ms, stale_ms: by how much a value may be over `max_age_ms` (0 where there is none) while it is
            renewed, and where live cannot answer.
        fallbacks: what to answer then, in order.
        etag_seed: what an answer depends on beside its outputs.
        cache_lines: header lines of answers to GET that a client may keep.
        tensor_names: the model's inputs in wire order.
    """

    model: str
    name: str
    digest: str
    tag: bytes
    manifest: Manifest
    transform: FeatureTransform
    maker: AnswerMaker
    generation: Generation | None
    layers: tuple[Layer, ...]
    previous: Layer | None
    live_prefix: bytes
    l1_prefix: bytes
    output_count: int
    max_age_ms: int | None
    renewal_ms: int
    stale_ms: int
    fallbacks: tuple[Literal["stale", "default"], ...]
    live_ttl_ms: int
    etag_seed: bytes
    cache_lines: bytes
    tensor_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ModelView:
    """One model, as one routes document has it."""

    document: RoutesDocument
    versions: Mapping[str, VersionView]
    stable: VersionView
    features: FeatureTable | None
    feature_prefix: bytes = field(default=b"")

    def resolve(self, entity: bytes) -> VersionView:
        """Which version answers this entity."""
        return self.stable

    def is_routed(self, version: VersionView) -> bool:
        """Whether this document still routes somebody to that version, as the same bundle."""
        mine = self.versions.get(version.name)
        return mine is not None and mine.digest == version.digest


def build_view(document: RoutesDocument, bundles: Mapping[str, Loaded]) -> ModelView:
    """`bundles` by version, for every routed version.

    Raises:
        ValueError: a manifest is of another model or version than the document says.
    """
    versions = {name: _version(document, name, bundles[name]) for name in sorted(document.routed_versions)}
    table = document.features
    return ModelView(
        document=document,
        versions=versions,
        stable=versions[document.stable],
        features=table,
        feature_prefix=feature_prefix(document.model, table.id).encode() if table else b"",
    )


def _version(document: RoutesDocument, name: str, bundle: Loaded) -> VersionView:
    model, manifest = document.model, bundle.manifest
    if (manifest.name, manifest.version) != (model, name):
        raise ValueError(f"the bundle of {model} {name} is {manifest.name} {manifest.version}")
    routed, generation = document.versions[name], document.live_generation(name)
    maker, freshness = AnswerMaker(manifest.output), manifest.freshness
    layers = _layers(model, name, generation)
    can_give = {"stale": freshness.max_stale_s > 0, "default": maker.default is not None}
    fallbacks = tuple(kind for kind in freshness.when_unavailable if can_give[kind])
    return VersionView(
        model=model,
        name=name,
        digest=routed.bundle_digest,
        tag=wire.version_tag(routed.bundle_digest),
        manifest=manifest,
        transform=bundle.transform,
        maker=maker,
        generation=generation,
        layers=layers,
        previous=_previous(model, name, routed.generations) if "stale" in fallbacks else None,
        live_prefix=live_key(model, name, b""),
        l1_prefix=_l1_prefix(routed.bundle_digest, generation, layers),
        output_count=manifest.output.stored_width,
        max_age_ms=None if freshness.max_age_s is None else 1000 * freshness.max_age_s,
        renewal_ms=1000 * freshness.stale_while_revalidate_s,
        stale_ms=1000 * freshness.max_stale_s,
        fallbacks=fallbacks,
        live_ttl_ms=1000 * freshness.live_ttl_s,
        etag_seed=routed.bundle_digest[:16].encode(),
        # Without a rule of the model's own, a client's copy is good only as long as its tag is.
        cache_lines=b"cache-control: private, max-age=%d\r\nvary: x-deadline-ms\r\n" % (freshness.max_age_s or 0),
        tensor_names=tuple(tensor.name for tensor in manifest.inputs),
    )


def _layers(model: str, version: str, generation: Generation | None) -> tuple[Layer, ...]:
    if generation is None:
        return ()
    newest_first = sorted(generation.deltas, key=lambda delta: delta.computed_at_ms, reverse=True)
    return tuple(_layer(model, version, made) for made in (*newest_first, generation))


def _previous(model: str, version: str, generations: Sequence[Generation]) -> Layer | None:
    return _layer(model, version, generations[1]) if len(generations) > 1 else None


def _layer(model: str, version: str, made: Generation) -> Layer:
    return Layer(made.id, made.ordinal, made.buckets, bucket_prefix(model, version, made.id).encode())


def _l1_prefix(digest: str, generation: Generation | None, layers: Sequence[Layer]) -> bytes:
    """By the bundle, whose labels are kept too, and by the newest layer and its time of computation.

    After a loss of Redis a generation's name may come again.
    """
    if generation is None:
        return b""
    newest_ms = max(made.computed_at_ms for made in (generation, *generation.deltas))
    return b"%b:%d:%d:%b" % (digest[:16].encode(), newest_ms, len(layers), layers[0].prefix)
