"""One side of the comparison: a process that measures one row on one module and prints samples."""

from __future__ import annotations

import json
import os
import sys
import traceback

from phalanx.bench.measure import EFFORTS
from phalanx.bench.row import Api
from phalanx.bench.rows import ROWS


def serve(api: Api, row_name: str, effort_name: str) -> None:
    """Measure the row and print one line of JSON: `samples`, or `error` with the traceback.

    Whatever else the module prints goes to standard error, so that the line stands alone.
    """
    answer = os.dup(1)
    os.dup2(2, 1)
    row = next(row for row in ROWS if row.name == row_name)
    result: dict[str, object]
    try:
        if row.session:
            api.init(**row.init)
        result = {"samples": row.sample(api, EFFORTS[effort_name])}
    except Exception:
        result = {"error": traceback.format_exc()}
    os.write(answer, json.dumps(result).encode() + b"\n")
    if row.session:
        api.shutdown()


if __name__ == "__main__":
    import phalanx

    serve(phalanx, *sys.argv[1:])
