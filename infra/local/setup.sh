#!/bin/sh
# Finds a Python that can make environments, and hands over to setup.py. `PYTHON=...` chooses one.
set -eu
cd "$(dirname "$0")/../.."

fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }
can_make_environments() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

# The one that made the environment goes on serving it, whichever is first on the path today.
made_by="$(sed -n 's/^executable = //p' .venv/pyvenv.cfg 2>/dev/null || true)"
found=""
for python in ${PYTHON:-$made_by python3.11 python3.12 python3.13 python3 python}; do
    fits "$python" || continue
    found="$python"
    can_make_environments "$python" && exec "$python" -m infra.local.setup "$@"
done

# Debian keeps a part of Python's standard library, venv, in a package of its own.
package="python3-venv"
[ -z "$found" ] || package="$("$found" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
if [ -z "${PYTHON:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing $package by apt ..."
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package"; } \
        >/dev/null 2>&1 || echo "apt could not install $package" >&2
    for python in $found python3; do
        fits "$python" && can_make_environments "$python" && exec "$python" -m infra.local.setup "$@"
    done
fi
if [ -z "$found" ]; then
    echo "Hotset needs Python 3.11, 3.12 or 3.13 ${PYTHON:+(PYTHON=$PYTHON is not one) }and found none." >&2
    echo "Install one (Debian: sudo apt-get install python3 python3-venv) or name it: make setup PYTHON=/path/to/python3.11" >&2
else
    echo "$found cannot make environments: its modules venv and ensurepip are missing." >&2
    echo "Install them (Debian: sudo apt-get install $package) or name another: make setup PYTHON=/path/to/python3.11" >&2
fi
exit 1
