"""A version whose workers die as soon as they are started: the pauses grow up to a bound, the node stays up."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from schemas.bundle import Bundle
from tests.support.inference import NodeProcess

pytestmark = pytest.mark.fault


async def test_the_pauses_before_a_restart_grow_up_to_a_bound(
    tmp_path: Path, bundles_folder: Path, bundle: Bundle
) -> None:
    settings = {"restart_pause_s": 0.1, "restart_pause_max_s": 0.5}
    with NodeProcess.run(tmp_path, [f"{bundle.folder}@{bundle.digest}"], [bundles_folder], **settings) as node:

        def pauses_s() -> list[str]:
            begin = "version failed, next start in "
            told = [str(record["message"]) for record in list(node.logs)]
            return [message.removeprefix(begin).split(" ")[0] for message in told if message.startswith(begin)]

        async with asyncio.timeout(30):
            while len(pauses_s()) < 5:
                for pid in node.worker_pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                await asyncio.sleep(0.02)
        assert pauses_s()[:5] == ["0.1", "0.2", "0.4", "0.5", "0.5"]
        assert (await node.get("/v2/health/ready")).status_code == 503
        assert (await node.get("/v2/health/live")).status_code == 200
        await node.ready(bundle.digest)
