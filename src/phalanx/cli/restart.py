"""The command `phalanx restart`."""

from __future__ import annotations

import os
import signal
import time

from phalanx.cli.ending import Ended
from phalanx.cli.table import report
from phalanx.runtime.daemons.daemon_files import Announcement
from phalanx.runtime.daemons.local import local_daemons
from phalanx.runtime.os.session import started_at

_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 0.1


def restart() -> None:
    """Restart the processes of this machine's nodes, while the commands of jobs go on running.

    Tasks, actors and drivers on the nodes end. Afterwards the nodes run the
    installed release of Phalanx. Exit 1: a node did not join again,
    or no node runs here.
    """
    before = {one.pid: one for _, one in local_daemons() if one.kind == "node"}
    if not before:
        report("No node runs on this machine under this user.")
        raise Ended(1)
    for pid in before:
        os.kill(pid, signal.SIGHUP)
    deadline = time.monotonic() + _TIMEOUT_S
    waiting, has_failed = dict(before), False
    while waiting:
        for pid, node_id in _joined_again(waiting).items():
            report(f"Node {waiting.pop(pid).node_id[:12]} goes on as node {node_id[:12]}.")
        for pid in [one.pid for one in waiting.values() if started_at(one.pid) != one.started]:
            ended, has_failed = waiting.pop(pid).node_id[:12], True
            report(
                f"The process of node {ended} has ended. `phalanx logs --node {ended}` says why."
            )
        if waiting and time.monotonic() > deadline:
            names = ", ".join(one.node_id[:12] for one in waiting.values())
            report(f"These nodes did not join again within {_TIMEOUT_S:.0f} s: {names}.")
            raise Ended(1)
        time.sleep(_LOOK_EVERY_S if waiting else 0.0)
    if has_failed:
        raise Ended(1)


def _joined_again(before: dict[int, Announcement]) -> dict[int, str]:
    """Return, by pid, the new node ids of those processes in `before` that have joined again. Each
    process joins again as another node.
    """
    return {
        one.pid: one.node_id
        for _, one in local_daemons()
        if one.pid in before and one.node_id != before[one.pid].node_id
    }
