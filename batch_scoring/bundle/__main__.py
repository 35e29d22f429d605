"""`python -m batch_scoring.bundle`: says in words what is wrong with a bundle, or what it is."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from runtime.program import load_program
from schemas.bundle import Bundle, BundleError, read_folder
from schemas.manifest import (
    AnyOutput,
    BucketFeature,
    CategoryFeature,
    Feature,
    TextFeature,
    TopKOutput,
    VectorOutput,
)

_SHOWN_VALUES = 6


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    console = Console()
    try:
        bundle = read_folder(arguments.folder, getattr(arguments, "digest", None))
        if arguments.command == "digest":
            sys.stdout.write(f"{bundle.digest}\n")
            return 0
        load_program(bundle.folder, bundle.manifest)
    except BundleError as error:
        Console(stderr=True).print(f"[red]bad bundle[/red] {arguments.folder}: {error}", highlight=False)
        return 1
    for table in (_summary(bundle), _features(bundle), _outputs(bundle)):
        console.print(table)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m batch_scoring.bundle", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="verify files, archive and golden rows, and print a summary")
    check.add_argument("folder", type=Path, help="of the bundle")
    check.add_argument("--digest", help="the digest it must have; without it, only its own files are compared")
    digest = commands.add_parser("digest", help="print the digest by which settings name the bundle")
    digest.add_argument("folder", type=Path, help="of the bundle")
    return parser


def _summary(bundle: Bundle) -> Table:
    manifest = bundle.manifest
    table = Table(title=f"{manifest.name} version {manifest.version}: good", show_header=False)
    size = sum((bundle.folder / name).stat().st_size for name in manifest.files)
    table.add_row("digest", bundle.digest)
    table.add_row("created", f"{manifest.created_at} by torch {manifest.torch_version}, codec {manifest.codec}")
    table.add_row("files", f"{', '.join(manifest.files)} ({size / 1e6:.1f} MB)")
    table.add_row("largest batch", f"{manifest.max_batch_rows} rows")
    table.add_row("golden rows", f"{len(manifest.golden)}, each at batch 1, 2 and {manifest.max_batch_rows}")
    for name, value in manifest.metrics.items():
        table.add_row(name, f"{value:.4g}")
    return table


def _features(bundle: Bundle) -> Table:
    table = Table("feature", "type", "when missing", "allowed", title="features")
    for feature in bundle.manifest.features:
        missing = "required" if feature.missing is None else str(feature.missing)
        table.add_row(feature.name, feature.type, missing, _allowed(feature))
    return table


def _allowed(feature: Feature) -> str:
    if isinstance(feature, CategoryFeature):
        shown = ", ".join(feature.vocabulary[:_SHOWN_VALUES])
        more = len(feature.vocabulary) - _SHOWN_VALUES
        return (
            shown + (f" and {more} more" if more > 0 else "") + ("" if feature.closed else ", or any other text")
        )
    if isinstance(feature, TextFeature):
        return f"any text, of which {feature.max_tokens} tokens and {feature.max_characters} characters are read"
    if isinstance(feature, BucketFeature):
        return f"any number, in {len(feature.edges) + 1} buckets"
    low = "" if feature.minimum is None else f">= {feature.minimum:g}"
    high = "" if feature.maximum is None else f"<= {feature.maximum:g}"
    return " and ".join(bound for bound in (low, high) if bound) or "any number"


def _outputs(bundle: Bundle) -> Table:
    specification = bundle.manifest.output
    table = Table("output", "kind", "calibration", "default", title="outputs")
    for output, _, stored in specification.spans:
        default = "none" if specification.default is None else _numbers(specification.default[stored])
        table.add_row(output.name, _kind(output), _calibration(output), default)
    return table


def _kind(output: AnyOutput) -> str:
    if isinstance(output, TopKOutput):
        return f"the {output.k} best of {output.columns} labels"
    return f"{output.size} numbers" if isinstance(output, VectorOutput) else "a number"


def _numbers(values: Sequence[float]) -> str:
    more = len(values) - _SHOWN_VALUES
    return ", ".join(f"{value:g}" for value in values[:_SHOWN_VALUES]) + (f" and {more} more" if more > 0 else "")


def _calibration(output: AnyOutput) -> str:
    rule = output.calibration
    inner = f"{rule.scale:g} x + {rule.shift:g}"
    return f"sigmoid({inner})" if rule.kind == "sigmoid" else inner


if __name__ == "__main__":
    sys.exit(main())
