"""A node's lease machine, with a log of the effects that it requested."""

from __future__ import annotations

from phalanx.model.ids import GroupId
from phalanx.model.lifecycle import CREATED, REMOVED
from phalanx.node.bundle_table import BundleTable
from phalanx.node.group_places import GroupPlaces
from phalanx.node.leases.machine import (
    LeaseMachine,
)
from phalanx.node.workers import WorkerPool
from phalanx.protocol.bundle_messages import GroupKnown
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import ResourceSet


def owner(name):
    return name.encode() * 12 + b"\0\0\0\1"


GONE = GroupKnown(GroupId(b"gone"), REMOVED, [{"CPU": 1.0}], [""])


class Node:
    """A lease machine and its effects. Workers are ready as soon as they are started."""

    def __init__(self, ready=True, **total):
        self.log = []
        self.started = []
        self.starts_ready = ready
        self.give_back_at_once = False
        self.now = 10.0
        self.count = 0
        pool = WorkerPool(4, self.make_id)
        self.resources = NodeResources(total or {"CPU": 2})
        self.bundles = BundleTable(self.resources)
        places = GroupPlaces("n1", self.bundles)
        places.put(GONE)
        self.machine = LeaseMachine(
            self.resources, self, pool, node_id="n1", labels={"zone": "a"}, groups=places
        )

    def make_id(self, job):
        self.count += 1
        return self.count.to_bytes(12, "big") + job

    # ---- effects

    def start_worker(self, worker):
        self.started.append(worker)

    def stop_worker(self, worker, reason, force):
        self.log.append(f"stop {worker.lease}: {reason}")

    def warn_worker(self, worker):
        self.log.append(f"warn {worker.lease}")

    def granted(self, lease):
        self.log.append(f"grant {lease.demand.owner[:1].decode()}")
        if self.give_back_at_once:
            self.machine.returned(lease.number, True, self.now)

    def due(self, lease):
        self.log.append(f"due {lease.demand.owner[:1].decode()}")

    def refused(self, demand, reason, error):
        self.log.append(f"refuse {demand.owner[:1].decode()} {error or 'now'}: {reason}")

    # ---- events

    def want(self, name, count=1, seen=0, number=1, **more):
        resources = ResourceSet.from_mapping(more.pop("resources", {"CPU": 1}))
        self.machine.want(
            self.now,
            owner=owner(name),
            scheduling_class=number,
            place=resources,
            hold=more.pop("hold", resources),
            count=count,
            seen=seen,
            job=b"\0\0\0\1",
            asker=self,
            **more,
        )
        if self.starts_ready:
            self.all_ready()

    def all_ready(self):
        while self.started:
            worker = self.started.pop(0)
            self.machine.worker_ready(worker.worker_id, 1, self.now)

    def leases(self, name=None):
        found = self.machine.leases.values()
        return [x for x in found if name is None or x.demand.owner == owner(name)]

    def later(self, seconds=1.0):
        self.now += seconds
        self.machine.tick(self.now)
        if self.starts_ready:
            self.all_ready()

    def give_back(self, lease):
        self.machine.returned(lease.number, True, self.now)
        if self.starts_ready:
            self.all_ready()

    def free(self):
        return self.resources.available().get("CPU", 0)


def make_group(node, *bundles, name=b"g"):
    """Make a group whose bundles are all on this node."""
    amounts = {i: ResourceSet.from_mapping(b) for i, b in enumerate(bundles)}
    assert node.bundles.prepare(name, 1, amounts, node.now)
    assert node.bundles.commit(name, 1)
    node.machine.groups.put(GroupKnown(name, CREATED, list(bundles), ["n1"] * len(bundles)))
