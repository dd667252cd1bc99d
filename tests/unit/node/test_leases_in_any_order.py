"""No resource is given twice and none is lost, in any order of requests to a node."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.effort import examples
from tests.unit.node.leasing import Node, owner

from phalanx.node.workers import MIN_STARTING
from phalanx.scheduler.devices.sets import ResourceSet


class AnyOrder(RuleBasedStateMachine):
    """Checks that no resource is given twice and none is lost, in any order of events."""

    SHAPES: tuple[dict[str, float], ...] = (
        {"CPU": 1},
        {"CPU": 2},
        {"GPU": 0.3},
        {"CPU": 1, "GPU": 1},
        {},
    )

    def __init__(self):
        super().__init__()
        self.node = Node(ready=False, CPU=3, GPU=2)

    @rule(name=st.sampled_from("ab"), shape=st.integers(0, 4), count=st.integers(0, 3))
    def want(self, name, shape, count):
        made = self.node.machine.waiting._made.get((owner(name), shape), 0)
        self.node.want(name, count, made, shape, resources=self.SHAPES[shape], priority=shape % 2)

    @precondition(lambda self: self.node.started)
    @rule(dies=st.booleans())
    def worker_starts(self, dies):
        worker = self.node.started.pop(0)
        if dies:
            self.node.machine.worker_gone(worker.worker_id, self.node.now)
        else:
            self.node.machine.worker_ready(worker.worker_id, 1, self.node.now)

    def _pick(self, data, condition=lambda lease: lease.is_granted):
        found = [x for x in self.node.leases() if condition(x)]
        return data.draw(st.sampled_from(found)) if found else None

    @rule(data=st.data())
    def give_back(self, data):
        if lease := self._pick(data):
            self.node.machine.returned(lease.number, data.draw(st.booleans()), self.node.now)

    @rule(data=st.data(), block=st.booleans())
    def block(self, data, block):
        if lease := self._pick(data):
            worker = lease.worker.worker_id
            if block:
                self.node.machine.blocked(worker, self.node.now)
            else:
                self.node.machine.unblocked(worker)

    @rule(data=st.data())
    def worker_dies(self, data):
        if lease := self._pick(data, lambda lease: True):
            if lease.worker in self.node.started:
                self.node.started.remove(lease.worker)
            self.node.machine.worker_gone(lease.worker.worker_id, self.node.now)

    @rule(name=st.sampled_from("ab"))
    def owner_dies(self, name):
        for lease in self.node.machine.owner_gone(owner(name), self.node.now):
            if lease.worker in self.node.started:
                self.node.started.remove(lease.worker)
            self.node.machine.worker_gone(lease.worker.worker_id, self.node.now)
        assert not self.node.leases(name)

    @rule(seconds=st.sampled_from([0.005, 0.02, 2.0]))
    def time_passes(self, seconds):
        self.node.later(seconds)

    @invariant()
    def amounts_add_up(self):
        held = ResourceSet()
        shares: dict[Any, Any] = {}
        for lease in self.node.leases():
            held = held + lease.rest.resources
            if not lease.is_blocked:
                held = held + lease.cpus.resources
            for index, units in lease.rest.instances.get("GPU", ()):
                shares[index] = shares.get(index, 0) + units
        assert all(units <= 10_000 for units in shares.values())
        free = self.node.resources.available()
        total = self.node.resources.total()
        used = held.to_mapping()
        for name, amount in total.items():
            if name == "GPU":
                assert free[name] + used.get(name, 0) == pytest.approx(amount)
            else:  # what was lent may be owed
                assert free[name] == pytest.approx(max(0, amount - used.get(name, 0)))

    @invariant()
    def nothing_waits_that_fits(self):
        """Check that every demand that fits was granted. There are two exceptions: as many workers
        as allowed are already starting, or the demand's class already has enough workers to fill
        the node. Beyond that number, a worker is started only now and then.
        """
        pool = self.node.machine.workers
        starting = sum(not worker.is_ready for worker in pool.all())
        assert pool.may_start == (starting < MIN_STARTING)
        assert starting <= MIN_STARTING
        for demand in self.node.machine.waiting.all():
            cpus = demand.hold.get("CPU", 0)
            held = sum(lease.demand.key == demand.key for lease in self.node.leases())
            fills = cpus and held * cpus >= self.node.resources.total_units()["CPU"]
            fits = self.node.resources.can_now(demand.place)
            assert not (fits and pool.may_start and not fills), demand

    @invariant()
    def workers_have_one_lease(self):
        workers = [x.worker.worker_id for x in self.node.leases()]
        assert len(set(workers)) == len(workers)
        for lease in self.node.leases():
            assert lease.worker.lease == lease.number


AnyOrder.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestAnyOrder = AnyOrder.TestCase
