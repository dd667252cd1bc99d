"""A node adds up its processes' counts, and reports them to the head if there is something new."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.node.metrics import SAY_EVERY_S, NodeCounts
from phalanx.objects.store_accounting import StoreAccounting
from phalanx.observe.metrics.definitions import (
    COUNTER,
    Definition,
    Numbers,
    Sample,
    decode_numbers,
    encode_numbers,
)
from phalanx.protocol.node_messages import ProcessNumbers

FINISHED = "phalanx_tasks_finished_total"
OWN = Definition(COUNTER, "", ())


class World:
    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.notes: list[str] = []
        self.now = 0.0
        control: Any = SimpleNamespace(is_connected=True, report=self.sent.append)
        workers: Any = SimpleNamespace(counts=lambda: {"idle": 2})
        leases: Any = SimpleNamespace(leases={1: None}, workers=workers)
        self.accounting = StoreAccounting(100)
        store: Any = SimpleNamespace(
            accounting=self.accounting,
            evictions=0,
            received_bytes=0,
            sent_bytes=0,
            pinned_bytes=30,
        )
        devices: Any = SimpleNamespace(put=lambda meter: None)
        self.control = control
        self.counts = NodeCounts(
            control, leases, store, devices, lambda meter: None,
            lambda text, **about: self.notes.append(text),
        )  # fmt: skip

    def says(self, process: bytes, *numbers: Numbers) -> None:
        peer: Any = SimpleNamespace(peer=process)
        self.counts._counted(peer, ProcessNumbers(encode_numbers(list(numbers))))

    def said(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Let some time pass; return the counts that the node then reports to the head."""
        self.now += SAY_EVERY_S
        self.counts.tick(self.now)
        return {
            one.name: {s.labels: s.value for s in one.samples}
            for one in decode_numbers(self.sent[-1].numbers)
        }


@pytest.fixture
def world() -> World:
    return World()


def tasks(state: str, count: float) -> Numbers:
    return Numbers("phalanx_tasks", [Sample((state,), count)])


def test_what_processes_counted_stays_and_what_they_are_goes(world: World) -> None:
    for process in (b"a", b"b"):
        world.says(process, Numbers(FINISHED, [Sample(("finished", "f"), 3.0)]), tasks("queued", 5))
    world.says(b"a", tasks("queued", 7), Numbers("mine", [Sample((), 2.0)], OWN))
    found = world.said()
    assert found[FINISHED] == {("finished", "f"): 6}
    assert found["phalanx_tasks"] == {("queued",): 12}
    assert found["mine"] == {(): 2}
    world.counts.process_gone(b"a")
    found = world.said()
    assert found[FINISHED] == {("finished", "f"): 6}
    assert found["phalanx_tasks"] == {("queued",): 5}
    assert found["mine"] == {(): 2}


def test_the_node_itself(world: World) -> None:
    world.accounting.sealed("x", 40, b"a")
    found = world.said()
    assert found["phalanx_leases"] == {(): 1}
    assert found["phalanx_workers"] == {("idle",): 2}
    assert found["phalanx_object_store_used_bytes"] == {(): 40}
    assert found["phalanx_object_store_pinned_bytes"] == {(): 30}
    assert found["phalanx_objects"] == {(): 1}


def test_nothing_new_is_not_said_but_to_another_head(world: World) -> None:
    world.said()
    world.said()
    assert len(world.sent) == 1
    world.counts.head_joined()
    world.said()
    assert len(world.sent) == 2
    world.control.is_connected = False
    world.says(b"a", tasks("queued", 1))
    world.said()
    assert len(world.sent) == 2


def test_rubbish_is_passed_over_and_a_clash_is_noted_once(world: World) -> None:
    peer: Any = SimpleNamespace(peer=b"a")
    world.counts._counted(peer, ProcessNumbers(b"\xc1"))
    world.says(b"a", Numbers("phalanx_unheard_of", [Sample((), 1.0)]))
    world.says(b"a", Numbers(FINISHED, [Sample(("only one",), 1.0)]))
    world.says(b"a", Numbers("mine", [Sample((), 2.0)], OWN))
    for _ in range(3):
        world.says(b"b", Numbers("mine", [Sample(("x",), 2.0)], Definition(COUNTER, "", ("tag",))))
    assert world.said().get(FINISHED, {}) == {}
    assert len(world.notes) == 1
