"""From an `nn.Module` to a checked bundle folder: export, reload, golden rows, baseline, digests.

Everything that describes the model's behaviour is computed from the exported program as it loads again, never from
the module: what is checked later is then what was promised.
"""

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from batch_scoring.bundle.baseline import write_baseline
from batch_scoring.bundle.export import export_program
from batch_scoring.bundle.specification import Specification
from runtime.program import Float32Array, Program, load_program, open_program
from schemas.bundle import Bundle, BundleError, make_transform, read_folder
from schemas.features import Column, Transformed, canonical_number
from schemas.manifest import (
    BASELINE_FILE,
    LICENCE_FILE,
    MANIFEST_FILE,
    MODEL_FILE,
    TOKENIZER_FILE,
    GoldenRow,
    Manifest,
    RecordValue,
)
from schemas.outputs import calibrate, finite_rows

_GOLDEN_ROWS = 16


def build_bundle(
    folder: Path,
    module: torch.nn.Module,
    specification: Specification,
    columns: Mapping[str, Column],
    licence: str,
    *,
    replace: bool = False,
) -> Bundle:
    """Writes a bundle to `folder`, whole or not at all.

    Args:
        module: forward takes the specification's inputs in order, (n, width) each, or (n, L) where it is text, and
            returns (n, N) float32, N being `model_width`. What it gives of a text may not depend on how far
            that is padded.
        columns: raw data, one column of equal length a feature; baseline and golden rows are taken from it.
        licence: text of the LICENSE file.
        replace: whether a bundle that lies there already may be replaced.

    Raises:
        BundleError: the folder exists, the module does not export or does not do as the specification says, or the
            data give fewer than two good rows.
    """
    if folder.exists() and not replace:
        raise BundleError(f"{folder} exists: a version is immutable, so a change is a new version")
    draft = specification.draft()
    tokenizer = specification.tokenizer_json
    transform = make_transform(draft, tokenizer)
    data = export_program(module, draft)
    program = open_program(data, draft)
    done = transform.columns(columns, _rows(columns))
    outputs = _outputs(program, draft, done)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=folder.parent) as scratch:
        made = Path(scratch) / "bundle"
        made.mkdir()
        (made / MODEL_FILE).write_bytes(data)
        (made / LICENCE_FILE).write_text(licence, encoding="utf-8")
        if tokenizer is not None:
            (made / TOKENIZER_FILE).write_bytes(tokenizer)
        write_baseline(made / BASELINE_FILE, draft, columns, done, outputs)
        files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made.iterdir()}
        manifest = specification.manifest(files, _golden(draft, columns, done, outputs))
        (made / MANIFEST_FILE).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
        load_program(made, manifest)
        _put(made, folder)
    return read_folder(folder)


def _outputs(program: Program, manifest: Manifest, done: Transformed) -> Float32Array:
    """(n, W) stored outputs of all rows."""
    if done.rows == 0:
        raise BundleError("the data set has no rows")
    out = np.empty((done.rows, manifest.output.stored_width), dtype=np.float32)
    for group in done.groups():
        for start in range(0, len(group), manifest.max_batch_rows):
            rows = group[start : start + manifest.max_batch_rows]
            try:
                out[rows] = calibrate(manifest.output, program(done.take(rows)))
            except (ValueError, RuntimeError, IndexError) as error:
                raise BundleError(f"the exported model fails on the data: {error}") from error
    return out


def _golden(
    manifest: Manifest, columns: Mapping[str, Column], done: Transformed, outputs: Float32Array
) -> tuple[GoldenRow, ...]:
    """Rows evenly spread over the data, by length where it is text, of those that a program must answer."""
    usable = finite_rows(outputs)
    usable[list(done.bad_rows)] = False
    places = np.flatnonzero(usable)
    for tokens in done.texts.values():
        places = places[np.argsort(tokens.counts[places], kind="stable")]
    if len(places) < 2:
        raise BundleError(f"{len(places)} rows of the data give finite outputs; golden rows need two")
    chosen = places[np.unique(np.linspace(0, len(places) - 1, _GOLDEN_ROWS).astype(int))]
    return tuple(
        GoldenRow(
            record={name: _plain(columns[name][row]) for name in manifest.feature_names},
            outputs=tuple(float(value) for value in outputs[row]),
        )
        for row in chosen
    )


def _plain(value: object) -> RecordValue:
    """As the feature table would give it: text, or the shortest number of its float32; NaN is null."""
    if value is None or isinstance(value, str):
        return value
    number = canonical_number(value)
    return None if number is None else float(str(np.float32(number)))


def _rows(columns: Mapping[str, Column]) -> int:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise BundleError(f"the columns of the data set differ in length: {lengths}")
    return next(iter(lengths.values()))


def _put(made: Path, folder: Path) -> None:
    """Moves the new folder into place; an old one steps aside first: a rename cannot replace a full folder."""
    if folder.exists():
        folder.rename(made.parent / "old")
    made.rename(folder)
