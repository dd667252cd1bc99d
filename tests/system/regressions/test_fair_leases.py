"""The order in which tasks wait at the node."""

from __future__ import annotations

from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.leases.queue import LONGEST_HOLD_S
from phalanx.node.workers import WorkerPool
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import ResourceSet

ONE = ResourceSet.from_mapping({"CPU": 1.0})


class Shell:
    """Records the effects that the machine requests."""

    def __init__(self):
        self.grants = []
        self.asked_back = []

    def granted(self, lease):
        self.grants.append(lease)

    def due(self, lease):
        self.asked_back.append(lease)

    def start_worker(self, worker):
        pass

    def stop_worker(self, worker, reason, force):
        pass

    def warn_worker(self, worker):
        pass

    def refused(self, demand, reason, error):
        raise AssertionError(reason)


def test_an_equal_asks_back_what_another_has_held_for_long():
    """A driver's only lease ran a parent task that never ended. This task held the other lease for
    its own tasks, and the driver never got that lease.
    """
    shell = Shell()
    ids = iter(range(100))
    pool = WorkerPool(2, lambda job: bytes([next(ids)]))
    machine = LeaseMachine(NodeResources({"CPU": 2.0}), shell, pool, node_id="node", labels={})

    def want(owner, now, seen=0):
        machine.want(
            now, seen, owner=owner, scheduling_class=1, place=ONE, hold=ONE, count=1, asker=shell
        )
        for worker in pool.all():
            if not worker.is_ready:
                machine.worker_ready(worker.worker_id, 1, now)

    want(b"driver", 0.0)
    want(b"parent", 0.0)
    assert [lease.demand.owner for lease in shell.grants] == [b"driver", b"parent"]
    want(b"driver", 0.1, seen=1)
    machine.tick(LONGEST_HOLD_S / 2)
    assert shell.asked_back == []
    machine.tick(LONGEST_HOLD_S * 1.1)
    assert [lease.demand.owner for lease in shell.asked_back] == [b"parent"]
    machine.returned(shell.asked_back[0].number, True, LONGEST_HOLD_S * 1.2)
    assert [lease.demand.owner for lease in shell.grants[2:]] == [b"driver"]
