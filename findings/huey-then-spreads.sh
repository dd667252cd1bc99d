#!/usr/bin/env bash
# Asked: huey: `first.s().then(second)`, where `first` returns a pair. With which arguments is
#   `second` called?
# Good guess: With one, the pair, as for any other value.
# Truth: With two: a tuple becomes positional arguments, and a dict becomes keyword arguments; a list
#   stays one argument. A task whose result changes from a list to a tuple calls the next one in
#   another way.
# Seen with: huey==3.5.4, Python 3.11, Linux, 2026-11-28.
# Source: huey/api.py, `extend_data`.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check huey==3.5.4
cd "$work"
cat > program.py <<'PROGRAM'
from importlib.metadata import version

from huey import MemoryHuey

huey = MemoryHuey(immediate=True)
calls = []


@huey.task()
def first(value):
    return value


@huey.task()
def second(*args, **kwargs):
    calls.append((args, kwargs))


if __name__ == "__main__":
    print("huey", version("huey"))
    for value in ([1, 2], (1, 2), {"a": 1}):
        huey.enqueue(first.s(value).then(second))
        print(value, "->", calls[-1])
    assert calls == [(([1, 2],), {}), ((1, 2), {}), ((), {"a": 1})]
PROGRAM
"$work/venv/bin/python" program.py
