"""The command `phalanx debug`: Python's debugger in work that waits at a breakpoint."""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec

from phalanx.cli.common_options import Json
from phalanx.cli.options import Argument
from phalanx.cli.reach import NOT_FOUND, fail
from phalanx.cli.table import echo, say, table
from phalanx.model.readable import duration

if TYPE_CHECKING:
    from phalanx.runtime.os.debugging import Breakpoint

FORMAT = "phalanx-debug/1"


def debug(
    pid: Annotated[
        int | None,
        Argument(
            help="Process id of the task or actor. Default: list all tasks and actors that wait."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Debug a task or an actor that waits at `breakpoint()` on this machine.

    In the debugger, `c` continues the work and `q` ends it with an error. If
    `phalanx debug` itself is ended, the work continues.
    """
    from phalanx.runtime.os.debugging import attach, waiting

    found = waiting()
    if pid is None:
        if json:
            rows = msgspec.to_builtins(found)
            echo(json_module.dumps({"format": FORMAT, "rows": rows}))
        elif found:
            say(waiting_text(found, time.time()))
        else:
            say("None of your work waits at a breakpoint on this machine.", err=True)
        return
    row = next((row for row in found if row.pid == pid), None)
    if row is None:
        known = ", ".join(str(row.pid) for row in found) or "none"
        fail(
            f"process {pid} does not wait at a breakpoint on this machine; waiting processes: "
            f"{known}",
            NOT_FOUND,
        )
    try:
        attach(row, sys.stdin.buffer, sys.stdout.buffer)
    except OSError as error:
        fail(f"process {pid} can no longer be reached: {error.strerror}", NOT_FOUND)


def waiting_text(found: Sequence[Breakpoint], now: float) -> str:
    """Return a table of the processes that wait at breakpoints."""
    rows = [
        [str(row.pid), row.name, duration(now - row.since), f"{row.file}:{row.line}"]
        for row in found
    ]
    return table(("PID", "NAME", "FOR", "WHERE"), rows, ("PID", "FOR"))
