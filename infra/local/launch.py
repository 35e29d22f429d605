"""Becomes the process that a specification names: `python launch.py SPEC.json`.

Standard library only. It stands between supervisor and the process so that a process's
environment can change from one start to the next without a new supervisor, and needs no quoting.
"""

import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Replaces this process; environment: what was inherited, then what the specification sets."""
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    os.chdir(spec["cwd"])
    os.execvpe(spec["argv"][0], spec["argv"], {**os.environ, **spec["env"]})


if __name__ == "__main__":
    main()
