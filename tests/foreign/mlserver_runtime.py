"""MLServer's side of the fault test: the linear model of `tests.support.bundles`, from its weights in a file.

Loaded by MLServer, in its own environment. Where the first number is 0.666 it gives NaN.
"""

import json
from pathlib import Path

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Linear(MLModel):
    async def load(self) -> bool:
        told = json.loads((Path(__file__).parent / "weights.json").read_text())
        self._weight = np.array(told["weight"], np.float32)
        self._by_airline = np.array(told["by_airline"], np.float32)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        tensors = {item.name: NumpyCodec.decode_input(item) for item in payload.inputs}
        outputs = tensors["x"] @ self._weight + self._by_airline[tensors["airline"][:, 0]]
        outputs[np.isclose(tensors["x"][:, 0], 0.666), 1] = np.nan
        encoded = NumpyCodec.encode_output("logits", outputs.astype(np.float32))
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=[encoded])
