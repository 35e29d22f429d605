"""What the dashboards show: answers, the live tier, the parts in between, and whether the model is still right."""

from infra.grafana.panels import MODEL, Board, Panel

_RATE = "[5m]"


def _rate(metric: str, by: str, matchers: str = MODEL) -> str:
    return f"sum by ({by}) (rate({metric}{{{matchers}}}{_RATE}))"


def _quantile(share: float, metric: str, by: str, matchers: str = MODEL) -> str:
    return f"histogram_quantile({share}, {_rate(f'{metric}_bucket', f'{by}, le', matchers)})"


def _event(part: str, events: str) -> str:
    return _rate("hotset_events_total", "event", f'part="{part}",event=~"{events}"')


def _level(part: str, whats: str) -> str:
    return f'sum by (what) (hotset_level{{part="{part}",what=~"{whats}"}})'


def _mean(metric: str, by: str, matchers: str = MODEL) -> str:
    return f"{_rate(f'{metric}_sum', by, matchers)} / {_rate(f'{metric}_count', by, matchers)}"


def _gauge(how: str, metric: str, by: str = "model, version") -> str:
    return f"{how} by ({by}) ({metric}{{{MODEL}}})"


def _hourly(metric: str, by: str, matchers: str = MODEL) -> str:
    return f"sum by ({by}) (increase({metric}{{{matchers}}}[1h]))"


_MV, _NAMED = "model, version", "{{model}} {{version}}"
_LIVE = f'{MODEL},source="live"'
_LOOKUPS = f'{MODEL},stage="lookup",source=~"precomputed|cached"'
_RENEWALS = "done|failed|refused|dropped|leased_elsewhere"
_ROWS = "written|dropped|dropped_in_memory|bad_values"
_FILES = 'part="request_log",event=~"files|failed_files"'
_HITS = _rate("hotset_answers_total", "model", f'{MODEL},source=~"precomputed|cached"')
_ALL = _rate("hotset_answers_total", "model", f'{MODEL},source!="error"')

ANSWERS = Board(
    "hotset-answers",
    "Hotset: answers",
    (
        Panel("Answers by source", "reqps", [(_rate("hotset_answers_total", "source"), "{{source}}")], "", True),
        Panel(
            "Hit rate",
            "percentunit",
            [(f"{_HITS} / ({_ALL} > 0)", "{{model}}")],
            "Precomputed and cached, of all.",
        ),
        Panel(
            "Answers by version and arm",
            "reqps",
            [(_rate("hotset_answers_total", f"{_MV}, arm"), f"{_NAMED} {{{{arm}}}}")],
        ),
        Panel("p50 by source", "s", [(_quantile(0.5, "hotset_answer_seconds", "source"), "{{source}}")]),
        Panel("p99 by source", "s", [(_quantile(0.99, "hotset_answer_seconds", "source"), "{{source}}")]),
        Panel("Misses by reason", "reqps", [(_rate("hotset_misses_total", "reason"), "{{reason}}")], "", True),
        Panel(
            "Problems by code", "reqps", [(_rate("hotset_problems_total", "code", 'model=~"$model|"'), "{{code}}")]
        ),
        Panel(
            "Age of the generation",
            "s",
            [(_gauge("max", "hotset_generation_age_seconds", "model"), "{{model}}")],
            "Of the stable version; a model without a generation has no line.",
        ),
        Panel("Entities in it", "short", [(_gauge("max", "hotset_generation_rows", "model"), "{{model}}")]),
        Panel(
            "Confidence, median",
            "short",
            [(_quantile(0.5, "hotset_confidence", "model, source"), "{{model}} {{source}}")],
        ),
        Panel(
            "Hits beside their live result",
            "reqps",
            [(_rate("hotset_parity_total", "model, kind"), "{{model}} {{kind}}")],
            "A share of hits is computed again (API_PARITY_SHARE).",
        ),
        Panel("Hits not compared", "reqps", [(_rate("hotset_parity_skipped_total", "reason"), "{{reason}}")]),
    ),
)

LIVE = Board(
    "hotset-live",
    "Hotset: the live tier",
    (
        Panel("Mean time by stage", "s", [(_mean("hotset_stage_seconds", "stage", _LIVE), "{{stage}}")], "", True),
        Panel("p99 by stage", "s", [(_quantile(0.99, "hotset_stage_seconds", "stage", _LIVE), "{{stage}}")]),
        Panel(
            "Rows of a batch",
            "short",
            [
                (_mean("hotset_inference_batch_rows", _MV), f"mean {_NAMED}"),
                (_quantile(0.9, "hotset_inference_batch_rows", _MV), f"p90 {_NAMED}"),
                (_mean("hotset_batch_rows", "model"), "as a row of {{model}} sees it"),
            ],
            "A row is more often in a large batch than a batch is large.",
        ),
        Panel("Rows that wait", "short", [(_gauge("sum", "hotset_inference_queued_rows"), _NAMED)]),
        Panel("Rows on the device", "short", [(_gauge("sum", "hotset_inference_executing_rows"), _NAMED)]),
        Panel("Age of the first that waits", "s", [(_gauge("max", "hotset_inference_queue_age_seconds"), _NAMED)]),
        Panel(
            "Busy share",
            "percentunit",
            [(_gauge("avg", "hotset_inference_busy_share"), _NAMED)],
            "Mean of replicas.",
        ),
        Panel("τ0 as fitted", "ms", [(_gauge("avg", "hotset_inference_tau0_ms"), _NAMED)], "T(b) = τ0 + α b."),
        Panel("α as fitted", "ms", [(_gauge("avg", "hotset_inference_alpha_ms"), _NAMED)], "T(b) = τ0 + α b."),
        Panel("p99 of a batch", "s", [(_quantile(0.99, "hotset_inference_batch_seconds", _MV), _NAMED)]),
        Panel(
            "Requests by outcome", "reqps", [(_rate("hotset_inference_requests_total", "outcome"), "{{outcome}}")]
        ),
        Panel("Warm replicas", "short", [(_gauge("max", "hotset_warm_replicas", "model"), "{{model}}")]),
        Panel(
            "Loads and restarts",
            "short",
            [
                (_hourly("hotset_inference_loads_total", _MV), f"loads {_NAMED}"),
                (_hourly("hotset_inference_restarts_total", _MV), f"restarts {_NAMED}"),
            ],
            "In an hour.",
        ),
        Panel("Time to load", "s", [(_gauge("max", "hotset_inference_load_seconds"), _NAMED)]),
        Panel(
            "Failed batches",
            "reqps",
            [
                (_rate("hotset_inference_failed_batches_total", _MV), f"failed {_NAMED}"),
                (_rate("hotset_inference_out_of_memory_total", _MV), f"out of memory {_NAMED}"),
            ],
        ),
        Panel("Fail-overs", "reqps", [(_event("live", "failovers"), "{{event}}")]),
    ),
)

PARTS = Board(
    "hotset-parts",
    "Hotset: Redis, caches, log",
    (
        Panel(
            "Workers that reach Redis",
            "short",
            [
                (_level("redis_lookup", "open|nodes|nodes_open"), "{{what}}"),
                (_level("api", "workers"), "{{what}}"),
            ],
        ),
        Panel("Redis: slow, lost", "reqps", [(_event("redis_lookup", "slow|lost|connects"), "{{event}}")]),
        Panel(
            "p99 of look-ups", "s", [(_quantile(0.99, "hotset_stage_seconds", "source", _LOOKUPS), "{{source}}")]
        ),
        Panel("L1", "reqps", [(_event("l1", "hits|misses"), "{{event}}")], "", True),
        Panel("L1: bytes", "bytes", [(_level("l1", "bytes"), "{{what}}")], "Of all workers."),
        Panel("Write-backs", "reqps", [(_event("write_back", "written|dropped_.*"), "{{event}}")]),
        Panel("Write-backs that wait", "short", [(_level("write_back", "waiting"), "{{what}}")]),
        Panel("Misses that shared an execution", "reqps", [(_event("flights", "shared"), "{{event}}")]),
        Panel("Renewals", "reqps", [(_event("renewals", _RENEWALS), "{{event}}")]),
        Panel("Fresh answers asked for", "reqps", [(_event("fresh_cap", "granted|refused"), "{{event}}")]),
        Panel("Log rows", "reqps", [(_event("request_log", _ROWS), "{{event}}")]),
        Panel(
            "Log files", "short", [(_hourly("hotset_events_total", "event", _FILES), "{{event}}")], "In an hour."
        ),
        Panel("Disk left for the log", "bytes", [("min by (instance) (hotset_disk_free_bytes)", "{{instance}}")]),
        Panel("Invalidated", "short", [(_level("invalidations", "held"), "{{what}}")], "Each worker holds all."),
        Panel("Refused routes documents", "short", [(_level("routes", "refused"), "{{what}}")]),
    ),
)

QUALITY = Board(
    "hotset-quality",
    "Hotset: is the model still right",
    (
        Panel(
            "Drift: alarms and warnings",
            "short",
            [
                (
                    f'max by (model, population, level) (hotset_drift_findings{{{MODEL},level=~"alarm|warning"}})',
                    "{{model}} {{population}} {{level}}",
                )
            ],
            "Features and outputs of the newest window; the site's page Quality names them.",
        ),
        Panel(
            "Worst PSI",
            "short",
            [(_gauge("max", "hotset_drift_worst_psi", "model, population"), "{{model}} {{population}}")],
            "Of all features and outputs. What alarms depends on how many rows there were.",
        ),
        Panel(
            "Since the last drift run", "s", [(_gauge("max", "hotset_drift_age_seconds", "model"), "{{model}}")]
        ),
        Panel(
            "Compared hits by kind",
            "percentunit",
            [(_gauge("max", "hotset_parity_share", "model, kind"), "{{model}} {{kind}}")],
            "Of the last 24 hours, of all API processes.",
        ),
        Panel("Compared hits", "short", [(_gauge("max", "hotset_parity_compared", "model"), "{{model}}")]),
    ),
)

BOARDS = (ANSWERS, LIVE, PARTS, QUALITY)
