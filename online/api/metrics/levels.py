"""How a worker and its models stand, read from its parts once a second for the metrics; by the log's thread."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from online.api.metrics.series import ModelLevels
from online.api.routes.view import ModelView

NAN = float("nan")


def model_levels(
    views: Mapping[str, ModelView], now_ms: Callable[[], int], warm_replicas: Callable[[str], int]
) -> dict[str, ModelLevels]:
    """`warm_replicas`: of a bundle's digest."""
    found = {}
    for model, view in list(views.items()):
        generation, replicas = view.stable.generation, warm_replicas(view.stable.digest)
        if generation is None:
            found[model] = ModelLevels(NAN, NAN, replicas)
        else:
            age_s = max(0.0, (now_ms() - generation.computed_at_ms) / 1e3)
            found[model] = ModelLevels(age_s, generation.rows, replicas)
    return found


def disk_free(folder: Path) -> float:
    """Bytes; NaN where that cannot be told."""
    try:
        return float(shutil.disk_usage(folder).free)
    except OSError:
        return NAN
