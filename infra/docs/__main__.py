"""`python -m infra.docs`: writes infra/docs/configuration.md; `--check` says whether it is up to date instead."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from batch_scoring.settings import BatchSettings
from infra.docs.configuration import page
from infra.local.settings import StackSettings
from online.api.settings import ApiSettings
from online.inference.node.settings import InferenceSettings
from online.monitor.settings import MonitorSettings

PAGE = Path(__file__).parent / "configuration.md"
PARTS = (
    ("API (`online.api`)", ApiSettings),
    ("Inference node (`online.inference`)", InferenceSettings),
    ("Analysts' site (`online.monitor`)", MonitorSettings),
    ("Batch jobs (`batch_scoring`)", BatchSettings),
    ("Local stack (`infra.local`)", StackSettings),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 where the page is out of date")
    text = page(PARTS)
    if parser.parse_args(argv).check:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        sys.stderr.write(f"{PAGE.name} is out of date: run `python -m infra.docs`\n")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
