"""One version of a model of ours as a foreign server has it: its path there, its tensors, its golden rows."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote

import numpy as np

from online.api.live.foreign.naming import ForeignModel
from online.api.routes.view import ModelView, VersionView
from schemas.outputs import calibrate, misfits
from schemas.wire import Float32Array, Tensor


class GoldenBatch(NamedTuple):
    """`tensors` in wire order; `expected` (n, W) stored outputs."""

    tensors: list[Tensor]
    expected: Float32Array


class Target:
    """Compiled from a routed version once.

    Attributes:
        path: of the model under a server's base URL, percent-encoded.
        inputs: their names of the input tensors, in wire order.
        wanted: output tensors to ask for; none: all that the server gives.
        outputs: our names of the outputs.
        columns: N, of the model's result, all outputs together.
    """

    def __init__(self, version: VersionView, named: ForeignModel) -> None:
        theirs = named.version_for(version.name)
        self.path = f"/v2/models/{quote(named.model, safe='')}"
        if theirs is not None:
            self.path += f"/versions/{quote(theirs, safe='')}"
        self.model, self.version, self.digest = version.model, version.name, version.digest
        self.inputs = [named.inputs.get(name, name) for name in version.tensor_names]
        self.wanted = list(named.outputs)
        self.outputs = list(version.manifest.output_names)
        self.columns = version.manifest.output.model_width
        self._view = version

    def golden(self) -> Iterator[GoldenBatch]:
        """The bundle's golden rows in batches of one shape; nothing where it has none."""
        manifest = self._view.manifest
        if not manifest.golden:
            return
        done = self._view.transform.records([row.record for row in manifest.golden])
        expected = np.array([row.outputs for row in manifest.golden], dtype=np.float32)
        for group in done.groups():
            for at in range(0, len(group), manifest.max_batch_rows):
                rows = group[at : at + manifest.max_batch_rows]
                taken = done.take(rows)
                tensors = [taken[name] for name in self._view.tensor_names]
                yield GoldenBatch(tensors, expected[rows])

    def misfit(self, batch: GoldenBatch, raw: Float32Array) -> str | None:
        """What is wrong with the model outputs of a golden batch, or None."""
        manifest = self._view.manifest
        found = calibrate(manifest.output, raw)
        for row, column in np.argwhere(misfits(manifest.output, manifest.tolerance, found, batch.expected)):
            name, is_not = manifest.output.stored_names[column], batch.expected[row, column]
            return f"a golden row gives {name} {found[row, column]:.7g}, the bundle says {is_not:.7g}"
        return None


def targets(views: Mapping[str, ModelView], named: Mapping[str, ForeignModel]) -> dict[str, Target]:
    """By digest: every routed version that the servers are said to have."""
    found: dict[str, Target] = {}
    for model, view in views.items():
        theirs = named.get(model) or ForeignModel(model=model)
        for version in view.versions.values():
            if theirs.has(version.name):
                found[version.digest] = Target(version, theirs)
    return found
