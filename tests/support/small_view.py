"""A view of the small model, as a worker has it once it follows a routes document; nothing runs."""

from collections.abc import Sequence

from online.api.routes.view import Loaded, ModelView, build_view
from schemas.features import FeatureTransform
from schemas.manifest import Freshness, bundle_digest
from schemas.routes import Generation, RoutesDocument, Version
from tests.support.publish_small import small_manifest


def small_view(generations: Sequence[Generation] = (), freshness: Freshness | None = None) -> ModelView:
    manifest = small_manifest(freshness=freshness)
    document = RoutesDocument(
        model=manifest.name,
        epoch=1,
        revision=1,
        stable=manifest.version,
        versions={
            manifest.version: Version(
                ordinal=1,
                bundle_url="none",
                bundle_digest=bundle_digest(manifest.model_dump_json().encode()),
                generations=tuple(generations),
            )
        },
    )
    return build_view(document, {manifest.version: Loaded(manifest, FeatureTransform(manifest))})
