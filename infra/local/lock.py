"""Writes the lock files anew: resolves each `.in` file in a fresh environment and notes what pip chose.

`make lock` runs it. Standard library only. Each is resolved apart, since they cannot share an environment.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from infra.local.venvs import HOME

REQUIREMENTS = HOME / "infra" / "requirements"
# pip is the environment's own; the rest is what the Spark provider brings for Spark Connect, which no DAG
# uses (jobs start by spark-submit of the product's Spark): 300 MB.
LEFT_OUT = {
    "product": ("pip", "hotset"),
    "airflow": ("pip", "pyspark-client", "pandas", "numpy", "pyarrow", "grpcio-status"),
    "peers": ("pip",),
    "feast": ("pip", "setuptools"),
    "mlserver": ("pip", "setuptools"),
}
# What only another Python than the one that resolves needs, so that no resolution here can find it.
OTHER_PYTHONS = {
    "product": ('async-timeout==5.0.1; python_full_version < "3.11.3"',),
    "airflow": ('pyyaml-ft==8.0.0; python_version >= "3.13"',),
    "peers": (),
    "feast": (),
    "mlserver": (),
}


def main() -> int:
    for name in LEFT_OUT:
        print(f"resolving {name} ...", flush=True)  # noqa: T201 - this command's output
        write_lock(name, _resolve(REQUIREMENTS / f"{name}.in"))
    return 0


def write_lock(name: str, freeze: str) -> Path:
    """`freeze`: lines of NAME==VERSION. Local versions, such as torch's +cpu, are left to each machine."""
    kept = list(OTHER_PYTHONS[name])
    for line in freeze.splitlines():
        package, _, version = line.partition("==")
        if version and package.lower().replace("_", "-") not in LEFT_OUT[name]:
            kept.append(f"{package}=={re.sub(r'[+].*', '', version)}")
    path = REQUIREMENTS / f"{name}.lock"
    path.write_text(
        f"# Made by `make lock` from {name}.in; installed with --no-deps.\n"
        + "\n".join(sorted(kept, key=str.lower))
        + "\n"
    )
    return path


def _resolve(requirements: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "-r", str(requirements)], cwd=HOME, check=True)
        listed = subprocess.run([*pip, "list", "--format=freeze"], check=True, capture_output=True, text=True)
    return listed.stdout


if __name__ == "__main__":
    sys.exit(main())
