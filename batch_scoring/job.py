"""What the `main` of every step shares: its argument, its settings, its logs, and how it ends."""

import argparse
import logging
import sys
from collections.abc import Callable

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from batch_scoring.faults import NotTaken
from batch_scoring.runs import LOG, Refused, Run
from batch_scoring.settings import BatchSettings
from schemas.bundle import BundleError
from schemas.settings import BadSettings, load_settings

FAILED = 1
REFUSED = 2
Step = Callable[[Run, BatchSettings], dict[str, object]]
StillHolds = Callable[[Run, BatchSettings], bool]


def configure_logs() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)


def step_parser(module: str, description: str) -> argparse.ArgumentParser:
    """Of the step that `python -m module` runs."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--run", required=True, help="address of the run's run.json, as `begin` prints it")
    return parser


def files_hold(run: Run, settings: BatchSettings) -> bool:
    """For steps that write files only, which nobody takes away."""
    return True


def run_step(step: str, work: Step, run_url: str, still_holds: StillHolds = files_hold) -> int:
    """Runs one step of a night, unless it is done already and what it made is still there.

    Returns:
        0, or `REFUSED` (2) where trying again would not help; why is logged in words.
    """
    configure_logs()

    def once() -> int:
        settings = load_settings(BatchSettings)
        run = Run.load(run_url)
        if run.report(step) is not None:
            if still_holds(run, settings):
                LOG.info("%s %s: %s is done already", run.model, run.generation, step)
                return 0
            LOG.info("%s %s: %s again", run.model, run.generation, step)
            # If it is refused this time, the steps after it may not go by what it said before.
            run.forget(step)
        try:
            report = work(run, settings)
        except Refused as refusal:
            _keep_refusal(run, step, refusal)
            raise
        run.finish(step, report)
        return 0

    return guarded(once)


def _keep_refusal(run: Run, step: str, refusal: Refused) -> None:
    try:
        run.refuse(step, refusal)
    except OSError as error:  # the reason that counts is the refusal's
        LOG.warning("the refusal of %s could not be kept beside its run: %s", step, error)


def run_check(step: str, work: Step, run_url: str) -> int:
    """As `run_step` for a step that looks at what is, each time it is called."""
    return run_step(step, work, run_url, lambda run, settings: False)


def guarded(work: Callable[[], int]) -> int:
    """Runs `work`; a refusal becomes a line and the exit status 2, a Redis or disk that fails it a line and 1."""
    try:
        return work()
    except (Refused, BadSettings, BundleError) as refusal:
        LOG.error("refused: %s", refusal)
        return REFUSED
    except (NotTaken, RedisConnectionError, RedisTimeoutError, OSError) as fault:  # OSError: such as a full disk
        LOG.error("failed, and may be tried again: %s", fault)
        return FAILED
