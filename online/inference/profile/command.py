"""`profile`: measures how long one bundle's batches take on one device, fits a line, writes JSON and a picture."""

import re
import sys
from functools import partial
from pathlib import Path

import orjson

from online.inference.profile.measuring import measure, sizes_to_measure
from online.inference.profile.options import ProfileOptions
from online.inference.profile.report import Conditions, Profile
from online.inference.worker.golden import GoldenRows
from schemas.bundle import Bundle, BundleError, read_folder

EXIT_BAD_INPUT = 2


class BadInput(Exception):
    """Something asked for that cannot be; the message says what."""


def run(options: ProfileOptions) -> int:
    """Exit status: 0, or 2 with the reason on standard error."""
    from rich.console import Console

    try:
        bundle = _read(options.bundle)
        max_rows = _max_rows(options, bundle)
        out, png = _targets(options, bundle)
        profile = _measure(options, bundle, max_rows)
        _write(profile, out, png)
    except (BadInput, BundleError) as error:
        print(f"profile: {error}", file=sys.stderr)  # noqa: T201 - this command's output
        return EXIT_BAD_INPUT
    console = Console(highlight=False)
    console.print(profile.table())
    for line in (profile.fit_in_words(), profile.knee_in_words(), f"wrote {out}", f"wrote {png}"):
        console.print(line, soft_wrap=True, markup=False)
    return 0


def _read(folder: Path) -> Bundle:
    if not folder.is_dir():
        raise BadInput(f"there is no bundle at {folder}: not a folder")
    return read_folder(folder)


def _max_rows(options: ProfileOptions, bundle: Bundle) -> int:
    own = bundle.manifest.max_batch_rows
    if options.max_batch_rows is not None and options.max_batch_rows > own:
        raise BadInput(f"--max-batch-rows {options.max_batch_rows}: the bundle takes at most {own}")
    return options.max_batch_rows or own


def _targets(options: ProfileOptions, bundle: Bundle) -> tuple[Path, Path]:
    """Where to write, made sure of before anything is measured."""
    device = re.sub(r"[^a-z0-9.]+", "-", options.device.name)
    name = f"profile-{bundle.manifest.name}-{bundle.manifest.version}-{device}.json"
    out = options.out or (options.png.with_suffix(".json") if options.png else Path(name))
    png = options.png or out.with_suffix(".png")
    for path in (out, png):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            was_there = path.exists()
            path.open("ab").close()
            if not was_there:
                path.unlink()
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror}") from None
    return out, png


def _measure(options: ProfileOptions, bundle: Bundle, max_rows: int) -> Profile:
    import torch  # takes seconds: after everything that can be refused without it

    from online.inference.worker import loading
    from online.inference.worker.options import WorkerOptions

    device_name = _device_name(options)
    # As the node would start it: what is measured here is what a worker runs.
    argv = ["--url", str(bundle.folder), "--digest", bundle.digest, "--cache", "unused"]
    worker = WorkerOptions.from_argv([*argv, "--device", options.device.name, "--threads", str(options.threads)])
    loaded = loading.load(worker, bundle, max_rows)
    run_batch = loaded.instances[0]
    golden = GoldenRows(bundle)  # text is as long as that of the row in the middle
    sizes = sizes_to_measure(max_rows)
    runs = {rows: partial(run_batch, golden.batch(rows)) for rows in sizes}
    text = f"{bundle.manifest.name} {bundle.manifest.version}: {len(sizes)} sizes, {options.rounds} rounds ..."
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this command's output
    overran = loaded.overruns
    before = overran()
    loaded.serve()  # measured at the priority that requests are served at
    try:
        measured = measure(runs, options.rounds)
    finally:
        loaded.close()
    under = Conditions(
        options.device.name,
        device_name,
        options.threads,
        str(torch.__version__),
        options.rounds,
        overran() - before,
    )
    return Profile(bundle.manifest, bundle.digest, measured, under)


def _device_name(options: ProfileOptions) -> str:
    """What the device is, in words. Raises BadInput where torch does not see it."""
    import torch

    if options.device.emulated is not None:
        return "emulated"
    if options.device.torch_name == "cpu":
        return "CPU"
    index = int(options.device.torch_name.partition(":")[2])
    if index >= (count := torch.cuda.device_count() if torch.cuda.is_available() else 0):
        raise BadInput(f"--device {options.device.name}: torch {torch.__version__} sees {count} CUDA devices here")
    return str(torch.cuda.get_device_name(index))


def _write(profile: Profile, out: Path, png: Path) -> None:
    from online.inference.profile.drawing import draw

    try:
        out.write_bytes(orjson.dumps(profile.document(), option=orjson.OPT_INDENT_2) + b"\n")
        draw(profile, png)
    except OSError as error:
        raise BadInput(f"cannot write: {error}") from None
