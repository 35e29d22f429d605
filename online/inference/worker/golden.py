"""The golden rows as batches of any size, for warming up and for measuring. No torch here."""

import numpy as np

from schemas.bundle import Bundle, load_transform
from schemas.wire import Tensor


class GoldenRows:
    """Of one bundle.

    Attributes:
        usual: padded length of each text feature in the row in the middle; T(b) is of it. Empty without text.
        paddings: all padded lengths that requests may have, together; empty without text.

    Raises:
        BundleError: the tokenizer may not be used.
    """

    def __init__(self, bundle: Bundle) -> None:
        manifest = bundle.manifest
        self._done = load_transform(bundle.folder, manifest).records([row.record for row in manifest.golden])
        self._names = [tensor.name for tensor in manifest.inputs]
        self.paddings = self._done.paddings()
        self.usual = {
            name: int(np.sort(tokens.lengths)[self._done.rows // 2]) for name, tokens in self._done.texts.items()
        }

    def batch(self, rows: int, lengths: dict[str, int] | None = None) -> list[Tensor]:
        """So many rows, repeated where there are fewer, in wire order; text is padded or cut to `lengths`."""
        taken = self._done.take(np.resize(np.arange(self._done.rows), rows), lengths or self.usual)
        return [taken[name] for name in self._names]
