"""The publish step in a process of its own, without Spark's start: its tasks run one after the other.

`python -m tests.support.publish_plainly --run URL`. All else is the product's step.
"""

from batch_scoring.job import run_step, step_parser
from batch_scoring.publishing.publish_job import STEP, publish, still_holds
from batch_scoring.runs import Run
from batch_scoring.settings import BatchSettings
from tests.support.scored import Here


def step(run: Run, settings: BatchSettings) -> dict[str, object]:
    return publish(run, settings, Here())


def main(argv: list[str] | None = None) -> int:
    return run_step(STEP, step, step_parser(STEP, __doc__ or "").parse_args(argv).run, still_holds)


if __name__ == "__main__":
    raise SystemExit(main())
