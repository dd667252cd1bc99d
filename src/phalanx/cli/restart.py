"""The command `phalanx restart`."""

from __future__ import annotations

import os
import signal
import time

from phalanx.cli.ending import Ended
from phalanx.cli.table import report
from phalanx.runtime.daemons.local import local_daemons

_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 0.1


def restart() -> None:
    """Restart the processes of this machine's nodes, while the commands of jobs go on running.

    Tasks, actors and drivers on the nodes end. Afterwards the nodes run the
    installed release of Phalanx. Exit 1: a node did not join again,
    or no node runs here.
    """
    before = {one.pid: one.node_id for _, one in local_daemons() if one.kind == "node"}
    if not before:
        report("No node runs on this machine under this user.")
        raise Ended(1)
    for pid in before:
        os.kill(pid, signal.SIGHUP)
    deadline = time.monotonic() + _TIMEOUT_S
    while waiting := _not_yet(before):
        if time.monotonic() > deadline:
            names = ", ".join(node_id[:12] for node_id in waiting)
            report(f"These nodes did not join again within {_TIMEOUT_S:.0f} s: {names}.")
            raise Ended(1)
        time.sleep(_LOOK_EVERY_S)
    for pid, node_id in _now(before).items():
        report(f"Node {before[pid][:12]} goes on as node {node_id[:12]}.")


def _now(before: dict[int, str]) -> dict[int, str]:
    """Return, by pid, the new node ids of those processes in `before` that have joined again. Each
    process joins again as another node.
    """
    return {
        one.pid: one.node_id
        for _, one in local_daemons()
        if one.pid in before and one.node_id != before[one.pid]
    }


def _not_yet(before: dict[int, str]) -> list[str]:
    now = _now(before)
    return [node_id for pid, node_id in before.items() if pid not in now]
