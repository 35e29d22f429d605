"""`python -m infra.grafana`: writes the dashboards' JSON; `--check` says whether it is up to date instead."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.grafana.boards import BOARDS
from infra.grafana.panels import dashboard

FOLDER = Path(__file__).parent / "dashboards"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.grafana", description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a file is out of date")
    texts = {FOLDER / f"{board.uid}.json": json.dumps(dashboard(board), indent=1) + "\n" for board in BOARDS}
    if parser.parse_args(argv).check:
        found = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
        if found == texts:
            return 0
        sys.stderr.write("the dashboards are out of date: run `python -m infra.grafana`\n")
        return 1
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
