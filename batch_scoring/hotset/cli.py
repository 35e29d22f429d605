"""`python -m batch_scoring.hotset choose|backtest --log PATH`: tried on anybody's log, before adopting anything.

Exit status: 0, 2 where the log or an option is no use (why is said in words), 130 after Ctrl-C.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import orjson
from pydantic import ValidationError

from batch_scoring.hotset import chart, table
from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.options import Options, parser
from batch_scoring.hotset.progress import Progress
from batch_scoring.hotset.report import Document
from batch_scoring.hotset.running import run_backtest, run_choice
from batch_scoring.hotset.trace import BadLog


def main(argv: Sequence[str]) -> int:
    found = parser().parse_args(argv)
    progress = Progress(is_quiet=found.quiet)
    try:
        options = Options.of(found)
        run = run_backtest if found.command == "backtest" else run_choice
        document = run(options, progress)
        _write(document, options.out)
    except KeyboardInterrupt:
        progress.say("interrupted")
        return 130
    except (BadLog, OSError) as error:
        progress.say(f"refused: {error}")
        return 2
    except ValidationError as error:
        progress.say(f"refused: {_in_words(error)}")
        return 2
    if found.json:
        sys.stdout.write(orjson.dumps(document.said).decode() + "\n")
    else:
        table.show(document.said)
        progress.say(f"report.json and report.png are in {options.out}")
    return 0


def _write(document: Document, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.json").write_bytes(orjson.dumps(document.said, option=orjson.OPT_INDENT_2))
    chart.draw(document.said, out / "report.png")
    if document.chosen is not None:
        document.write_chosen(out / "hotset.parquet")


def _in_words(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, one['loc'])) or CostModel.__name__}: {one['msg']}" for one in error.errors()
    )
