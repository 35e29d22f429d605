"""The protocol's names of datatypes, and the arrays they stand for. BF16 is not taken: numpy has none."""

import numpy as np

BYTES = "BYTES"
FP32 = "FP32"
INT64 = "INT64"

# Little-endian, as the protocol's binary forms are.
NUMPY: dict[str, np.dtype[np.generic]] = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    INT64: np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    FP32: np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
NUMBERS = tuple(name for name in NUMPY if name != "BOOL")
# By the manifest's word for an input tensor.
OF_TENSOR = {"float32": FP32, "int64": INT64}
