#!/usr/bin/env bash
# Asked: What does `WorkerPool.map` return for a function that returns NumPy arrays?
# Good guess: A list with one array for each call, as `multiprocessing.Pool.map` does.
# Truth: One array: the results are concatenated along their first axis, so which call made
#   which part is lost. `concatenate_numpy_output=False` gives the list.
# Seen with: mpire==2.10.2, numpy==2.4.6, Python 3.11, Linux, 2026-11-28.
# Source: mpire/pool.py, WorkerPool.map.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check mpire==2.10.2 numpy==2.4.6
cd "$work"
cat > program.py <<'PROGRAM'
from importlib.metadata import version

import numpy as np
from mpire import WorkerPool


def ones(length):
    return np.ones(length)


if __name__ == "__main__":
    print("mpire", version("mpire"))
    with WorkerPool(2) as pool:
        joined = pool.map(ones, [1, 2, 3])
        apart = pool.map(ones, [1, 2, 3], concatenate_numpy_output=False)
    print("by default:", type(joined).__name__, joined.shape)
    print("concatenate_numpy_output=False:", type(apart).__name__, [a.shape for a in apart])
    assert isinstance(joined, np.ndarray) and joined.shape == (6,)
    assert isinstance(apart, list) and [len(a) for a in apart] == [1, 2, 3]
PROGRAM
"$work/venv/bin/python" program.py
