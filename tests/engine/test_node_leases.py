"""The node's machine: never more than there is, turns by priority and share, loans of CPUs."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from phalanx.model.lifecycle import CREATED, REMOVED
from phalanx.node.bundle_table import BundleTable
from phalanx.node.group_places import GroupPlaces
from phalanx.node.leases import (
    LEAST_HOLD_S,
    LONGEST_HOLD_S,
    UNAVAILABLE_AFTER_S,
    LeaseMachine,
)
from phalanx.node.workers import LEAST_STARTING, WorkerPool
from phalanx.protocol.cluster_messages import GroupKnown
from phalanx.protocol.node_messages import OVER
from phalanx.resources.instances import NodeResources
from phalanx.resources.sets import ResourceSet


def owner(name):
    return name.encode() * 12 + b"\0\0\0\1"


GONE = GroupKnown(b"gone", REMOVED, [{"CPU": 1.0}], [""])


class Node:
    """A lease machine and what it asked for; workers are ready as soon as they are started."""

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
        self.machine = LeaseMachine(self.resources, self, pool, "n1", {"zone": "a"}, places)

    def make_id(self, job):
        self.count += 1
        return self.count.to_bytes(12, "big") + job

    # ---- effects

    def start_worker(self, worker):
        self.started.append(worker)

    def stop_worker(self, worker, reason, force):
        self.log.append(f"stop {worker.lease}: {reason}")

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


def test_grants_as_many_as_fit_and_the_rest_when_something_comes_back():
    node = Node(CPU=2)
    node.want("a", 5)
    assert (len(node.leases("a")), node.free()) == (2, 0)
    node.give_back(node.leases("a")[0])
    assert (len(node.leases("a")), node.machine.waiting.all()[0].count) == (2, 2)


def test_grants_on_their_way_count_against_what_is_wanted():
    node = Node(CPU=8)
    node.want("a", 3, seen=0)
    node.want("a", 4, seen=1)
    assert len(node.leases("a")) == 1 + 4


def test_a_demand_of_zero_withdraws():
    node = Node(CPU=1)
    node.want("a", 5)
    node.want("a", 0, seen=1)
    node.give_back(node.leases("a")[0])
    assert (node.leases("a"), node.machine.waiting.all()) == ([], [])


def test_an_owner_that_is_gone_gets_nothing():
    node = Node(CPU=1)
    node.want("a")
    node.want("b", 5)
    node.machine.owner_gone(owner("b"), node.now)
    node.give_back(node.leases("a")[0])
    assert (node.leases(), node.machine.waiting.all()) == ([], [])


def test_the_leases_of_a_gone_owner_end_with_their_workers():
    node = Node(CPU=2)
    node.want("a", 2)
    found = node.machine.owner_gone(owner("a"), node.now)
    assert len(found) == 2
    assert node.log[-2:] == ["stop 1: its owner died", "stop 2: its owner died"]
    for lease in found:
        node.machine.worker_gone(lease.worker.worker_id, node.now)
    assert node.free() == 2


def test_a_worker_that_is_to_end_with_its_owner_serves_nobody_else():
    """It may say that it is ready while its end is on its way."""
    node = Node(ready=False, CPU=1)
    node.want("a")
    node.machine.owner_gone(owner("a"), node.now)
    node.give_back_at_once = True
    doomed = node.started[0]
    node.all_ready()
    node.give_back_at_once = False
    node.want("b")
    (lease,) = node.leases("b")
    assert lease.worker is not doomed


def test_grants_that_come_back_at_once_do_not_recurse():
    """The shell gives a lease back inside `granted` when its owner is not there any more."""
    node = Node(CPU=1)
    node.want("a")
    node.want("b", 5000)
    node.give_back_at_once = True
    node.give_back(node.leases("a")[0])
    assert (node.leases(), node.machine.waiting.all()) == ([], [])
    assert node.free() == 1


def test_a_worker_that_dies_before_it_is_ready_is_replaced():
    node = Node(ready=False, CPU=1)
    node.want("a")
    first = node.started.pop()
    node.machine.worker_gone(first.worker_id, node.now)
    assert node.started[0].worker_id != first.worker_id
    node.all_ready()
    assert node.log == ["grant a"]


@pytest.mark.parametrize("total", [1, 2])
def test_what_died_unready_is_wanted_beside_what_was_wanted_since(total):
    node = Node(ready=False, CPU=total)
    node.want("a", 1)
    node.want("a", 4)
    node.machine.worker_gone(node.started.pop(0).worker_id, node.now)
    waiting = sum(d.count for d in node.machine.waiting.all())
    assert waiting + len(node.leases("a")) == 4


def test_what_died_unready_is_not_wanted_again_once_it_was_withdrawn():
    node = Node(ready=False, CPU=2)
    node.want("a", 2)
    node.want("a", 0)
    for worker in list(node.started):
        node.machine.worker_gone(worker.worker_id, node.now)
    assert (len(node.started), node.machine.waiting.all()) == (2, [])


def test_as_many_are_wanted_again_as_still_are():
    node = Node(ready=False, CPU=3)
    node.want("a", 3)
    node.want("a", 1)
    for worker in list(node.started):
        node.machine.worker_gone(worker.worker_id, node.now)
    assert len(node.leases("a")) + sum(d.count for d in node.machine.waiting.all()) == 1


def test_a_class_that_is_over_leaves_nothing_behind():
    node = Node(ready=False, CPU=1)
    node.want("a", 2)
    assert node.machine.waiting.is_known(owner("a"), 1)
    node.want("a", OVER)
    assert not node.machine.waiting.is_known(owner("a"), 1)
    node.machine.worker_gone(node.started.pop().worker_id, node.now)
    assert (node.started, node.machine.waiting.all()) == ([], [])


@pytest.mark.parametrize("is_wanted_again", [False, True])
def test_an_actor_withdrawn_while_its_worker_starts(is_wanted_again):
    node = Node(ready=False, CPU=2)
    node.want("c", actor=b"actor")
    node.machine.withdraw_actor(b"actor")
    if is_wanted_again:
        node.want("c", actor=b"actor")
    assert len(node.started) == 1, "the worker that starts will do"
    node.machine.worker_gone(node.started.pop().worker_id, node.now)
    assert len(node.started) == is_wanted_again


def test_priority_goes_first():
    node = Node(CPU=1)
    node.want("a")
    node.want("b")
    node.want("c", priority=5)
    node.give_back(node.leases("a")[0])
    assert node.log == ["grant a", "grant c"]


def test_those_who_hold_less_go_first():
    node = Node(CPU=4)
    node.want("a", 9)
    node.want("b", 9)
    for _ in range(2):
        node.give_back(node.leases("a")[0])
    assert (len(node.leases("a")), len(node.leases("b"))) == (2, 2)


def test_a_lease_of_whoever_holds_most_is_due_after_its_least_hold():
    node = Node(CPU=3)
    node.want("a", 3)
    node.want("b", 1)
    assert "due a" not in node.log
    node.later(LEAST_HOLD_S * 2)
    assert node.log.count("due a") == 1
    node.give_back(next(x for x in node.leases("a") if x.is_due))
    assert node.log[-1] == "grant b"
    node.later()
    assert node.log.count("due a") == 1, "nobody waits any more"


def test_equal_shares_are_left_alone_for_a_while():
    node = Node(CPU=2)
    node.want("a", 1)
    node.want("b", 5)
    node.later(LONGEST_HOLD_S * 0.9)
    assert not [line for line in node.log if line.startswith("due")]
    node.later(LONGEST_HOLD_S * 0.2)
    assert [line for line in node.log if line.startswith("due")] == ["due a"]


def test_lower_priority_is_due_first_and_higher_never():
    node = Node(CPU=2)
    node.want("a", 1, priority=9)
    node.want("b", 1, priority=1)
    node.want("c", 1, priority=5)
    node.later()
    assert [line for line in node.log if line.startswith("due")] == ["due b"]


def test_blocked_cpus_are_lent_and_taken_back():
    node = Node(CPU=1)
    node.want("a")
    node.want("b")
    (mine,) = node.leases("a")
    node.machine.blocked(mine.worker.worker_id, node.now)
    node.all_ready()
    assert len(node.leases("b")) == 1
    node.machine.unblocked(mine.worker.worker_id)
    assert node.free() == 0
    node.want("c")
    node.give_back(node.leases("b")[0])
    assert not node.leases("c"), "one CPU, and its borrower's lender runs on it again"
    node.give_back(mine)
    assert len(node.leases("c")) == 1


def test_blocking_twice_lends_once():
    node = Node(CPU=1)
    node.want("a")
    (mine,) = node.leases("a")
    for _ in range(2):
        node.machine.blocked(mine.worker.worker_id, node.now)
    assert node.free() == 1
    for _ in range(2):
        node.machine.unblocked(mine.worker.worker_id)
    assert node.free() == 0
    node.give_back(mine)
    assert node.free() == 1


def test_a_blocked_worker_that_dies_gives_back_once():
    node = Node(CPU=1, GPU=1)
    node.want("a", resources={"CPU": 1, "GPU": 1})
    (mine,) = node.leases("a")
    node.machine.blocked(mine.worker.worker_id, node.now)
    assert node.resources.available()["GPU"] == 0, "only CPUs are lent"
    node.machine.worker_gone(mine.worker.worker_id, node.now)
    assert node.resources.available() == {"CPU": 1, "GPU": 1}


def test_an_actor_places_with_what_it_does_not_hold():
    node = Node(CPU=1)
    node.want("a", hold=ResourceSet(), actor=b"actor")
    node.want("b")
    assert (len(node.leases()), node.free()) == (2, 0)
    node.want("a", hold=ResourceSet(), actor=b"other")
    assert len(node.leases()) == 2, "placing needs a free CPU"
    node.machine.withdraw_actor(b"other")
    assert not node.machine.waiting.all()


REFUSALS = {
    "too many CPUs": (
        {"resources": {"CPU": 9}},
        "refuse a now: it asks for {'CPU': 9.0} and the largest node has {'CPU': 2.0}",
    ),
    "what it does not have": (
        {"resources": {"TPU": 1}},
        "refuse a now: it asks for {'TPU': 1.0} and the largest node has {'TPU': 0}",
    ),
    "another node": (
        {"strategy": {"node_id": "n2"}},
        "refuse a TaskUnschedulableError: node n2 does not exist or is not alive",
    ),
    "another node, for an actor": (
        {"strategy": {"node_id": "n2"}, "actor": b"x"},
        "refuse a ActorUnschedulableError: node n2 does not exist or is not alive",
    ),
    "a group that is gone": (
        {"group": (GONE.group, 0)},
        "refuse a TaskPlacementGroupRemoved: its placement group was removed",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_say_why(name):
    fields, line = REFUSALS[name]
    node = Node(CPU=2)
    node.want("a", **fields)
    assert node.log == [line]
    node.later()
    assert node.log == [line], "once"
    assert bool(node.machine.waiting.all()) == (" now:" in line)


def test_another_node_is_only_a_wish_when_soft():
    node = Node(CPU=2)
    node.want("a", strategy={"node_id": "n2", "soft": True})
    assert node.log == ["grant a"]


def make_group(node, *bundles):
    """A group whose bundles are all here."""
    amounts = {i: ResourceSet.from_mapping(b) for i, b in enumerate(bundles)}
    assert node.bundles.prepare(b"g", 1, amounts, node.now)
    assert node.bundles.commit(b"g", 1)
    node.machine.groups.put(GroupKnown(b"g", CREATED, list(bundles), ["n1"] * len(bundles)))


def test_a_group_gives_its_bundles_and_no_more():
    node = Node(CPU=3)
    make_group(node, {"CPU": 1}, {"CPU": 1})
    node.want("a", 5, group=(b"g", 0))
    node.want("b", 5, group=(b"g", -1))
    node.want("c", 5)
    assert [len(node.leases(name)) for name in "abc"] == [1, 1, 1]


def test_a_bundle_that_a_group_does_not_have_is_refused():
    node = Node(CPU=2)
    make_group(node, {"CPU": 1})
    node.want("a", group=(b"g", 7))
    assert node.log[0].startswith("refuse a ValueError")


def test_removing_a_group_ends_what_runs_in_it_and_then_frees_its_bundles():
    node = Node(CPU=1)
    make_group(node, {"CPU": 1})
    node.want("a", group=(b"g", 0))
    (lease,) = node.leases("a")
    pools = node.bundles.give_back(b"g", 1, [0])
    node.machine.end_in(pools, "its placement group was removed")
    assert node.log[-1] == "stop 1: its placement group was removed"
    assert node.bundles.settle() == []
    assert node.free() == 0
    node.machine.worker_gone(lease.worker.worker_id, node.now)
    assert node.bundles.settle() == [(b"g", 1)]
    assert node.free() == 1


def test_how_long_leases_are_held_is_averaged():
    node = Node(CPU=2)
    node.want("a", 2)
    node.all_ready()
    first, second = node.leases("a")
    node.now += 3
    node.give_back(first)
    assert node.machine.run_s.value == 3
    node.now += 3
    node.give_back(second)
    assert node.machine.run_s.value == pytest.approx(3 + 0.2 * (6 - 3))
    node.want("b", actor=b"x")
    node.all_ready()
    (actor,) = node.machine.leases.values()
    node.now += 100
    node.give_back(actor)
    assert node.machine.run_s.value == pytest.approx(3.6), "an actor's life is no task's"


def test_a_draining_node_asks_for_its_leases_back_and_begins_nothing_new():
    node = Node(ready=False, CPU=3)
    make_group(node, {"CPU": 1})
    node.want("a")
    node.all_ready()
    node.want("b")  # its worker is on its way
    node.machine.drain(node.now)
    node.all_ready()
    assert node.log == ["grant a", "due a", "grant b", "due b"]
    node.give_back(node.leases("a")[0])
    node.want("c")
    assert node.log[4:] == ["refuse c now: this node drains, and no other can ever run it"]
    node.want("d", strategy={"node_id": "n1"})
    assert node.log[5:] == ["refuse d TaskUnschedulableError: node n1 drains"]
    node.want("e", group=(b"g", 0))
    node.all_ready()
    assert node.log[6:] == ["grant e"]


class AnyOrder(RuleBasedStateMachine):
    """Whatever comes in whatever order: no resource is given twice, none is lost."""

    SHAPES = ({"CPU": 1}, {"CPU": 2}, {"GPU": 0.3}, {"CPU": 1, "GPU": 1}, {})

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
        shares = {}
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
        """Whatever fits was given, unless as many workers as may be are starting."""
        pool = self.node.machine.workers
        starting = sum(not worker.is_ready for worker in pool.all())
        assert pool.may_start == (starting < LEAST_STARTING)
        assert starting <= LEAST_STARTING
        for demand in self.node.machine.waiting.all():
            fits = self.node.resources.can_now(demand.place)
            assert not (fits and pool.may_start), demand

    @invariant()
    def workers_have_one_lease(self):
        workers = [x.worker.worker_id for x in self.node.leases()]
        assert len(set(workers)) == len(workers)
        for lease in self.node.leases():
            assert lease.worker.lease == lease.number


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase


IMPATIENT = {"node_id": "n1", "soft": False, "fail_on_unavailable": True}


def test_what_must_not_wait_for_a_busy_node_fails_soon():
    node = Node(CPU=1)
    node.want("a")
    node.want("b", strategy=IMPATIENT)
    node.later(UNAVAILABLE_AFTER_S / 2)
    assert node.machine.waiting
    node.later(UNAVAILABLE_AFTER_S / 2)
    assert node.log[-1] == (
        "refuse b TaskUnschedulableError: node n1 does not have {'CPU': 1.0} free now"
    )
    assert not node.machine.waiting


def test_an_idle_lease_that_comes_back_is_no_busy_node():
    node = Node(CPU=1)
    node.want("a")
    node.want("b", strategy=IMPATIENT)
    node.give_back(node.leases("a")[0])
    node.later(UNAVAILABLE_AFTER_S)
    assert node.log[-1] == "grant b"
