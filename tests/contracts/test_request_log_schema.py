"""The request log's schema, column by column: readers elsewhere depend on names and types."""

import pyarrow as pa

from schemas.arrow import HOT_SET, REJECTS, REQUEST_LOG, SCORES, SNAPSHOT

REQUEST_LOG_COLUMNS = """
time: timestamp[us, tz=UTC] not null
request_id: string not null
entity: string
version: string
generation: string
experiment: string
arm: string
source: string
miss_reason: string
status: int16 not null
code: string
label: string
confidence: float
age_ms: int64
total_us: int32 not null
route_us: int32
lookup_us: int32
features_us: int32
queue_us: int32
batch_us: int32
execute_us: int32
post_us: int32
batch_rows: int32
is_caller_features: bool not null
inputs: string
outputs: list<item: float>
"""


def described(schema: pa.Schema) -> list[str]:
    return [f"{f.name}: {f.type}{'' if f.nullable else ' not null'}" for f in schema]


def test_request_log() -> None:
    # `list<item: float>` is how this pyarrow names a list; the element's name is not part of the contract.
    assert described(REQUEST_LOG) == REQUEST_LOG_COLUMNS.strip().splitlines()
    assert REQUEST_LOG.metadata == {b"hotset.request_log": b"1"}


def test_files_of_a_night() -> None:
    assert described(SCORES) == ["entity: string not null", "bucket: int32 not null", "packed: binary not null"]
    assert described(REJECTS) == ["entity: string", "reason: string not null", "detail: string not null"]
    assert described(HOT_SET) == ["entity: string not null", "weight: double not null"]
    assert described(SNAPSHOT) == ["key: uint64 not null", "record: binary not null"]
