"""Files of a night on any fsspec URL: JSON documents and folders that appear whole or not at all."""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec
import orjson
from fsspec.core import url_to_fs

from schemas.settings import BadSettings

if TYPE_CHECKING:  # takes most of a second to import, which a rollback has no use for
    import pyarrow as pa
    import pyarrow.dataset as ds


def file_system(url: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """The file system of a URL, and the path on it; a local path becomes absolute.

    Raises:
        BadSettings: no client for such an address is installed.
    """
    try:
        filesystem, path = url_to_fs(url)
    except (ImportError, ValueError) as error:
        scheme = f"{url.partition('://')[0]}://"
        raise BadSettings(f"{scheme} addresses cannot be read or written here: {error}") from None
    return filesystem, path.rstrip("/")


def spark_url(url: str) -> str:
    """The URL as Spark wants it: local paths absolute, with a scheme."""
    # Not `as_uri`: it would escape the `=` of partition folders, which Spark then takes for part of a name.
    return url if "://" in url else f"file://{Path(url).absolute()}"


def read_json(url: str) -> dict[str, object] | None:
    """The document, or None where there is no such file. Raises ValueError where it is no JSON object."""
    filesystem, path = file_system(url)
    if not filesystem.exists(path):
        return None
    document = orjson.loads(filesystem.cat_file(path))
    if not isinstance(document, dict):
        raise ValueError(f"{url} is no JSON object")
    return document


def write_json(url: str, document: dict[str, object]) -> None:
    """Replaces the document in one step."""
    filesystem, path = file_system(url)
    filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    staged = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        filesystem.pipe_file(staged, orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))
        filesystem.mv(staged, path)
    except OSError:
        remove(staged)  # a full disk takes a part of it
        raise


def create_json(url: str, document: dict[str, object]) -> bool:
    """Makes the document, unless there is one: of two who try, one succeeds."""
    filesystem, path = file_system(url)
    filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    data = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    try:
        filesystem.pipe_file(path, data, mode="create")
    except FileExistsError:
        return False
    return True


def exists(url: str) -> bool:
    filesystem, path = file_system(url)
    return bool(filesystem.exists(path))


def remove(url: str) -> None:
    """Removes a file or folder; one that is not there is fine."""
    filesystem, path = file_system(url)
    with suppress(FileNotFoundError):
        filesystem.rm(path, recursive=True)


def absolute(url: str) -> str:
    """The same place, whatever the working directory."""
    return url.rstrip("/") if "://" in url else str(Path(url).absolute())


def write_parquet(url: str, schema: "pa.Schema", tables: "Iterable[pa.Table]") -> int:
    """Writes tables of exactly this schema as a folder of one file, whole or not at all; returns the rows."""
    import pyarrow.parquet as pq

    rows = 0
    with staged_folder(url) as staged:
        filesystem, path = file_system(staged)
        filesystem.makedirs(path, exist_ok=True)
        with filesystem.open(f"{path}/part-0.parquet", "wb") as file, pq.ParquetWriter(file, schema) as writer:
            for table in tables:
                writer.write_table(table.cast(schema))
                rows += table.num_rows
    return rows


@contextmanager
def staged_folder(url: str) -> Iterator[str]:
    """Gives the URL of a folder to write to; what is in it is moved to `url` when the block ends without error.

    What an earlier attempt left at `url` is replaced; what a failed block wrote is removed.
    """
    filesystem, path = file_system(url)
    parent, _, name = path.rpartition("/")
    filesystem.makedirs(parent, exist_ok=True)
    staged = f"{parent}/_{name}-{uuid.uuid4().hex}"
    try:
        yield spark_url(staged) if "://" not in url else filesystem.unstrip_protocol(staged)
        if filesystem.exists(path):
            filesystem.rm(path, recursive=True)
        filesystem.mv(staged, path, recursive=True)
    finally:
        if filesystem.exists(staged):
            filesystem.rm(staged, recursive=True)


def dataset(url: str) -> "ds.Dataset":
    """The Parquet files below a folder, in a stable order; none gives a dataset without rows."""
    import pyarrow.dataset as ds

    filesystem, path = file_system(url)
    paths = sorted(p for p in filesystem.find(path) if p.endswith(".parquet"))
    return ds.dataset(paths, format="parquet", filesystem=filesystem)
