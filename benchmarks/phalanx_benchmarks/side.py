"""One side of the comparison: a process that measures one row on one system, and prints the
samples.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any

from phalanx_benchmarks.actor_systems import makers as actor_makers
from phalanx_benchmarks.measure import EFFORTS
from phalanx_benchmarks.pools import makers as pool_makers
from phalanx_benchmarks.row import ACTORS, FLOOR, POOLS, start
from phalanx_benchmarks.rows import ROWS


def serve(system: str, row_name: str, effort_name: str) -> None:
    """Measure the row. Prints one line of JSON with `samples`, or with `error` and the traceback.

    All other output of the system goes to standard error, so that standard output has only this
    line.
    """
    answer = os.dup(1)
    os.dup2(2, 1)
    row = next(row for row in ROWS if row.name == row_name)
    result: dict[str, object]
    api: Any = None
    try:
        if row.group == POOLS:
            api = pool_makers.maker_of(system)
        elif row.group == ACTORS:
            api = actor_makers.maker_of(system)
        elif row.group != FLOOR:
            api = importlib.import_module(system)
        if row.session:
            start(api, **row.init)
        result = {"samples": row.sample(api, EFFORTS[effort_name])}
    except Exception:
        result = {"error": traceback.format_exc()}
    os.write(answer, json.dumps(result).encode() + b"\n")
    if row.session and api is not None:
        api.shutdown()


if __name__ == "__main__":
    serve("phalanx", *sys.argv[1:])
