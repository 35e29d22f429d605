"""Which tensors the model of a bundle takes: for requests to the worker and batches of a program alike."""

from collections.abc import Mapping, Sequence

import numpy as np

from schemas.manifest import InputTensor, Manifest, TextFeature
from schemas.transformed import Tensor


class InputShapes:
    """Of one bundle, in wire order."""

    def __init__(self, manifest: Manifest) -> None:
        self.names = [tensor.name for tensor in manifest.inputs]
        self._inputs = [_Input(tensor, manifest.text_features) for tensor in manifest.inputs]
        self._has_text = bool(manifest.text_features)

    def problem(self, tensors: Sequence[Tensor | None], rows: int) -> str | None:
        """What is wrong with the tensors of `rows` rows, or None. A tensor that is missing is None too."""
        for wanted, given in zip(self._inputs, tensors, strict=True):
            if given is None or given.dtype != wanted.dtype or not wanted.fits(given.shape, rows):
                found = "nothing" if given is None else f"{given.shape} {given.dtype}"
                return f"input {wanted.name} must be {wanted.in_words(rows)}, not {found}"
        return self._unequal_parts(tensors) if self._has_text else None

    def _unequal_parts(self, tensors: Sequence[Tensor | None]) -> str | None:
        """Token ids and mask of a feature are of one length."""
        lengths: dict[str, int] = {}
        for wanted, given in zip(self._inputs, tensors, strict=True):
            if wanted.feature is not None and given is not None:
                length = lengths.setdefault(wanted.feature, given.shape[1])
                if length != given.shape[1]:
                    return f"input {wanted.name} must be as long as the other of its feature: {length}"
        return None


class _Input:
    """`feature`: whose text it is part of."""

    def __init__(self, tensor: InputTensor, texts: Mapping[str, TextFeature]) -> None:
        self.name, self.dtype = tensor.name, np.dtype(tensor.dtype)
        self.feature = None if tensor.part is None else tensor.features[0]
        self._widths = (tensor.width,) if self.feature is None else texts[self.feature].length_buckets

    def fits(self, shape: tuple[int, ...], rows: int) -> bool:
        return len(shape) == 2 and shape[0] == rows and shape[1] in self._widths

    def in_words(self, rows: int) -> str:
        return f"({rows}, {' or '.join(map(str, self._widths))}) {self.dtype}"
