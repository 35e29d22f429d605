"""`python -m infra.local.mlserver`: the environment of MLServer, on which fault tests try the API tier."""

import sys

from infra.local.venvs import HOME, Environment, SetupFailed, bring_up_to_date

MLSERVER = Environment("mlserver", HOME / ".venv-mlserver", HOME / "infra" / "requirements" / "mlserver.lock")


def main() -> int:
    """Exit status: 0 all is there, 1 something is missing; what to do about it is said."""
    try:
        bring_up_to_date(MLSERVER, lambda text: print(text, file=sys.stderr, flush=True))  # noqa: T201
    except SetupFailed as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
