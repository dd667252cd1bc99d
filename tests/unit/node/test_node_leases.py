"""A node's lease machine: it never gives more than there is, takes turns by priority and share, and
lends CPUs of waiting tasks.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from tests.unit.node.leasing import GONE, Node, make_group, owner

from phalanx.model.ids import GroupId
from phalanx.model.lifecycle import CREATED, PREPARED, RESCHEDULING
from phalanx.node.leases.queue import LONGEST_HOLD_S, MIN_HOLD_S
from phalanx.node.refusals import UNAVAILABLE_AFTER_S
from phalanx.protocol.bundle_messages import GroupKnown
from phalanx.protocol.node_messages import OVER
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.strategies import WHOLE_GROUP


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


def test_what_waits_for_a_queue_that_was_deleted_fails():
    node = Node(CPU=1)
    node.want("a", 2, queue="lab", is_own=True)
    node.machine.set_weights({"default": 1.0, "lab": 2.0}, node.now)
    assert len(node.machine.waiting.all()) == 1
    node.machine.set_weights({"default": 1.0}, node.now)
    assert node.log[-2:] == ["due a", "refuse a queue_unavailable: queue lab was deleted"]
    assert (len(node.leases("a")), node.machine.waiting.all()) == (1, [])


def test_a_queue_that_another_node_knows_first_is_not_refused():
    node = Node(CPU=1)
    node.machine.set_weights({"default": 1.0}, node.now)
    node.want("a", queue="new")
    assert len(node.leases("a")) == 1


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
    """The worker may report that it is ready while the message that ends it is on its way."""
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
    """If the lease's owner is gone, the shell returns the lease from inside `granted`."""
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


def test_a_worker_serves_tasks_with_devices_or_those_without():
    node = Node(CPU=1, GPU=1)
    kinds = {"a": {"CPU": 1}, "b": {"CPU": 1, "GPU": 0.5}}
    workers: dict[str, set[bytes]] = {"a": set(), "b": set()}
    for number, name in enumerate("aabbab", 1):
        node.want(name, number=number, resources=kinds[name])
        workers[name].add(node.leases()[0].worker.worker_id)
        node.give_back(node.leases()[0])
    assert (len(workers["a"]), len(workers["b"])) == (1, 1)
    assert workers["a"] != workers["b"]


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
    node.later(MIN_HOLD_S * 2)
    assert node.log.count("due a") == 1
    node.give_back(next(x for x in node.leases("a") if x.is_due))
    assert node.log[-1] == "grant b"
    node.later()
    assert node.log.count("due a") == 1, "nobody waits any more"


def test_whoever_waits_has_the_leases_looked_at_as_soon_as_one_is_held_for_long_enough():
    node = Node(CPU=1)
    node.want("a", 1)
    node.now += MIN_HOLD_S / 4
    node.want("b", 1)
    ripe_at = node.machine.look_at
    assert ripe_at == node.leases("a")[0].since + MIN_HOLD_S
    node.machine.round((node.now + ripe_at) / 2)
    assert "due a" not in node.log
    node.machine.round(ripe_at)
    assert node.log.count("due a") == 1
    assert node.machine.look_at == math.inf, "nothing else is to be made due"


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


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "too many CPUs": (
        {"resources": {"CPU": 9}},
        "refuse a now: it asks for 9 CPU and the largest node has 2 CPU",
    ),
    "what it does not have": (
        {"resources": {"TPU": 1}},
        "refuse a now: it asks for 1 TPU and the largest node has 0 TPU",
    ),
    "another node": (
        {"strategy": {"node_id": "n2"}},
        "refuse a task_unschedulable: node n2 does not exist or is not alive",
    ),
    "another node, for an actor": (
        {"strategy": {"node_id": "n2"}, "actor": b"x"},
        "refuse a actor_unschedulable: node n2 does not exist or is not alive",
    ),
    "a group that is gone": (
        {"group": (GONE.group, 0)},
        "refuse a task_group_removed: its placement group was removed",
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


def test_too_few_large_cards_are_named():
    node = Node(CPU=2, GPU=2, gpu_cards=2)
    node.resources.set_cards((80 * 2**30, 40 * 2**30))
    node.want("a", resources={"GPU": 2, "gpu_cards": 2, "gpu_memory": 50 * 2**30})
    assert node.log == [
        "refuse a task_unschedulable: it asks for 2 GPUs with 50.0 GiB of memory each, and the "
        "largest node has 1 such GPU (its GPUs: 1 with 80.0 GiB, 1 with 40.0 GiB)"
    ]


def test_another_node_is_only_a_wish_when_soft():
    node = Node(CPU=2)
    node.want("a", strategy={"node_id": "n2", "soft": True})
    assert node.log == ["grant a"]


def test_a_group_gives_its_bundles_and_no_more():
    node = Node(CPU=3)
    make_group(node, {"CPU": 1}, {"CPU": 1})
    node.want("a", 5, group=(b"g", 0))
    node.want("b", 5, group=(b"g", -1))
    node.want("c", 5)
    assert [len(node.leases(name)) for name in "abc"] == [1, 1, 1]


def test_a_bundle_with_devices_is_left_to_those_that_use_them():
    node = Node(CPU=3, GPU=1)
    make_group(node, {"CPU": 1, "GPU": 1}, {"CPU": 1}, {"CPU": 1})
    node.want("a", 2, group=(b"g", -1))
    node.want("b", resources={"CPU": 1, "GPU": 1}, group=(b"g", -1))
    node.want("a", 3, group=(b"g", -1))
    assert [len(node.leases(name)) for name in "ab"] == [2, 1]


@pytest.mark.parametrize(("state", "third"), [(RESCHEDULING, ""), (PREPARED, "n2")])
def test_what_wants_a_whole_group_waits_until_all_nodes_have_confirmed_it(state, third):
    """A node may not have confirmed the group because a bundle is being placed again, or because
    the last confirmation is on its way.
    """
    node = Node(CPU=3)
    make_group(node, {"CPU": 1}, {"CPU": 1})
    known = GroupKnown(GroupId(b"g"), state, [{"CPU": 1.0}] * 3, ["n1", "n1", third])
    node.machine.groups.put(known)
    node.want("a", resources={}, group=(b"g", WHOLE_GROUP), number=1)
    node.want("b", resources={}, group=(b"g", -1), number=2)
    assert node.log == ["grant b"]
    node.machine.groups.put(msgspec.structs.replace(known, state=CREATED, nodes=["n1"] * 3))
    node.later()
    assert node.log == ["grant b", "grant a"]


def test_bundles_that_are_left_serve_while_no_node_can_hold_a_lost_one():
    node = Node(CPU=2)
    make_group(node, {"CPU": 1})
    lost = GroupKnown(
        GroupId(b"g"), RESCHEDULING, [{"CPU": 1.0}] * 2, ["n1", ""], waits_for="no node"
    )
    node.machine.groups.put(lost)
    node.want("a", group=(b"g", -1), number=1)
    node.give_back(node.leases("a")[0])
    node.want("b", group=(b"g", 0), number=2)
    node.want("c", group=(b"g", 1), number=3)
    node.want("d", resources={}, group=(b"g", WHOLE_GROUP), number=4)
    assert [entry for entry in node.log if "grant" in entry] == ["grant a", "grant b"]
    assert [len(node.leases(name)) for name in "cd"] == [0, 0]


def test_where_a_whole_group_is_wanted_no_other_node_is_asked_before():
    node = Node(CPU=3)
    known = GroupKnown(GroupId(b"g"), RESCHEDULING, [{"CPU": 1.0}] * 2, ["n2", ""])
    node.machine.groups.put(known)
    assert node.machine.groups.nodes_of((GroupId(b"g"), WHOLE_GROUP)) == []
    assert node.machine.groups.nodes_of((GroupId(b"g"), -1)) == ["n2"]


def test_news_of_one_group_leaves_alone_what_waits_in_others(monkeypatch):
    node = Node(CPU=3)
    for name in (b"g", b"h"):
        make_group(node, {"CPU": 1}, name=name)
        node.want("a", 2, number=name[0], group=(name, 0))
    node.want("b", 2)
    looked: list[bytes] = []
    refusal = node.machine.groups.refusal

    def looking(place, request):
        looked.append(place[0])
        return refusal(place, request)

    monkeypatch.setattr(node.machine.groups, "refusal", looking)
    node.machine.dispatch_in(b"h", node.now)
    assert looked == [b"h"]
    node.give_back(next(x for x in node.leases("a") if x.demand.room == b"g"))
    assert set(looked[1:]) == {b"g"}
    assert len(node.leases("a")) == 2


def test_what_waits_outside_of_bundles_asks_for_nothing_that_is_in_them():
    node = Node(CPU=2)
    make_group(node, {"CPU": 1})
    node.want("a", group=(b"g", 0))
    node.want("b", 2)
    node.later(2 * LONGEST_HOLD_S)
    assert not [line for line in node.log if line.startswith("due a")]


def test_a_bundle_that_a_group_does_not_have_is_refused():
    node = Node(CPU=2)
    make_group(node, {"CPU": 1})
    node.want("a", group=(b"g", 7))
    assert node.log[0].startswith("refuse a invalid_value")


def test_removing_a_group_ends_what_runs_in_it_and_then_frees_its_bundles():
    node = Node(CPU=1)
    make_group(node, {"CPU": 1})
    node.want("a", group=(b"g", 0))
    (lease,) = node.leases("a")
    pools = node.bundles.give_back(GroupId(b"g"), 1, [0])
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
    assert node.log[5:] == ["refuse d task_unschedulable: node n1 drains"]
    node.want("e", group=(b"g", 0))
    node.all_ready()
    assert node.log[6:] == ["grant e"]
    node.machine.undrain(node.now)
    node.all_ready()
    assert node.log[7:] == ["grant c"], "who waited for want of another node begins here"


IMPATIENT = {"node_id": "n1", "soft": False, "fail_on_unavailable": True}


def test_what_must_not_wait_for_a_busy_node_fails_soon():
    node = Node(CPU=1)
    node.want("a")
    node.want("b", strategy=IMPATIENT)
    node.later(UNAVAILABLE_AFTER_S / 2)
    assert node.machine.waiting
    node.later(UNAVAILABLE_AFTER_S / 2)
    assert node.log[-1] == (
        "refuse b task_unschedulable: node n1 does not have {'CPU': 1.0} free now"
    )
    assert not node.machine.waiting


def test_an_idle_lease_that_comes_back_is_no_busy_node():
    node = Node(CPU=1)
    node.want("a")
    node.want("b", strategy=IMPATIENT)
    node.give_back(node.leases("a")[0])
    node.later(UNAVAILABLE_AFTER_S)
    assert node.log[-1] == "grant b"


def block_all(node):
    """From now on, let every running task be blocked in a wait."""
    for lease in node.leases():
        node.machine.blocked(lease.worker.worker_id, node.now)
    if node.starts_ready:
        node.all_ready()


def test_more_of_a_class_whose_tasks_all_wait_start_ever_more_slowly():
    node = Node(CPU=2)
    node.want("a", 9)
    began = []
    for _ in range(6):
        block_all(node)
        before = len(node.leases("a"))
        asked_at = node.now
        while len(node.leases("a")) == before and node.now - asked_at < 60:
            node.later(0.5)
        began.append((len(node.leases("a")), node.now - asked_at))
    assert began == [(3, 1.0), (4, 2.0), (5, 4.0), (6, 8.0), (7, 10.0), (8, 10.0)]


def test_tasks_of_other_classes_start_at_once_beside_those_that_wait():
    node = Node(CPU=1)
    node.want("a", 2)
    block_all(node)
    node.want("b")
    node.want("a", 1, number=2)
    assert [len(node.leases(name)) for name in ("a", "b")] == [1, 1]
    block_all(node)
    assert [len(node.leases(name)) for name in ("a", "b")] == [2, 1]


def test_what_asks_for_no_cpu_is_not_slowed():
    node = Node(CPU=1)
    node.want("a", 9, resources={})
    block_all(node)
    assert len(node.leases("a")) == 9


def test_a_task_that_ends_makes_room_for_the_next_at_once():
    node = Node(CPU=1)
    node.want("a", 3)
    block_all(node)
    node.give_back(node.leases("a")[0])
    assert len(node.leases("a")) == 1


def test_all_that_runs_is_asked_to_end_and_then_killed():
    node = Node()
    node.want("a", count=2)
    node.machine.end_all("its node drains: disks", False)
    assert node.log[-2:] == ["warn 1", "warn 2"]
    node.machine.end_all("its node drains: disks", True)
    assert node.log[-2:] == [f"stop {n}: its node drains: disks" for n in (1, 2)]


def test_a_closed_device_is_lent_to_nobody_until_it_is_open():
    node = Node(CPU=4, GPU=2)
    node.resources.close("GPU", frozenset({0}))
    node.want("a", count=2, resources={"GPU": 1})
    assert node.log == ["grant a"]
    (lease,) = node.machine.leases.values()
    assert lease.devices == {"GPU": [1]}
    node.resources.close("GPU", frozenset())
    node.machine.dispatch(node.now)
    assert [one.devices for one in node.machine.leases.values()] == [{"GPU": [1]}, {"GPU": [0]}]
