#!/bin/sh
# Creates .venv in the repository root and installs the pinned Python oracle (scripts/requirements.txt) into it.
# Needed only to write the goldens again or to compare at full size; building and testing need no Python.
#
# usage: scripts/setup_oracle.sh            (PYTHON=python3.11 picks the interpreter, 3.11 is what the goldens record)
set -eu

cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"

"$python" -c 'import sys; sys.exit("Python 3.11 or newer is needed") if sys.version_info < (3, 11) else None'
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --quiet --requirement scripts/requirements.txt
.venv/bin/python - <<'PY'
from importlib.metadata import version

for line in open("scripts/requirements.txt", encoding="utf-8"):
    name, _, wanted = line.strip().partition("==")
    found = version(name).partition("+")[0]
    print(f"{name} {found}")
    if found != wanted:
        raise SystemExit(f"{name}: wanted {wanted}")
PY
echo "run the scripts with .venv/bin/python"
