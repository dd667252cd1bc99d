"""A simulated node's members of jobs: the production part, over commands that only take time."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from phalanx.node.job_members import MARK, NodeMembers
from phalanx.protocol.cluster_messages import StartMember
from phalanx.protocol.zygote_messages import Exited

if TYPE_CHECKING:
    from phalanx.sim.chaos.node import SimNode

WORK = "work"
"""The simulated command: `work MEAN_S FAILS` runs for a time around MEAN_S seconds, and exits
with 1 in FAILS of all runs."""
_FORK_S = 0.02


class SimMembers(NodeMembers):
    """No files, and ids in order."""

    def __init__(self, node: SimNode) -> None:
        super().__init__(cast(Any, node))
        self._node = node
        self._rng = node.world.kernel.rng(f"members {node.name}")
        self._count = 0
        self.commands: dict[bytes, StartMember] = {}
        """Those that run, by process."""

    def _new_process(self) -> bytes:
        self._count += 1
        return MARK + self._count.to_bytes(10, "big")

    def _make_files(self, order: StartMember) -> str:
        return f"{order.name}.{order.attempt}.log"

    def directory(self, job: str) -> str:
        """Nowhere."""
        return job

    def forget(self, job: str) -> None:
        """There are no files."""

    # ---- what the zygote does ----------------------------------------------------------------

    def run(self, process: bytes, argv: list[str]) -> None:
        """Fork a command."""
        node, order = self._node, self._of_process[process].order
        word, mean_s, fails = argv
        assert word == WORK, argv
        self.commands[process] = order
        node.world.promises.jobs.started(node, order)
        seconds = min(self._rng.expovariate(1.0 / float(mean_s)), 8.0 * float(mean_s))
        code = int(self._rng.random() < float(fails))
        forked_s = self._rng.uniform(0.0, _FORK_S)
        node.host.later(
            (forked_s + seconds) * node.host.slowness, partial(self._ends, process, code)
        )

    def signal(self, process: bytes, number: int) -> None:
        """A command is told to end; one that hears SIGTERM may take its time for that."""
        wait_s = 0.001
        if number == signal.SIGTERM:
            wait_s = self._rng.choice((0.001, 0.2, 3.0))
        self._node.host.later(wait_s, partial(self._ends, process, -number))

    def _ends(self, process: bytes, code: int) -> None:
        order = self.commands.pop(process, None)
        if order is not None:
            node = self._node
            node.world.promises.jobs.ended(node, order, code)
            node.guarded(partial(self._exited, process, code))

    def _exited(self, process: bytes, code: int) -> None:
        self.exited(Exited(process, 0, code))
