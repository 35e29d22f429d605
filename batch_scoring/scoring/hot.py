"""Which rows are hot: by 64 bits of each hot entity, sorted, that all Python workers of a machine can share.

Eight bytes an entity instead of a table of text in each worker. An entity that is not hot and has the 64 bits of
one that is would be scored too, which is right though nobody asked for it: with ten million hot entities and a
billion others, once in two thousand nights.
"""

from functools import lru_cache
from typing import cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from batch_scoring.files import dataset, file_system

Keys = npt.NDArray[np.uint64]
_FILE = "hot-keys.npy"


def write_hot_keys(hotset_url: str, work_url: str) -> None:
    """Writes the keys of a hot set to the folder where tasks look for them."""
    batches = dataset(hotset_url).to_batches(columns=["entity"])
    keys = np.concatenate([np.empty(0, np.uint64), *(keys_of(batch.column("entity")) for batch in batches)])
    keys.sort()
    filesystem, folder = file_system(work_url)
    with filesystem.open(f"{folder}/{_FILE}", "wb") as file:
        np.save(file, keys)


@lru_cache(maxsize=1)
def hot_keys(work_url: str) -> Keys:
    """The keys, ascending; local ones are mapped, and so are in memory once for all workers."""
    filesystem, folder = file_system(work_url)
    if isinstance(filesystem, LocalFileSystem):
        return cast(Keys, np.load(f"{folder}/{_FILE}", mmap_mode="r"))
    with filesystem.open(f"{folder}/{_FILE}", "rb") as file:
        return cast(Keys, np.load(file))


def are_hot(entities: pa.Array, hot: Keys) -> npt.NDArray[np.bool_]:
    """(n,) which entities are among the hot."""
    keys = keys_of(entities)
    if not len(hot):
        return np.zeros(len(keys), dtype=bool)
    places = np.searchsorted(hot, keys)
    return np.asarray(hot[np.minimum(places, len(hot) - 1)] == keys)


def keys_of(entities: pa.Array) -> Keys:
    """(n,) the same numbers in every process. Source: SipHash with pandas' own key."""
    texts = entities.to_numpy(zero_copy_only=False)
    return cast(Keys, pd.util.hash_array(texts, categorize=False))
