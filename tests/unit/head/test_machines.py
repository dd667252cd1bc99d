"""Nodes that share a machine offer its amounts once."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.head.machines import machine_fault, memory_left, name_fault
from phalanx.head.nodes.record import NodeRecord
from phalanx.model.machines import MachineShare

HERE, THERE = "boot-1 pid:[1]", "boot-2 pid:[1]"
AMOUNTS = {"CPU": 8.0, "GPU": 4.0, "memory": 64.0}


def node(
    name: str,
    given: tuple[str, ...] = (),
    key: str = HERE,
    limits: dict[str, int] | None = None,
    named: str = "",
    **totals: float,
) -> NodeRecord:
    amounts: dict[str, Any] = {"CPU": 8.0, "GPU": 4.0, "memory": 64.0, **totals}
    return NodeRecord(
        node_id=name,
        prefix=name.encode().ljust(6),
        host="h",
        port=1,
        hostname="h",
        name=named,
        totals=amounts,
        limits=limits or {},
        machine=MachineShare(key, AMOUNTS, given),
    )


@pytest.mark.parametrize(
    ("new", "others", "fault"),
    [
        (node("b"), [], None),
        (node("b"), [node("a", key=THERE)], None),
        (node("b"), [node("a")], "already offers 8 of its 8 CPUs, so that 0 are left"),
        (node("b", ("CPU",), CPU=2.0, GPU=0.0), [node("a")], None),
        (node("b", ("CPU",)), [node("a")], "already offers 4 of its 4 GPUs"),
        (node("b", ("CPU", "GPU"), GPU=1.0), [node("a")], "so that 0 are left for this one"),
        (node("b", ("CPU", "GPU"), GPU=1.0), [node("a", GPU=3.0)], None),
        (node("b", ("CPU", "GPU"), GPU=2.0), [node("a", GPU=3.0)], "1 are left for this one"),
        (node("b", ("CPU",), limits={"GPU": 2}, GPU=2.0), [node("a")], None),
        (node("c", CPU=2.0, GPU=0.0), [node("a", CPU=3.0), node("b", CPU=3.0)], None),
        (
            node("c", CPU=3.0, GPU=0.0),
            [node("a", CPU=3.0), node("b", CPU=3.0)],
            "2 other nodes of this",
        ),
        (node("a"), [node("a")], None),
    ],
)
def test_what_a_machine_has_is_offered_once(
    new: NodeRecord, others: list[NodeRecord], fault: str | None
) -> None:
    found = machine_fault(new, others)
    assert found is None if fault is None else fault in (found or "")


def test_a_node_outside_of_that_is_left_out() -> None:
    new = node("b")
    new.machine = None
    assert machine_fault(new, [node("a")]) is None and memory_left(new, [node("a")]) is None
    other = node("a")
    other.machine = None
    assert machine_fault(node("b"), [other]) is None


@pytest.mark.parametrize(
    ("new", "others", "left"),
    [
        (node("b"), [], None),
        (node("b"), [node("a")], 0.0),
        (node("b"), [node("a", memory=16.0)], 48.0),
        (node("b", memory=10.0), [node("a", memory=16.0)], None),
        (node("b", ("memory",)), [node("a")], None),
    ],
)
def test_memory_that_was_found_is_what_others_leave(
    new: NodeRecord, others: list[NodeRecord], left: float | None
) -> None:
    assert memory_left(new, others) == left


@pytest.mark.parametrize(
    ("new", "other", "is_refused"),
    [
        (node("b", named="box"), node("a", named="box"), True),
        (node("b", named="box"), node("a", named="box", key=THERE), True),
        (node("a", named="box"), node("a", named="box"), False),
        (node("b"), node("a"), False),
        (node("b", named="box"), node("a", named="boxes"), False),
    ],
)
def test_a_second_node_of_one_name_is_refused(
    new: NodeRecord, other: NodeRecord, is_refused: bool
) -> None:
    found = name_fault(new, [other])
    assert (found is not None) is is_refused
    assert not is_refused or "a node called box is in the cluster already" in (found or "")
