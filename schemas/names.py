"""Names and places: models, versions, generations, and where each data set lies under the data root.

Standard library only, because DAG files import it. Redis keys are in `keys.py`.
"""

import json
import re
from datetime import UTC, date, datetime

# Spelt with [0-9a-z] and \Z: `$` would let a trailing newline through, `\d` other alphabets' digits.
NAME_PATTERN = r"[a-z0-9][a-z0-9._-]{0,63}"
_NAME = re.compile(NAME_PATTERN + r"\Z")
_GENERATION = re.compile(r"([0-9]{8}T[0-9]{4}Z)-([1-9][0-9]{0,5})\Z")
_INTERVAL_FORMAT = "%Y%m%dT%H%MZ"

MAX_ENTITY_BYTES = 256

TABLES = "tables"
REQUESTS = "requests"
RUNS = "runs"
DRIFT = "drift"
PARITY = "parity"
FEATURE_QUERY_FILE = "features.sql"
# In a run's folder, of its choice of entities: see `hotset_report.py`.
HOTSET_REPORT_FILE = "hotset-report.json"
HOTSET_PICTURE_FILE = "hotset.png"
STREAM_SUFFIX = ".arrows"
# Of an answer, in order: the columns `STAGE_us` of the request log, and `Server-Timing`.
STAGES = ("route", "lookup", "features", "queue", "batch", "execute", "post")
# `request_id` of rows that another system's log brought: it tells none from another.
IMPORTED_ID = "imported"
# In an hour of the request log that was compacted: see `compacted_names`.
COMPACTED_FILE = "_compacted.json"
# In the request log's `inputs`, `{"withheld": true}` stands for a value that is never to be logged: no feature's
# value is an object.
WITHHELD = "withheld"


def is_name(text: str) -> bool:
    """Whether `text` may name a model or a version."""
    return _NAME.match(text) is not None


def check_name(text: str, what: str) -> str:
    """Returns `text`. Raises ValueError where it may not name a `what` (a model, a version)."""
    if not is_name(text):
        raise ValueError(f"{text!r} is not a {what} name: it must match {NAME_PATTERN}")
    return text


def entity_bytes(entity: str) -> bytes:
    """The entity's UTF-8 bytes, by which alone entities are compared.

    Raises:
        ValueError: empty, over 256 bytes, or holding half a surrogate pair.
    """
    try:
        raw = entity.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("entity is not valid Unicode: it holds half of a surrogate pair") from None
    if not 1 <= len(raw) <= MAX_ENTITY_BYTES:
        raise ValueError(f"entity must be 1 to {MAX_ENTITY_BYTES} bytes of UTF-8, not {len(raw)}")
    return raw


def interval_name(as_of: datetime) -> str:
    """`20261128T0200Z` for the moment up to which a night knows the world. Raises ValueError if naive."""
    if as_of.tzinfo is None:
        raise ValueError("as-of time has no time zone")
    return as_of.astimezone(UTC).strftime(_INTERVAL_FORMAT)


def generation_name(as_of: datetime, run_of_interval: int) -> str:
    """`20261128T0200Z-1`: the interval, and which run of it (from 1)."""
    if run_of_interval < 1:
        raise ValueError("runs of an interval count from 1")
    return f"{interval_name(as_of)}-{run_of_interval}"


def parse_generation(generation: str) -> tuple[datetime, int]:
    """The as-of time and the run of it. Raises ValueError where `generation` is no generation's name."""
    match = _GENERATION.match(generation)
    if match is None:
        raise ValueError(f"{generation!r} is not a generation, such as 20261128T0200Z-1")
    as_of = datetime.strptime(match[1], _INTERVAL_FORMAT).replace(tzinfo=UTC)
    return as_of, int(match[2])


def interval_of(generation: str) -> str:
    """The part of a generation's name that orders it: intervals compare as text."""
    parse_generation(generation)
    return generation.rpartition("-")[0]


def requests_model_path(model: str) -> str:
    """The request log of one model, relative to the data root."""
    return f"{REQUESTS}/model={model}"


def requests_hour_path(model: str, hour: datetime) -> str:
    """The partition of one UTC hour of the request log, relative to the data root."""
    utc = hour.astimezone(UTC)
    return f"{requests_model_path(model)}/date={utc:%Y-%m-%d}/hour={utc:%H}"


def compacted_names(document: bytes) -> frozenset[str]:
    """From the bytes of `COMPACTED_FILE`: names of the hour's files whose rows are in compacted files now.

    Whoever would write a file of such a name again has written its rows already. Raises ValueError.
    """
    try:
        return frozenset(map(str, json.loads(document)["files"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{COMPACTED_FILE} has no list of files") from error


def stream_name(model: str, unique: str) -> str:
    """A worker's unrotated stream of the request log, without `STREAM_SUFFIX`; `unique` tells streams apart.

    Each hour's Parquet file that a stream is turned into is called `STREAM.parquet`, so that a reader of both
    counts a row once. No model's name holds a `~`.
    """
    return f"{model}~{unique}"


def stream_model(stream: str) -> str:
    """The model whose rows a stream holds."""
    return stream.partition("~")[0]


def drift_path(model: str, day: date) -> str:
    """Where results of the drift job lie whose window's last day is this one (UTC), relative to the data root."""
    return f"{DRIFT}/model={model}/date={day:%Y-%m-%d}"


def parity_day_path(model: str, day: date) -> str:
    """Hits that the API computed again on one day (UTC), relative to the data root."""
    return f"{PARITY}/model={model}/date={day:%Y-%m-%d}"


def parity_hour_path(model: str, hour: datetime) -> str:
    utc = hour.astimezone(UTC)
    return f"{parity_day_path(model, utc.date())}/hour={utc:%H}"


def run_path(model: str, generation: str) -> str:
    """The folder that holds everything of one night, relative to the data root."""
    return f"{RUNS}/model={model}/{generation}"


def runs_path(model: str) -> str:
    return f"{RUNS}/model={model}"


def is_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8, which half of a surrogate pair cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
