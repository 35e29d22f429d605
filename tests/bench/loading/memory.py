"""Peak memory of publish and verify, run as commands of their own, beside how many entities they load."""

import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.bench.scoring.night import Begun, StepFailed

log = logging.getLogger(__name__)

_LOOK_S = 0.05
_KIB = 1024
_SHOWN_CHARACTERS = 2000
DRIVER, WORKER, JVM = "driver", "worker", "jvm"
PUBLISH = ("-m", "batch_scoring.publishing.publish_job")
VERIFY = ("-m", "batch_scoring.publishing", "verify")


@dataclass(frozen=True)
class Loaded:
    """Peak bytes of the publisher's driver, of its largest Python worker, of its JVM, and of the verifier."""

    entities: int
    driver_bytes: int
    worker_bytes: int
    jvm_bytes: int
    verify_bytes: int
    publish_s: float
    verify_s: float


def measure(begun: Begun) -> Loaded:
    """Raises StepFailed where a step does not end well."""
    published, publish_s = _run([*PUBLISH, "--run", begun.url])
    verified, verify_s = _run([*VERIFY, "--run", begun.url])
    found = Loaded(
        begun.rows,
        published[DRIVER],
        published.get(WORKER, 0),
        published.get(JVM, 0),
        verified[DRIVER],
        publish_s,
        verify_s,
    )
    log.info("%s", found)
    return found


def _run(words: Sequence[str]) -> tuple[dict[str, int], float]:
    """Peak bytes of each kind of process, and seconds."""
    peaks: dict[str, int] = {}
    began_s = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([sys.executable, *words], stderr=said, stdout=said)
        try:
            while process.poll() is None:
                for kind, peak in _peaks(process.pid):
                    peaks[kind] = max(peak, peaks.get(kind, 0))
                time.sleep(_LOOK_S)
        finally:
            process.kill()
            process.wait()
        if process.returncode:
            said.seek(0)
            raise StepFailed(f"{' '.join(words)}: {said.read()[-_SHOWN_CHARACTERS:].decode()}")
    return peaks, time.perf_counter() - began_s


def _peaks(root: int) -> Iterator[tuple[str, int]]:
    """Kind and peak resident bytes of the process and of all that it started."""
    left = [root]
    while left:
        pid = left.pop()
        with suppress(OSError):  # it has just ended
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    yield _kind(pid, root, words), int(line.split()[1]) * _KIB
            for thread in Path(f"/proc/{pid}/task").iterdir():
                left += map(int, (thread / "children").read_text().split())


def _kind(pid: int, root: int, words: bytes) -> str:
    if pid == root:
        return DRIVER
    return WORKER if b"pyspark" in words and not words.split(b"\0")[0].endswith(b"java") else JVM
