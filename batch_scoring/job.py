"""What the `main` of every step shares: its argument, its settings, its logs, and how it ends."""

import argparse
import logging
import sys
from collections.abc import Callable, Sequence

from batch_scoring.runs import LOG, Refused, Run
from batch_scoring.settings import BatchSettings
from schemas.bundle import BundleError
from schemas.settings import BadSettings, load_settings

REFUSED = 2
Step = Callable[[Run, BatchSettings], dict[str, object]]


def configure_logs() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)


def run_step(step: str, work: Step, argv: Sequence[str] | None, description: str) -> int:
    """Runs one step of a night, unless it is done already.

    Returns:
        0, or `REFUSED` (2) where trying again would not help; why is logged in words.
    """
    parser = argparse.ArgumentParser(prog=f"batch_scoring {step}", description=description)
    parser.add_argument("--run", required=True, help="address of the run's run.json, as `begin` prints it")
    given = parser.parse_args(argv)
    configure_logs()
    return guarded(lambda: finish_once(step, work, given.run))


def finish_once(step: str, work: Step, run_url: str) -> int:
    settings = load_settings(BatchSettings)
    run = Run.load(run_url)
    if run.report(step) is not None:
        LOG.info("%s %s: %s is done already", run.model, run.generation, step)
        return 0
    run.finish(step, work(run, settings))
    return 0


def guarded(work: Callable[[], int]) -> int:
    """Runs `work`; what it refuses becomes a line and the exit status 2."""
    try:
        return work()
    except (Refused, BadSettings, BundleError) as refusal:
        LOG.error("refused: %s", refusal)
        return REFUSED
