"""A worker in which something breaks that nobody expected: those who wait are told, and it ends as crashed."""

import asyncio
import sys
from pathlib import Path

import pytest

from online.inference.report import Report, State
from schemas.bundle import Bundle
from tests.inference.test_node import random_rows
from tests.support.inference import ROOT
from tests.support.wire_client import Failed, WireClient

# The worker's own main, with one method of its own made to raise.
BREAK = """
import sys
from online.inference.worker.{module} import {owner}
def broken(*arguments):
    raise RuntimeError("broken on purpose")
{owner}.{method} = broken
from online.inference.worker.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("module", "owner", "method"),
    [("stage", "Stage", "take"), ("jobs", "Job", "accept")],
    ids=["the device thread", "a call-back of the event loop"],
)
async def test_whoever_waits_is_answered_when_it_dies(
    tmp_path: Path, bundles_folder: Path, bundle: Bundle, module: str, owner: str, method: str
) -> None:
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", BREAK.format(module=module, owner=owner, method=method)),
        *(f"--url={bundle.folder}", f"--digest={bundle.digest}", f"--allowed-url={bundles_folder}"),
        f"--cache={tmp_path}",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert worker.stdout is not None
    try:
        report = Report(State.LOADING)
        while report.state is not State.READY:
            report = Report.from_line(await worker.stdout.readline())
        assert report.address is not None
        async with WireClient.connect(report.address) as client:
            futures = [client.start(bundle.digest, random_rows(1, seed))[1] for seed in range(5)]
            answers = await asyncio.gather(*futures, return_exceptions=True)
            # Those that no batch had taken are said to be not ready: another replica may do them.
            assert {getattr(answer, "code", answer) for answer in answers} <= {"live_unavailable", "not_ready"}
            assert all(isinstance(answer, Failed) and answer.retry_after_ms for answer in answers)
            await client.until(lambda: client.statuses[-1]["state"] == "failed")
            # So is what was on its way when it died.
            with pytest.raises(Failed) as late:
                await client.ask(bundle.digest, random_rows(1, 5))
            assert late.value.code == "not_ready"
        assert await worker.wait() == 1
        *_, last = (await worker.stdout.read()).splitlines()
        assert Report.from_line(last).reason == "RuntimeError: broken on purpose"
    finally:
        if worker.returncode is None:
            worker.kill()
        await worker.wait()
