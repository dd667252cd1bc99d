"""The resources that a node uses over time, and its answer to a request for these numbers."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from unittest.mock import Mock

from phalanx.model.node_use import NodeUse, ProcessOfNode
from phalanx.node.dispatch import MessageTable
from phalanx.node.machine_use import LOOK_EVERY_S, MachineReading, MachineUse
from phalanx.node.node_use import MOST_PROCESSES, NodeUsage
from phalanx.node.process_history import ProcessRecord
from phalanx.node.processes_now import ProcessMeter, of_members, of_programs
from phalanx.node.usage import MemberUsage, Processes, UsageSample
from phalanx.protocol.report_messages import ReadNodeUse

GIB = 2.0**30
LOOK = 10.0


class World:
    def __init__(self) -> None:
        self.now = 1_000.0
        self.total = {"CPU": 4.0, "memory": 8 * GIB, "other": 3.0}
        self.free = {"CPU": 3.0, "memory": 8 * GIB}
        self.gpus: dict[int, tuple[float, float, float]] = {}
        self.processes: list[ProcessOfNode] = []
        self.head = Mock(is_connected=True)
        self.usage = NodeUsage(
            self.head, lambda: self.now, lambda: (self.total, self.free), lambda: self.gpus,
            lambda: self.processes,
        )  # fmt: skip
        self.table = MessageTable()
        self.usage.handle_in(self.table)

    def add(self, **used: float) -> None:
        self.usage.add(self.now, used)
        self.now += LOOK

    def read(self, span_s: float = 900.0):
        self.table.handle(ReadNodeUse(7, span_s))
        ((answer,), _) = self.head.report.call_args
        assert answer.number == 7
        return answer.use

    def numbers(self, span_s: float = 900.0) -> dict[tuple[str, str], list[tuple[float, float]]]:
        return {(one.what, one.of): one.points for one in self.read(span_s).numbers}


def test_an_answer_has_what_was_used_and_allocated_of_the_total():
    world = World()
    world.add()  # nothing is known of the machine yet
    world.free["CPU"] = 1.0
    world.add(CPU=2.5, memory=GIB)
    assert world.numbers() == {
        ("total", "CPU"): [(20.0, 4.0), (10.0, 4.0)],
        ("allocated", "CPU"): [(20.0, 1.0), (10.0, 3.0)],
        ("used", "CPU"): [(10.0, 2.5)],
        ("total", "memory"): [(20.0, 8 * GIB), (10.0, 8 * GIB)],
        ("allocated", "memory"): [(20.0, 0.0), (10.0, 0.0)],
        ("used", "memory"): [(10.0, GIB)],
    }


def test_gpus_in_use_are_those_that_the_readings_count_as_busy():
    world = World()
    world.total["GPU"], world.free["GPU"] = 2.0, 0.0
    world.add()
    world.gpus = {0: (1.0, GIB, 4 * GIB), 1: (0.25, 0.0, 4 * GIB)}
    world.add()
    numbers = world.numbers()
    assert numbers["allocated", "GPU"] == [(20.0, 2.0), (10.0, 2.0)]
    assert numbers["used", "GPU"] == [(10.0, 1.25)]


def test_an_answer_has_only_the_asked_time():
    world = World()
    for _ in range(12):
        world.add()
    assert len(world.numbers()["total", "CPU"]) == 12
    assert [ago for ago, _ in world.numbers(30.0)["total", "CPU"]] == [30.0, 20.0, 10.0]


def test_a_node_without_amounts_answers_with_nothing():
    world = World()
    assert world.read() == NodeUse()


def test_an_answer_names_at_most_so_many_processes():
    world = World()
    one = ProcessOfNode(kind="worker", name="idle", pid=1, age_s=1.0)
    world.processes = [one] * (MOST_PROCESSES + 1)
    assert len(world.read().processes) == MOST_PROCESSES


def test_use_is_kept_while_the_head_is_away():
    readings = iter([MachineReading(0.0, 5.0), MachineReading(20.0, 6.0), None])
    kept: list[tuple[float, dict[str, float]]] = []
    head = Mock(is_connected=False)
    machine = MachineUse(readings.__next__, head, lambda now, used: kept.append((now, dict(used))))
    for step in range(3):
        machine.tick(step * LOOK_EVERY_S)
    assert kept == [(0.0, {}), (10.0, {"CPU": 2.0, "memory": 6.0}), (20.0, {})]
    head.report.assert_not_called()


def test_members_are_named_with_their_latest_use():
    usage = MemberUsage(2.0, (), now=100.0)
    member = SimpleNamespace(
        order=SimpleNamespace(job="default/train", name="worker-0"), usage=usage, began_at=100.0
    )
    (before,) = of_members([member], 101.0)  # type: ignore[list-item]
    assert (before.pid, before.cpus, before.memory) == (0, None, None)
    usage.began(b"p", 41)
    usage.sample(104.0, UsageSample({41: (6.0, 2**20)}, {}))
    (found,) = of_members([member], 110.0)  # type: ignore[list-item]
    assert found == ProcessOfNode(
        kind="member",
        job="default/train",
        name="worker-0",
        pid=41,
        age_s=10.0,
        cpus=1.5,
        memory=2.0**20,
    )


def test_workers_say_what_they_are_used_for():
    def lease(actor: bytes = b"", is_blocked: bool = False):
        return SimpleNamespace(demand=SimpleNamespace(actor=actor), is_blocked=is_blocked)

    leases = SimpleNamespace(
        workers={bytes([n]): SimpleNamespace(lease=n) for n in range(3)},
        leases={0: lease(), 1: lease(b"\xab"), 2: lease(is_blocked=True)},
    )
    records = [
        ProcessRecord(process=b"d", kind="DRIVER", pid=9, began=95.0),
        *(ProcessRecord(process=bytes([n]), kind="WORKER", pid=n, began=90.0) for n in range(4)),
    ]
    found = list(of_programs(records, leases, 100.0))  # type: ignore[arg-type]
    assert [(one.kind, one.name, one.age_s) for one in found] == [
        ("driver", "", 5.0),
        ("worker", "runs tasks", 10.0),
        ("worker", "actor", 10.0),
        ("worker", "waits in get", 10.0),
        ("worker", "idle", 10.0),
    ]
    assert [one.actor for one in found] == ["", "", "ab", "", ""]


class Meter:
    """A meter whose measurements finish when the test says so."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.ready: Processes | None = None

    def ask(self, pids: Collection[int]) -> None:
        self.asked.append(list(pids))

    def answer(self) -> Processes | None:
        found, self.ready = self.ready, None
        return found


def test_drivers_and_workers_are_measured_from_one_question_to_the_next():
    meter = Meter()
    processes = ProcessMeter(meter)
    member = ProcessOfNode(kind="member", name="m", pid=1, age_s=9.0, cpus=0.5, memory=7.0)
    worker = ProcessOfNode(kind="worker", name="idle", pid=2, age_s=9.0)
    rows = [member, worker]
    assert processes.measured(rows, 100.0) == rows
    meter.ready = {2: (10.0, 2**20)}
    (_, second) = processes.measured(rows, 102.0)
    assert (second.cpus, second.memory) == (None, 2.0**20)  # the use needs two measurements
    meter.ready = {2: (13.0, 2**21)}
    first, second = processes.measured(rows, 104.0)
    assert first == member
    assert (second.cpus, second.memory) == (1.5, 2.0**21)
    assert processes.measured(rows, 105.0)[1] == second  # the next one is still under way
    assert meter.asked == [[2]] * 4


def test_a_process_that_is_new_or_gone_has_no_use():
    meter = Meter()
    processes = ProcessMeter(meter)
    old, new = (ProcessOfNode(kind="worker", name="", pid=pid, age_s=1.0) for pid in (2, 3))
    processes.measured([old], 100.0)
    meter.ready = {2: (10.0, 1)}
    processes.measured([old, new], 101.0)
    meter.ready = {3: (0.5, 5)}
    first, second = processes.measured([old, new], 102.0)
    assert (first.cpus, first.memory) == (None, None)
    assert (second.cpus, second.memory) == (None, 5.0)
