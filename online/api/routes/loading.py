"""From the bytes of a routes document to a view: everything is read and checked before anything is switched."""

from pydantic import ValidationError

from online.api.routes.manifests import ManifestStore
from online.api.routes.view import Loaded, ModelView, build_view
from schemas.bundle import BundleError
from schemas.codec import CODEC_VERSION
from schemas.routes import RoutesDocument


class RefusedDocument(Exception):
    """A routes document that cannot be used; the message says why. The old one stays."""


def parse_document(raw: bytes, model: str) -> RoutesDocument:
    """Raises RefusedDocument."""
    try:
        document = RoutesDocument.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RefusedDocument(f"the routes document is not valid: {place}: {first['msg']}") from None
    if document.model != model:
        raise RefusedDocument(f"the routes document is of model {document.model}")
    for name in document.routed_versions:
        generation = document.live_generation(name)
        for made in (generation, *generation.deltas) if generation else ():
            if made.codec > CODEC_VERSION:
                found = f"generation {made.id} of version {name} has codec {made.codec}"
                raise RefusedDocument(f"{found}, newer than {CODEC_VERSION}: upgrade the API")
    return document


def load_view(document: RoutesDocument, manifests: ManifestStore) -> ModelView:
    """Reads the manifests and tokenizers of the routed versions; may take as long as their store does.

    Raises:
        RefusedDocument: one of them cannot be read, or is not what the document says.
    """
    found = {}
    for name in document.routed_versions:
        version = document.versions[name]
        try:
            place = version.bundle_url, version.bundle_digest
            found[name] = Loaded(manifests.get(*place), manifests.transform(*place))
        except (BundleError, OSError) as error:
            raise RefusedDocument(f"the bundle of version {name} cannot be used: {error}") from None
    try:
        return build_view(document, found)
    except ValueError as error:
        raise RefusedDocument(str(error)) from None
