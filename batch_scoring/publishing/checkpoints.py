"""Which parts of a generation are in Redis: a small file for each, made when its last bucket was.

One holds for the attempt and for the life of Redis that it names: what Redis may have lost is written again.
"""

from collections.abc import Sequence

from batch_scoring.files import read_json, remove, write_json
from batch_scoring.runs import Run
from batch_scoring.score_files import Part

FOLDER = "published"


def keep(run: Run, part: Part, attempt: str, life: str) -> None:
    write_json(_url(run, part), _content(part, attempt, life))


def left(run: Run, parts: Sequence[Part], attempt: str, life: str) -> list[int]:
    """Places of the parts that are still to be written."""
    return [place for place, part in enumerate(parts) if not _is_done(run, part, attempt, life)]


def forget_all(run: Run) -> None:
    remove(run.place(FOLDER))


def _is_done(run: Run, part: Part, attempt: str, life: str) -> bool:
    try:
        return read_json(_url(run, part)) == _content(part, attempt, life)
    except ValueError:  # cut short by a full disk
        return False


def _content(part: Part, attempt: str, life: str) -> dict[str, object]:
    return {"attempt": attempt, "redis": life, "rows": part.rows, "sha256": part.sha256}


def _url(run: Run, part: Part) -> str:
    return run.place(f"{FOLDER}/{part.name.removesuffix('.parquet')}.json")
