"""`python -m online.inference.node.oip.generate`: makes `open_inference_pb2` anew; needs grpcio-tools."""

import subprocess
import sys
from pathlib import Path

NAME = Path("online/inference/node/oip/open_inference.proto")
ROOT = Path(__file__).resolve().parents[4]


def generate(target: Path) -> None:
    """Writes the module and its stub under `target`, where they lie under the root. Raises CalledProcessError."""
    outputs = [f"--python_out={target}", f"--pyi_out={target}"]
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}", *outputs, str(ROOT / NAME)], check=True
    )


if __name__ == "__main__":
    generate(ROOT)
