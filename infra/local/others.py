"""`python -m infra.local.others NAME`: an environment of servers of others, apart from the product's.

`peers` and `feast` are those that benchmarks run beside the product, `mlserver` the one on which fault tests try
the API tier.
"""

import argparse
import sys

from infra.local.venvs import HOME, Environment, SetupFailed, bring_up_to_date


def _environment(name: str) -> Environment:
    return Environment(name, HOME / f".venv-{name}", HOME / "infra" / "requirements" / f"{name}.lock")


PEERS, FEAST, MLSERVER = _environment("peers"), _environment("feast"), _environment("mlserver")


def main() -> int:
    """Exit status: 0 all is there, 1 something is missing; what to do about it is said."""
    parser = argparse.ArgumentParser(prog="python -m infra.local.others", description=__doc__)
    parser.add_argument("name", choices=[PEERS.name, FEAST.name, MLSERVER.name], help="which environment")
    name = parser.parse_args().name
    try:
        bring_up_to_date(_environment(name), lambda text: print(text, file=sys.stderr, flush=True))  # noqa: T201
    except SetupFailed as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
