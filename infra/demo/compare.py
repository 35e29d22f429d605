"""Precomputed answers beside live ones from the same features: the check that nothing was mixed up on the way."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds

SAMPLE = 200


class NotComparable(Exception):
    """An answer did not come from where it should have."""


@dataclass(frozen=True, slots=True)
class Comparison:
    entities: int
    max_abs_difference: float


async def compare_hits_with_live(url: str, model: str, features: Path, hot: Collection[str]) -> Comparison:
    """Asks for a sample of hot entities twice: by name, and with the features the night computed them from.

    Args:
        features: the night's feature files.

    Raises:
        NotComparable: an answer is no prediction, the first is computed live, or the second is precomputed.
    """
    chosen = sorted(hot)[:: max(1, len(hot) // SAMPLE)]
    dataset = ds.dataset(features, format="parquet")
    rows = dataset.to_table(filter=pc.field("entity").isin(chosen)).to_pylist()
    largest, compared = 0.0, 0
    async with httpx.AsyncClient(base_url=f"{url}/v1/models/{model}", timeout=10) as client:
        for row in rows:
            entity = row["entity"]
            record = {name: _plain(value) for name, value in row.items() if name not in ("entity", "as_of")}
            source, hit = await _outputs(client, {"entity": entity}, {"precomputed", "cached"})
            if source == "cached":  # a look-up that a busy machine delayed was computed live, and kept
                continue
            compared += 1
            _, live = await _outputs(client, {"entity": entity, "features": record}, {"live", "cached"})
            largest = max(largest, *(abs(hit[name] - live[name]) for name in hit))
    return Comparison(compared, largest)


async def _outputs(
    client: httpx.AsyncClient, body: dict[str, object], sources: set[str]
) -> tuple[str, dict[str, float]]:
    answer = (await client.post("/predict", json=body)).json()
    if answer.get("source") not in sources:
        raise NotComparable(f"{body['entity']}: wanted an answer that is {' or '.join(sources)}, got {answer}")
    outputs: dict[str, float] = answer["outputs"]
    return str(answer["source"]), outputs


def _plain(value: object) -> object:
    """A float32 of the feature files as the shortest number that gives it back."""
    if isinstance(value, float):
        return None if np.isnan(value) else float(str(np.float32(value)))
    return value
