"""Whether a worker is ready, and what is the matter with each model. Pure reads of the service."""

from online.api.routes.view import ModelView
from online.api.service import Service


def readiness(service: Service) -> tuple[bool, dict[str, object]]:
    """Ready: not draining, and at least one model can answer somebody; the others are reported."""
    models = {model: _model(service, model) for model in service.settings.models}
    is_ready = not service.is_draining and any(told["ready"] for told in models.values())
    return is_ready, {
        "ready": is_ready,
        "draining": service.is_draining,
        "redis": "connected" if service.link.is_open else "unreachable or too slow",
        "models": models,
    }


def _model(service: Service, model: str) -> dict[str, object]:
    view = service.routes.views.get(model)
    refusal = service.routes.refusals.get(model)
    if view is None:
        return {"ready": False, "reason": refusal or "there is no routes document yet"}
    replicas = service.live.warm_replicas(view.stable.digest)
    generation = view.stable.generation
    is_ready = replicas > 0 or generation is not None
    told: dict[str, object] = {
        "ready": is_ready,
        "stable": view.document.stable,
        "generation": generation.id if generation else None,
        "warm_replicas": replicas,
        "features_without_redis": _has_snapshot(service, view),
    }
    if not is_ready:
        told["reason"] = "the stable version has neither a generation nor a warm replica"
    if refusal is not None:
        told["refused_document"] = refusal
    if (failure := service.snapshots.failures.get(model)) is not None:
        told["snapshot"] = failure
    return told


def _has_snapshot(service: Service, view: ModelView) -> bool:
    return view.features is not None and service.snapshots.get(view.document.model, view.features) is not None
