#!/usr/bin/env bash
# Asked: `ProcessPool.map(f, items, chunksize=2, timeout=1.5)`: one item of four is too slow.
#   How many results come?
# Good guess: Four: three values and one TimeoutError, in the order of the items.
# Truth: Three: a chunk whose time is up gives one TimeoutError for all its items, and the value
#   that its other item had is lost. Results no longer line up with items. Without `chunksize`,
#   and for errors of items, there is one result for each item.
# Seen with: pebble==5.2.3, Python 3.11, Linux, 2026-11-28.
# Source: pebble/pool/process.py and pebble/common, the iteration of MapFuture.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check pebble==5.2.3
cd "$work"
cat > program.py <<'PROGRAM'
import time
from concurrent.futures import TimeoutError
from importlib.metadata import version

from pebble import ProcessPool


def work(item):
    if item == "slow":
        time.sleep(60)
    return item


def results(pool, **options):
    found = pool.map(work, ["a", "slow", "b", "c"], **options).result()
    seen = []
    while True:
        try:
            seen.append(next(found))
        except StopIteration:
            return seen
        except TimeoutError:
            seen.append("TimeoutError")


if __name__ == "__main__":
    print("pebble", version("pebble"))
    with ProcessPool(2) as pool:
        single = results(pool, timeout=1.5)
        chunks = results(pool, timeout=1.5, chunksize=2)
    print("chunksize=1:", single)
    print("chunksize=2:", chunks)
    assert single == ["a", "TimeoutError", "b", "c"]
    assert chunks == ["TimeoutError", "b", "c"]
PROGRAM
"$work/venv/bin/python" program.py
