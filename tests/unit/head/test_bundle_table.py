"""A node prepares and commits all bundles of an attempt or none, only one time, and never for an
attempt that is over.
"""

from __future__ import annotations

import pytest
from tests.present import present

from phalanx.model.ids import GroupId
from phalanx.node.bundle_table import REMEMBERED, UNCONFIRMED_S, BundleTable
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import ResourceSet

amounts = ResourceSet.from_mapping
ONE, TWO = amounts({"CPU": 1}), amounts({"CPU": 2})


class Script:
    """Runs steps such as `prepare 1 0,1` for one group, and returns the answers and the free
    amounts.
    """

    def __init__(self, cpus=4):
        self.resources = NodeResources({"CPU": cpus, "GPU": 1})
        self.table = BundleTable(self.resources)
        self.now = 0.0

    def step(self, text):
        what, *rest = text.split()
        numbers = [int(x) for x in rest[1].split(",")] if len(rest) > 1 else []
        if what == "prepare":
            return self.table.prepare(
                GroupId(b"g"), int(rest[0]), dict.fromkeys(numbers, ONE), self.now
            )
        if what == "commit":
            return self.table.commit(GroupId(b"g"), int(rest[0]))
        if what == "back":
            self.table.give_back(GroupId(b"g"), int(rest[0]), numbers)
            return [attempt for _, attempt in self.table.settle()]
        self.now += float(rest[0])
        return self.table.tick(self.now)

    def run(self, script):
        return [self.step(text.strip()) for text in script.split(";")]

    def held(self):
        return [
            (i, attempt, "kept" if kept else "?")
            for _, i, attempt, kept in self.table.inventory().held
        ]


CASES = {
    "kept": ("prepare 1 0,1; commit 1; wait 99", [True, True, False], [(0, 1), (1, 1)]),
    "asked twice": ("prepare 1 0; prepare 1 0; commit 1; commit 1", [True] * 4, [(0, 1)]),
    "other content": ("prepare 1 0; prepare 1 1; commit 1", [True, False, True], [(0, 1)]),
    "all or none": ("prepare 1 0,1,2,3,4", [False], []),
    "a no stays a no": ("prepare 1 0,1,2,3,4; prepare 1 0", [False, False], []),
    "given back": ("prepare 1 0,1; commit 1; back 2 0,1", [True, True, [2]], []),
    "one of two": ("prepare 1 0,1; commit 1; back 2 0", [True, True, [2]], [(1, 1)]),
    "given back before it came": ("back 1 0; prepare 1 0", [[1], False], []),
    "given back twice": ("prepare 1 0; back 1 0; back 1 0", [True, [1], [1]], []),
    "late: back": ("prepare 2 0; back 1 0; commit 2", [True, [1], True], [(0, 2)]),
    "late: prepare": ("prepare 2 0; prepare 1 1; commit 1", [True, False, False], None),
    "late: prepare of what moved on": (
        "prepare 1 0; back 1 0; prepare 1 0; commit 1",
        [True, [1], False, False],
        [],
    ),
    "late: commit": (
        "prepare 1 0; back 1 0; prepare 2 0; commit 1",
        [True, [1], True, False],
        None,
    ),
    "a newer attempt ends the one before": (
        "prepare 1 0,1; prepare 2 0; commit 1; commit 2",
        [True, True, False, True],
        [(0, 2)],
    ),
    "more bundles later": (
        "prepare 1 0; commit 1; prepare 2 1; commit 2",
        [True] * 4,
        [(0, 1), (1, 2)],
    ),
    "not confirmed": (f"prepare 1 0; wait {UNCONFIRMED_S}; commit 1", [True, True, False], []),
    "not confirmed, and asked again": (
        f"prepare 1 0; wait {UNCONFIRMED_S}; prepare 1 0; prepare 2 0; commit 2",
        [True, True, False, True, True],
        [(0, 2)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_messages_in_any_order(name):
    steps, answers, held = CASES[name]
    script = Script()
    assert script.run(steps) == answers
    if held is not None:
        assert script.held() == [(index, attempt, "kept") for index, attempt in held]
        assert script.resources.available()["CPU"] == 4 - len(held)


def test_only_committed_bundles_are_used():
    script = Script()
    script.run("prepare 1 0,2")
    assert list(script.table.pools((GroupId(b"g"), -1))) == []
    script.run("commit 1")
    pools = list(script.table.pools((GroupId(b"g"), -1)))
    assert len(pools) == 2
    assert list(script.table.pools((GroupId(b"g"), 2))) == pools[1:]
    assert (
        list(script.table.pools((GroupId(b"g"), 1)))
        == list(script.table.pools((GroupId(b"x"), -1)))
        == []
    )


def test_bundles_are_free_when_the_last_user_of_them_all_has_ended():
    """The node reports all bundles in one message. Otherwise the head could give a device to others
    that it still counts as held here.
    """
    script = Script(cpus=2)
    script.run("prepare 1 0,1; commit 1")
    pool = next(script.table.pools((GroupId(b"g"), 0)))
    held, rest = present(pool.acquire(ONE)), present(pool.acquire(amounts({})))
    assert script.table.give_back(GroupId(b"g"), 2, [0, 1]) == [pool]
    assert list(script.table.pools((GroupId(b"g"), -1))) == [], "nobody new may use it"
    assert script.table.settle() == []
    assert not script.table.prepare(GroupId(b"other"), 1, {0: ONE}, script.now)
    assert script.table.give_back(GroupId(b"g"), 2, [0, 1]) == [pool], "asked again, it still ends"
    pool.release(held)
    assert script.table.settle() == []
    pool.release(rest)
    assert script.table.settle() == [(b"g", 2)]
    assert script.table.settle() == []
    assert script.resources.available()["CPU"] == 2


def test_lent_processors_keep_a_bundle_in_use_only_while_its_task_has_others():
    script = Script()
    script.run("prepare 1 0; commit 1")
    pool = next(script.table.pools((GroupId(b"g"), 0)))
    cpus, rest = present(pool.acquire(ONE)), present(pool.acquire(amounts({})))
    pool.release(cpus)
    assert not pool.is_idle
    cpus = pool.force_acquire(ONE)
    pool.release(rest)
    assert not pool.is_idle
    pool.release(cpus)
    assert pool.is_idle


def test_refusals():
    script = Script()
    assert script.table.refusal((GroupId(b"g"), 0), ONE) is None, "nothing is known of it"
    script.run("prepare 1 0; commit 1")
    assert script.table.refusal((GroupId(b"g"), 0), ONE) is None
    assert present(script.table.refusal((GroupId(b"g"), -1), TWO))[1] == "invalid_value"
    script.run("back 2 0")
    assert present(script.table.refusal((GroupId(b"g"), 0), ONE))[1] == "task_group_removed"


def test_the_memory_of_what_ended_is_bounded():
    table = BundleTable(NodeResources({"CPU": 1}))
    for at in range(REMEMBERED + 3):
        table.give_back(GroupId(b"%d" % at), 1, [])
        table.settle()
    assert len(table.inventory().ended) == REMEMBERED
    assert table.prepare(GroupId(b"%d" % (REMEMBERED + 2)), 1, {0: ONE}, 0.0) is False


def test_an_inventory_says_it_all():
    script = Script()
    script.run("prepare 3 0; commit 3; prepare 4 1")
    inventory = script.table.inventory()
    assert inventory.held == [(b"g", 0, 3, True), (b"g", 1, 4, False)]
    assert inventory.ended == {b"g": 3}
