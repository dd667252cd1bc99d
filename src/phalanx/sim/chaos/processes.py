"""A simulated node's worker processes: forked, killed, reaped; what zygote and `node_exits` do."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from phalanx.protocol.cluster_messages import ActorLost
from phalanx.protocol.node_messages import PREEMPTED, WorkerDied
from phalanx.sim.chaos.worker import SimWorker

if TYPE_CHECKING:
    from phalanx.sim.chaos.node import SimNode

_SIGNAL_S = 0.001
_REAP_S = 0.002


class Processes:
    """Workers by id, and why they were told to end."""

    def __init__(self, node: SimNode) -> None:
        self._node = node
        self._rng = node.world.kernel.rng(f"processes {node.name}")
        self.workers: dict[bytes, SimWorker] = {}
        self.reasons: dict[bytes, tuple[str, str]] = {}

    def start(self, worker_id: bytes) -> None:
        """Fork a worker; it says hello when it is ready."""
        node = self._node
        worker = self.workers[worker_id] = SimWorker(node, worker_id)
        delay_s = self._rng.uniform(*node.world.options.start_s) * node.host.slowness
        node.host.later(delay_s, worker.begin)

    def kill(self, worker_id: bytes) -> None:
        """SIGKILL, in a moment."""
        worker = self.workers.get(worker_id)
        if worker is not None:
            self._node.host.later(_SIGNAL_S, partial(worker.die, "killed"))

    def warn(self, worker_id: bytes) -> None:
        """SIGTERM: it ends soon, or when it pleases."""
        worker = self.workers.get(worker_id)
        if worker is not None:
            delay_s = self._rng.choice((_SIGNAL_S, 0.2, 3.0))
            self._node.host.later(delay_s, partial(worker.die, "signal SIGTERM"))

    def died(self, worker: SimWorker, how: str, read_until: float) -> None:
        """A worker's process has ended. What it said last is read before its end is known."""
        node = self._node
        wait_s = max(read_until - node.world.kernel.now, 0.0)
        reap = partial(self._exited, worker, how)
        node.host.later(wait_s + self._rng.uniform(0.0, _REAP_S), partial(node.guarded, reap))

    def _exited(self, worker: SimWorker, how: str) -> None:
        node = self._node
        now = node.clock()
        worker_id = worker.worker_id
        self.workers.pop(worker_id, None)
        reason, kind = self.reasons.pop(worker_id, (f"worker process ended: {how}", "crashed"))
        if kind == PREEMPTED:
            node.world.promises.preempted(worker_id)
        known = node.leases.workers.get(worker_id)
        end = node.peers.pop(worker_id, None)
        lease = node.leases.worker_gone(worker_id, now)
        if end is not None:
            end.close()
        node.jobs.worker_gone(worker_id)
        if known is None:
            return
        died = WorkerDied(worker_id, reason, kind)
        owner = None if lease is None or lease.demand.actor else lease.demand.owner
        if lease is not None and lease.demand.actor:
            lost = ActorLost(lease.demand.actor, worker_id, reason, kind == PREEMPTED)
            node.control.tell(lost)
        elif owner is not None and owner in node.peers:
            node.peers[owner].post(died)
        node.process_gone(worker_id, now)
        for peer, other in node.peers.items():
            if peer != owner:
                other.post(died)
