"""What a request needs of a routes document, compiled once: the document with the manifests it names.

A request takes one view and looks at nothing else, so a switch in its midst cannot mix versions or generations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

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


@dataclass(frozen=True, slots=True, eq=False)
class VersionView:
    """One routed version. `tensor_names` are the model's inputs in wire order."""

    model: str
    name: str
    digest: str
    tag: bytes
    manifest: Manifest
    transform: FeatureTransform
    maker: AnswerMaker
    generation: Generation | None
    bucket_prefix: bytes
    live_prefix: bytes
    l1_prefix: bytes
    output_count: int
    max_age_ms: int | None
    live_ttl_ms: int
    tensor_names: tuple[str, ...]
    gives_default: bool


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
    place = bucket_prefix(model, name, generation.id).encode() if generation else b""
    maker, freshness = AnswerMaker(manifest.output), manifest.freshness
    return VersionView(
        model=model,
        name=name,
        digest=routed.bundle_digest,
        tag=wire.version_tag(routed.bundle_digest),
        manifest=manifest,
        transform=bundle.transform,
        maker=maker,
        generation=generation,
        bucket_prefix=place,
        live_prefix=live_key(model, name, b""),
        # With the time of computation: after a loss of Redis a generation's name may come again.
        l1_prefix=b"%d:%b" % (generation.computed_at_ms if generation else 0, place),
        output_count=len(manifest.output.outputs),
        max_age_ms=None if freshness.max_age_s is None else 1000 * freshness.max_age_s,
        live_ttl_ms=1000 * freshness.live_ttl_s,
        tensor_names=tuple(tensor.name for tensor in manifest.inputs),
        gives_default="default" in freshness.when_unavailable and maker.default is not None,
    )
