"""Page times of the analysts' site over a large log: a real site process, real files, real HTTP.

`measure_pages` is what `make bench-insight` calls; `python -m tests.bench.insight_pages FOLDER` prints it alone.
"""

import sys
import time
from pathlib import Path

import httpx
import numpy as np
import psutil

from online.monitor.registry import PAGES
from online.monitor.windows import RANGES
from tests.bench.insight_log import now, write_large_log
from tests.bench.insight_nights import write_nights
from tests.bench.json_line import json_line
from tests.support.routed import announce, route
from tests.support.site import Site, running_site, running_valkey

MODEL = "delay"
ROUNDS = 6
_WARM_TIMEOUT_S = 300


def measure_pages(folder: Path, rows: int) -> dict[str, float]:
    """Generates a log of `rows` rows in an empty folder, starts the site on it and asks for every page.

    Each request builds its page anew, and each page is asked for in every time range.

    Returns:
        `page_p95_ms`, `page_p50_ms`, `page_max_ms`: over all registered pages, after warm-up; `page_NAME_p95_ms`:
        of one; `page_cpu_p95_ms` and `page_NAME_cpu_ms`, its median: processor time of the site, which does not
        depend on what else the machine does; `page_rows`: rows of the log; `page_log_write_s`; `page_warm_s`:
        until the site had read the log; `page_compared_warm_s`: and then the compared hits; `page_restart_s`: the
        log on a second start; `page_while_warming_max_ms`: of the Overview meanwhile; `page_rss_mb`: memory.
    """
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    written = write_large_log(folder, MODEL, rows, now())
    found: dict[str, float] = {"page_rows": written, "page_log_write_s": time.monotonic() - begun}
    with running_valkey(folder) as (url, client):
        write_nights(folder, client, MODEL, now())
        route(client, MODEL, age_s=50_000)
        announce(client, "n1", model=MODEL, version="7", tau0_ms=6.0, alpha_ms=1.2, max_batch_rows=64)
        settings = {"REDIS_URL": url, "MODELS": f'["{MODEL}"]'}
        with running_site(folder, has_read=False, **settings) as site, httpx.Client(timeout=60) as http:
            found |= _warm(site, http, written)
            found["page_compared_warm_s"] = _until_compared_are_read(site, http)
            found |= _measure(site, http)
            found["page_rss_mb"] = psutil.Process(site.process.pid).memory_info().rss / 1e6
            assert site.errors == [], site.errors
        with running_site(folder, has_read=False, **settings) as site, httpx.Client(timeout=60) as http:
            found["page_restart_s"] = _warm(site, http, written)["page_warm_s"]
    return found


def _warm(site: Site, http: httpx.Client, written: int) -> dict[str, float]:
    """Asks for the longest range until every row is counted."""
    begun, slowest_ms = time.monotonic(), 0.0
    while time.monotonic() - begun < _WARM_TIMEOUT_S:
        asked = time.monotonic()
        document = http.get(f"{site.url}/overview.json", params={"range": RANGES[-1].key}).json()
        # The first page waits for the first rows, as it should.
        slowest_ms = max(slowest_ms, (time.monotonic() - asked) * 1e3)
        if not document["files_waiting"] and document["requests"] > 0.95 * written:
            return {"page_warm_s": time.monotonic() - begun, "page_while_warming_max_ms": slowest_ms}
        time.sleep(0.2)  # between two looks
    raise AssertionError(f"the site did not read the log within {_WARM_TIMEOUT_S} s")


def _until_compared_are_read(site: Site, http: httpx.Client) -> float:
    begun = time.monotonic()
    query = {"model": MODEL, "range": RANGES[-1].key}
    while http.get(f"{site.url}/quality.json", params=query).json()["problems"]:
        assert time.monotonic() - begun < _WARM_TIMEOUT_S, "the site did not read the compared hits in time"
        time.sleep(0.2)  # between two looks
    return time.monotonic() - begun


def _measure(site: Site, http: httpx.Client) -> dict[str, float]:
    wall: dict[str, list[float]] = {page.slug: [] for page in PAGES}
    cpu: dict[str, list[float]] = {page.slug: [] for page in PAGES}
    for page in PAGES:
        for chosen in RANGES:
            http.get(f"{site.url}/{page.slug}", params={"model": MODEL, "range": chosen.key})
    for _ in range(ROUNDS):
        for page in PAGES:
            for chosen in RANGES:
                asked, used = time.monotonic(), _processor_s(site)
                answer = http.get(f"{site.url}/{page.slug}", params={"model": MODEL, "range": chosen.key})
                wall[page.slug].append((time.monotonic() - asked) * 1e3)
                cpu[page.slug].append((_processor_s(site) - used) * 1e3)
                assert answer.status_code == 200, f"{page.slug}: {answer.status_code}"
    every = np.concatenate([np.array(times) for times in wall.values()])
    every_cpu = np.concatenate([np.array(times) for times in cpu.values()])
    return {
        "page_p50_ms": float(np.quantile(every, 0.5)),
        "page_p95_ms": float(np.quantile(every, 0.95)),
        "page_max_ms": float(every.max()),
        **{f"page_{slug}_p95_ms": float(np.quantile(times, 0.95)) for slug, times in wall.items()},
        "page_cpu_p95_ms": float(np.quantile(every_cpu, 0.95)),
        **{f"page_{slug}_cpu_ms": float(np.median(times)) for slug, times in cpu.items()},
    }


def _processor_s(site: Site) -> float:
    """Of the site's process, to the nanosecond: the clock of a process by its number (`man 2 clock_gettime`)."""
    return time.clock_gettime((~site.process.pid << 3) | 2)


def main(argv: list[str]) -> int:
    folder, rows = Path(argv[1]), int(argv[2]) if len(argv) > 2 else 10_000_000
    sys.stdout.buffer.write(json_line(dict(measure_pages(folder, rows))) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
