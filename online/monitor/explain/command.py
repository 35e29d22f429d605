"""`python -m online.monitor explain REQUEST_ID`: the story of one request, from the request log."""

import argparse
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import fsspec
import orjson

from online.monitor.explain.finding import Search, find, hours_around, ids_of, last_days
from online.monitor.explain.story import lines, story
from online.monitor.explain.words import printable
from online.monitor.settings import MonitorSettings
from schemas.names import REQUESTS, STREAM_SUFFIX, is_name, stream_model

_FULL_STORIES = 3
_MODEL = re.compile(r"model=([^/]+)/?\Z")


def main(argv: Sequence[str], settings: MonitorSettings) -> int:
    """Exit status: 0 found, 1 not found, 2 the log cannot be read or the words are wrong."""
    options = _parser(settings).parse_args(argv)
    streams = None if options.streams_dir is None or not str(options.streams_dir) else Path(options.streams_dir)
    start_s, end_s = hours_around(options.around) if options.around else last_days(options.days)
    try:
        models = [options.model] if options.model else models_of(options.data_url, streams)
        search = find(options.request_id, models, options.data_url, streams, start_s, end_s)
    except (OSError, ValueError, ImportError) as error:
        _say(f"The request log cannot be read: {error}", sys.stderr)
        return 2
    for problem in search.unreadable:
        _say(f"Left out, since it cannot be read: {problem}", sys.stderr)
    told = [story(model, row) for model, row in search.rows]
    if options.json:
        _say(orjson.dumps({"request_id": options.request_id, "rows": told}).decode())
    elif told:
        _tell(told)
    else:
        _say(_not_found(options, models, search, (start_s, end_s)), sys.stderr)
    return 0 if told else 1


def models_of(data_url: str, streams: Path | None) -> list[str]:
    """Every model that has a log, by its folder or a stream. Raises OSError."""
    fs, root = fsspec.core.url_to_fs(data_url)
    folder = f"{str(root).rstrip('/')}/{REQUESTS}"
    try:
        names = fs.ls(folder, detail=False)
    except FileNotFoundError:
        names = []
    found = {match[1] for name in names if (match := _MODEL.search(str(name)))}
    if streams is not None:
        found |= {stream_model(path.name) for path in streams.glob("*" + STREAM_SUFFIX)}
    return sorted(filter(is_name, found))


def _parser(settings: MonitorSettings) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m online.monitor explain", description=__doc__)
    parser.add_argument("request_id", help="as in X-Request-Id; after -- where it begins with a dash")
    parser.add_argument("--model", help="one model only; all that have a log otherwise")
    parser.add_argument(
        "--around", type=_time, help="when it was, ISO 8601, UTC where it says no zone: much faster"
    )
    parser.add_argument("--days", type=int, default=30, help="how far back to look without --around (default 30)")
    parser.add_argument("--data-url", default=settings.data_url, help="data root (default MONITOR_DATA_URL)")
    parser.add_argument(
        "--streams-dir", default=settings.streams_dir, help="the API's log folder (default MONITOR_STREAMS_DIR)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of words")
    return parser


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 2026-11-29T01:59") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _tell(told: Sequence[dict[str, object]]) -> None:
    if len(told) > 1:
        _say(f"{len(told)} answers have this request id: of a batch, or of an id that was used again.\n")
    for place, one in enumerate(told[:_FULL_STORIES]):
        _say("\n" * bool(place) + "\n".join(lines(one)))
    for one in told[_FULL_STORIES:]:
        entity = "–" if one["entity"] is None else printable(str(one["entity"]))
        _say(f"{one['time']}  {one['model']}  {entity}  {one['source'] or one['code']}  {one['total_ms']} ms")


def _not_found(
    options: argparse.Namespace, models: Sequence[str], search: Search, window_s: tuple[int, int]
) -> str:
    begin, end = (f"{datetime.fromtimestamp(s, UTC):%Y-%m-%d %H:%M} UTC" for s in window_s)
    where = f"{options.data_url} and {options.streams_dir}" if options.streams_dir else options.data_url
    kept = ids_of(options.request_id)[-1:]
    return "\n".join(
        [
            f"No answer with the request id {printable(options.request_id)} is in the log.",
            f"Looked for from {begin} to {end}, in {search.files} files and {search.streams} running streams"
            f" of {', '.join(models) or 'no model: there is no log'} under {where}.",
            "Every answer leaves a row, whatever is sampled of inputs and outputs. So one of these is so:",
            "  - it was longer ago, or the retention has removed its hour (--around or --days look elsewhere);",
            "  - it was within the last two seconds: the log is written once a second;",
            "  - another API answered it, whose log is elsewhere (--data-url, --streams-dir);",
            "  - it never got an answer of a model: the client left, or the model does not exist;",
            "  - its row was lost: its worker was killed within the second, or rows were dropped, which",
            '    hotset_events_total{part="request_log"} counts;',
            f"  - its id was another: the API keeps 128 visible ASCII characters, of this one {kept[0]!r}."
            if kept and kept[0] != options.request_id
            else "  - its id is another: answers name it in X-Request-Id.",
        ]
    )


def _say(text: str, out: TextIO | None = None) -> None:
    print(text, file=out or sys.stdout)
