"""The command `phalanx stack`: the Python stacks of drivers and workers."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Annotated

from phalanx.cli.node_names import find_node, names_of
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import NOT_FOUND, fail
from phalanx.cli.state import TIMEOUT_S, Address, Json, Timeout, echo_data, query_state
from phalanx.cli.table import say
from phalanx.observe.state.query import MAX_LIMIT, StateQuery, Value

PY_SPY_S = 60.0
"""Seconds that py-spy may take for one process."""
_SILENT = re.compile(r"(?:driver|worker) (\d+) of node ([0-9a-f]+)")


def stack(
    pids: Annotated[
        list[int] | None, Argument(help="Process ids of drivers and workers to show. Default: all.")
    ] = None,
    node: Annotated[
        str | None,
        Option(
            help="Show only the processes of this node: its id, the beginning of its id, or its "
            "name."
        ),
    ] = None,
    timeout: Timeout = TIMEOUT_S,
    address: Address = None,
    json: Json = False,
) -> None:
    """Print the Python stacks of all threads of drivers and workers.

    A process that gives no answer was stopped by a signal, or holds Python's GIL.
    py-spy then reads the stack of the process, if the process runs on this
    machine and py-spy is installed and permitted.
    """
    filters: list[tuple[str, str, Value]] = []
    if node is not None:
        filters.append(("node_id", "=", find_node(address, node, with_programs=True)))
    query = StateQuery("stacks", filters, MAX_LIMIT, True, timeout_s=timeout)
    found = query_state(address, query)
    rows = [row for row in found.part.rows if not pids or row["pid"] in pids]
    silent = [match for text in found.silent if (match := _SILENT.match(text)) is not None]
    here = _nodes_here(address) if silent else set()
    seen = {
        int(pid): _seen_by_py_spy(int(pid))
        for pid, of_node in (match.groups() for match in silent)
        if of_node in here and (not pids or int(pid) in pids)
    }
    if not rows and not seen:
        fail(
            "There is no such driver or worker: `phalanx list workers` lists the workers.",
            NOT_FOUND,
        )
    if json:
        data = {"format": "phalanx-stack/1", "silent": found.silent, "rows": rows, "py_spy": seen}
        echo_data(data, "json")
        return
    name = names_of(address, [row["node_id"] for row in rows], with_ids=False, with_programs=True)
    for row in rows:
        where = f"{row['type'].lower()} {row['pid']} of node {name(row['node_id'])}"
        say(f"==== {where}, {row['thread']}\n{row['stack'].rstrip()}")
    for process, text in seen.items():
        say(f"==== process {process}, by py-spy\n{text.rstrip()}")


def _nodes_here(address: str | None) -> set[str]:
    from phalanx.runtime.daemons.finding import find_daemons

    return {one.node_id for _, one in find_daemons(address, with_programs=True)}


def _seen_by_py_spy(pid: int) -> str:
    """Return the stacks that py-spy reads from a process, or the reason why it reads none."""
    program = shutil.which("py-spy")
    if program is None:
        return "it gives no answer, and py-spy is not installed here (pip install py-spy)"
    command = [program, "dump", "--pid", str(pid)]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=PY_SPY_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"py-spy could not look: {error}"
    return ended.stdout or ended.stderr
