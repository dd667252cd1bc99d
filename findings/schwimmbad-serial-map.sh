#!/usr/bin/env bash
# Asked: schwimmbad's pools share one interface: `pool.map(work, items)` with MultiPool calls `work`
#   for all items. What does SerialPool do?
# Good guess: The same, one after the other, and returns a list.
# Truth: Nothing yet: it returns Python's lazy `map` object. A function that is called for its effect,
#   such as one that writes files, never runs; `len(...)` fails; a second loop over the results is
#   empty. With `callback` it does run.
# Seen with: schwimmbad==0.4.2, Python 3.11, Linux, 2026-11-28.
# Source: schwimmbad/serial.py, `map`.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check schwimmbad==0.4.2
cd "$work"
cat > program.py <<'PROGRAM'
from importlib.metadata import version
from pathlib import Path

from schwimmbad import MultiPool, SerialPool


def work(name):
    Path(name).touch()
    return name


if __name__ == "__main__":
    print("schwimmbad", version("schwimmbad"))
    with MultiPool(2) as pool:
        many = pool.map(work, ["multi"])
    with SerialPool() as pool:
        one = pool.map(work, ["serial"])
    found = {name: Path(name).exists() for name in ("multi", "serial")}
    print("MultiPool:", type(many).__name__, "it ran:", found["multi"])
    print("SerialPool:", type(one).__name__, "it ran:", found["serial"])
    assert (type(many), type(one)) == (list, map)
    assert found == {"multi": True, "serial": False}
PROGRAM
"$work/venv/bin/python" program.py
