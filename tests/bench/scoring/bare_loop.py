"""`python -m tests.bench.scoring.bare_loop BUNDLE SHARE OF`: one core's share of a bare torch loop.

For each line with a folder of Parquet and a file to write, scores every `OF`-th of its files from the `SHARE`-th
on: read, transform, forward, calibrate, with one thread. Says seconds and rows; the outputs are written after the
clock has stopped.
"""

import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from runtime.program import Program, load_program, set_threads
from schemas.bundle import load_transform, read_folder
from schemas.codec import Float32Array
from schemas.features import Column, FeatureTransform
from schemas.manifest import CategoryFeature, Manifest
from schemas.outputs import calibrate
from tests.bench.live.rows import say


def main() -> int:
    set_threads(1)
    folder, share, of = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    manifest = read_folder(folder).manifest
    program, transform = load_program(folder, manifest), load_transform(folder, manifest)
    say({})
    for line in sys.stdin:
        features, out = line.rstrip("\n").split("\t")
        files = sorted(Path(features).glob("*.parquet"))[share::of]
        began_s, cpu_began_s = time.perf_counter(), time.process_time()
        entities, outputs = _score(files, manifest, program, transform)
        seconds, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_began_s
        np.savez(out, entities=np.array(entities), outputs=np.concatenate(outputs))
        say({"seconds": seconds, "cpu_s": cpu_s, "rows": len(entities)})
    return 0


def _score(
    files: list[Path], manifest: Manifest, program: Program, transform: FeatureTransform
) -> tuple[list[str], list[Float32Array]]:
    entities: list[str] = []
    outputs: list[Float32Array] = []
    for path in files:
        with pq.ParquetFile(path) as file:
            wanted = ["entity", *manifest.feature_names]
            for batch in file.iter_batches(manifest.max_batch_rows, columns=wanted):
                done = transform.columns(_columns(batch, manifest), batch.num_rows)
                assert not done.problems, done.problems[0]
                entities += batch.column("entity").to_pylist()
                outputs.append(calibrate(manifest.output, program(done.tensors)))
    return entities, outputs


def _columns(batch: pa.RecordBatch, manifest: Manifest) -> dict[str, Column]:
    return {
        feature.name: batch.column(feature.name).to_pylist()
        if isinstance(feature, CategoryFeature)
        else batch.column(feature.name).to_numpy(zero_copy_only=False)
        for feature in manifest.features
    }


if __name__ == "__main__":
    sys.exit(main())
