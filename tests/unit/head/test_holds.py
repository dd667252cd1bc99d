"""Nodes and GPUs that are closed to new work: who closed them, for how long, and what ends it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fuzz.world import NODES, PeopleWorld
from tests.present import present
from tests.world.cluster import one_node
from tests.world.node import Node, WorkingNode

from phalanx.head.draining import GRACE_S
from phalanx.model.holds import CHECK, CORDON, DRAIN, HEALTH, Hold, cordoned_text, holds_text
from phalanx.model.ids import GangId, GroupId
from phalanx.model.lifecycle import ALIVE, DRAINING
from phalanx.model.rows.cluster import NodeInfo
from phalanx.observe.checks import PENDING, CheckState
from phalanx.observe.device_health import BAD, SUSPECT, DeviceHealth, UnwellDevice
from phalanx.observe.devices import DeviceProcess, DeviceSample
from phalanx.observe.events import EventQuery
from phalanx.protocol.cluster_messages import CloseDevices, EndWork, ViewRow
from phalanx.protocol.report_messages import DevicesSeen, NodeReport
from phalanx.protocol.requests.cluster import DrainNode, UndrainNode
from phalanx.protocol.requests.gangs import CreateGang
from phalanx.protocol.requests.health import Cordon, ListDevices, Uncordon
from phalanx.protocol.requests.queues import CreateQueue, QueueFields

(A, B), PREFIX = NODES, b"node-a"
REBOOT = UnwellDevice(3, DeviceHealth(BAD, "reboot", "it had the error Xid 79"))


class Cluster(PeopleWorld):
    """Two nodes with four GPUs each. They record the orders that they get."""

    def __init__(self) -> None:
        self.unwell: list[UnwellDevice] = []
        self.checks: list[CheckState] = []
        super().__init__()

    def report(self, node: Node) -> None:
        node.about = {"available": {"CPU": 1.0, "GPU": 4.0}, "devices": {"GPU": [10_000] * 4}}
        node.about["total"] = None  # as before
        if node.name == A:
            node.about |= {"unwell": self.unwell, "checks": self.checks}
        super().report(node)

    @property
    def orders(self) -> list[Any]:
        return [one for one in super().orders if isinstance(one, CloseDevices | EndWork)]

    def did(self, request: Any) -> bool:
        answer = self.request(request, process=PREFIX.ljust(16))
        assert answer.error is None, answer.error
        self.rounds(1)
        return bool(bytes(answer.results[0]) == b"\xc3")

    def info(self) -> NodeInfo:
        return next(row for row in self.head.nodes.rows() if row.node_id == A)

    def kinds(self) -> list[str]:
        return [kind for kind, *_ in self.info().holds]


def test_a_cordoned_node_says_who_did_it_and_why_also_after_a_restart() -> None:
    world = Cluster()
    assert world.did(Cordon(A, [], "its fans are loud", "ann@desk"))
    assert not world.did(Cordon(A, [], "still loud", "ann@desk"))
    assert world.info().state == DRAINING
    assert world.info().reason == "cordoned by ann@desk: still loud"
    world.restart()
    assert (world.info().state, world.kinds()) == (DRAINING, [CORDON])
    assert world.info().reason == "cordoned by ann@desk: still loud"
    assert world.did(Uncordon(A, []))
    assert not world.did(Uncordon(A, []))
    assert (world.info().state, world.info().reason) == (ALIVE, "")


def test_who_lifts_his_own_hold_leaves_those_of_others() -> None:
    world = Cluster()
    world.did(DrainNode(A, "new disks", "ann@desk"))
    world.did(Cordon(A, [], "", "bob@desk"))
    assert world.info().reason == "cordoned by bob@desk; new disks (asked by ann@desk)"
    assert world.did(UndrainNode(A))
    assert (world.info().state, world.kinds()) == (DRAINING, [CORDON])
    assert not world.did(UndrainNode(A))
    assert world.did(Uncordon(A, []))
    assert world.info().state == ALIVE


def test_a_cordoned_device_is_closed_on_its_node_and_again_when_that_is_back() -> None:
    world = Cluster()
    assert world.did(Cordon(A, [2], "a loose cable", "ann@desk"))
    assert not world.did(Cordon(A, [2]))
    assert world.did(Cordon(A, [2, 0]))
    assert world.orders == [CloseDevices([2]), CloseDevices([2]), CloseDevices([0, 2])]
    assert world.info().state == ALIVE
    assert "2 devices are closed: gpu0" in world.info().reason
    world.restart()
    world.rounds(1)
    assert world.orders[-1] == CloseDevices([0, 2])
    assert world.did(Uncordon(A, [0]))
    assert world.orders[-1] == CloseDevices([2], [0])


def test_a_device_that_is_bad_may_be_let_pass() -> None:
    world = Cluster()
    world.unwell = [REBOOT]
    world.rounds(1)
    assert world.did(Uncordon(A, [3]))
    assert not world.did(Uncordon(A, [1]))
    assert world.orders == [CloseDevices([], [3]), CloseDevices([], [1])]


@pytest.mark.parametrize("request_type", [Cordon, Uncordon])
def test_what_is_not_there_is_refused(request_type: Any) -> None:
    world = Cluster()
    for node_id, devices, text in (
        ("77" * 28, [], "does not exist"),
        (A, [4], "no gpu4: it has gpu0 to gpu3"),
        (A, [-1], "no gpu-1"),
    ):
        error = world.request(request_type(node_id, devices)).error
        assert isinstance(error, ValueError)
        assert text in str(error)


def test_a_node_drains_while_a_device_needs_a_reboot() -> None:
    world = Cluster()
    world.unwell = [UnwellDevice(1, DeviceHealth(BAD, "reset", "its driver says so"))]
    world.rounds(1)
    assert world.info().state == ALIVE
    assert world.info().reason == "1 device is bad: gpu1 (its driver says so, needs: reset)"
    world.unwell = [REBOOT, UnwellDevice(1, DeviceHealth(SUSPECT, "", "x"))]
    world.rounds(1)
    assert (world.info().state, world.kinds()) == (DRAINING, [HEALTH])
    assert world.info().reason.startswith("a reboot is needed for gpu3; 1 device is bad: gpu3")
    world.restart()
    assert world.kinds() == [HEALTH]
    world.unwell = []
    world.rounds(1)
    assert (world.info().state, world.info().reason) == (ALIVE, "")


def test_a_node_that_is_well_again_is_let_go_though_it_has_no_other_news() -> None:
    """The node became well while there was no head. It tells the next head its free amounts when it
    joins, and its first report has the same amounts and no trouble.
    """

    class SameNode(WorkingNode):
        def row(self) -> ViewRow:
            row = super().row()
            row.available, row.devices = {"CPU": 1.0, "GPU": 4.0}, {"GPU": [10_000] * 4}
            return row

    class SaysTheSame(Cluster):
        node_class = SameNode

    world = SaysTheSame()
    world.unwell = [REBOOT]
    world.rounds(1)
    assert world.kinds() == [HEALTH]
    world.unwell = []
    world.restart()
    world.rounds(1)
    assert (world.info().state, world.kinds()) == (ALIVE, [])


def test_a_node_drains_while_a_check_is_bad_or_has_not_passed() -> None:
    world = Cluster()
    for state, said, reason in (
        (PENDING, "", "check gpus has not passed yet"),
        (BAD, "no link", "check gpus is bad: no link"),
    ):
        world.checks = [CheckState("gpus", state, said)]
        world.rounds(1)
        assert (world.info().state, world.kinds()) == (DRAINING, [CHECK])
        assert world.info().reason == reason
    world.checks = [CheckState("gpus", SUSPECT, "a slow fan")]
    world.rounds(1)
    assert (world.info().state, world.kinds()) == (ALIVE, [])
    assert world.info().reason == "check gpus is suspect: a slow fan"
    assert world.info().checks == [("gpus", SUSPECT, "a slow fan")]


def test_what_runs_at_the_deadline_is_ended_and_then_killed() -> None:
    world = Cluster()
    assert world.did(DrainNode(A, "new disks", "ann@desk", 100.0))
    (kind, reason, by, since, deadline), *_ = world.info().holds
    assert (kind, reason, by, deadline - since) == (DRAIN, "new disks", "ann@desk", 100.0)
    assert not world.did(DrainNode(A, "again"))
    assert world.info().holds[0][4] == deadline
    world.rounds(90)
    assert world.orders == []
    world.restart()
    world.rounds(20)
    reason = "its node drains: new disks"
    assert world.orders == [EndWork(reason)]
    world.rounds(int(GRACE_S))
    assert world.orders == [EndWork(reason), EndWork(reason, by_force=True)]
    world.did(UndrainNode(A))
    world.rounds(int(3 * GRACE_S))
    assert len(world.orders) == 2


def test_gangs_wait_again_when_their_node_has_to_be_empty() -> None:
    world = one_node(4)
    world.queue("q")
    world.gang("g", 2, cpus=1, queue="q")
    world.rounds()
    assert world.holding() == ["g"]
    world.ask(DrainNode("n0", "new disks", "ann@desk", 5.0))
    world.head.on_tick(world.now)
    world.rounds(3)
    assert world.holding() == ["g"]
    world.now += 5.0
    world.head.on_tick(world.now)
    world.rounds()
    assert (world.holding(), world.preempted) == ([], ["g"])
    world.ask(UndrainNode("n0"))
    world.rounds()
    assert world.holding() == ["g"]


def test_what_an_earlier_version_wrote_of_a_draining_node_is_a_drain() -> None:
    world = Cluster()
    world.did(DrainNode(A, "old"))
    record = present(world.head.nodes.get(A))
    record.holds = {}
    world.head.state_store.put_node(record)
    world.restart()
    assert world.kinds() == [DRAIN]
    assert world.did(UndrainNode(A))


def test_devices_are_listed_with_what_was_read_and_who_has_them() -> None:
    world = Cluster()
    world.unwell = [REBOOT]
    world.rounds(1)
    process = DeviceProcess(80, 5, (79,), "train-worker-0")
    samples = [DeviceSample(number=1, uuid="GPU-1", busy=0.5, processes=(process,))]
    world.hear(A, DevicesSeen(samples, {1: ["train-worker-0"]}))
    world.did(Cordon(A, [0], "a cable", "ann@desk"))
    record = present(world.head.nodes.get(A))
    rows = {row.number: row for row in world.head.devices.rows(record)}
    assert [(one.state, one.is_closed) for one in rows.values()] == [
        ("ok", True),
        ("ok", False),
        ("ok", False),
        (BAD, True),
    ]
    assert rows[0].reason == "cordoned by ann@desk: a cable"
    assert (rows[1].uuid, rows[1].busy, rows[1].holders) == ("GPU-1", 0.5, ["train-worker-0"])
    assert rows[1].processes == [(80, 5, "train-worker-0")]
    assert rows[3].action == "reboot"
    answer = world.request(ListDevices([B]))
    assert answer.error is None
    assert answer.results


def test_holds_in_words() -> None:
    assert holds_text({}) == cordoned_text({}) == ""
    assert holds_text({HEALTH: Hold(reason="gpu3 is bad")}) == "gpu3 is bad"
    assert cordoned_text({3: Hold()}) == "1 device is closed: gpu3 (cordoned)"


def test_what_happens_to_devices_and_holds_is_noted() -> None:
    world = Cluster()
    world.rounds(1)

    def noted() -> list[tuple[str, str, str]]:
        events = world.head.event_log.page(EventQuery(kinds=["device", "node"], node=A)).events
        return [(one.kind, one.name, one.why) for one in events if one.kind != "node-joined"]

    world.did(DrainNode(A, "new disks", "ann@desk"))
    world.did(Cordon(A, [], "a cable", "bob@desk"))
    world.did(UndrainNode(A))
    world.did(Uncordon(A, []))
    assert noted() == [
        ("node-drained", "", "new disks (asked by ann@desk)"),
        ("node-held", "", "cordoned by bob@desk: a cable"),
        ("node-released", "", "drain"),
        ("node-undrained", "", ""),
    ]
    before = len(noted())
    world.unwell = [UnwellDevice(1, DeviceHealth(BAD, "reset", "its driver says so"))]
    world.rounds(2)
    world.unwell = []
    world.rounds(2)
    world.did(Cordon(A, [2], "a cable"))
    world.did(Uncordon(A, [2]))
    assert noted()[before:] == [
        ("device-bad", "gpu1", "its driver says so; needs: reset"),
        ("device-well", "gpu1", ""),
        ("device-cordoned", "gpu2", "a cable"),
        ("device-uncordoned", "gpu2", ""),
    ]


def test_who_waits_for_gpus_is_told_which_nobody_gets() -> None:
    world = Cluster()
    world.did(CreateQueue("q", QueueFields()))
    world.rounds(1)
    every = [{"GPU": 2.0, "CPU": 1.0}] * 2
    for name, needs in (("f", every), ("g", [{"GPU": 1.0}]), ("c", [{"CPU": 4.0}])):
        world.did(
            CreateGang(
                GangId(GroupId(name.encode().ljust(18))), name, "q", needs, min_members=len(needs)
            )
        )
        world.rounds()

    def told(name: str) -> list[str]:
        group = name.encode().ljust(18).hex()
        found = world.scheduler.explanations.explain(group)
        return [one.sentence for one in found.reasons if one.reason == "devices-closed"]

    assert told("g") == []
    world.unwell = [UnwellDevice(1, DeviceHealth(BAD, "reset", "its driver says so"))]
    world.did(Cordon(B, [2], "a cable", "ann@desk"))
    world.rounds(1)
    assert told("g") == [
        "2 GPUs take no new work: host/gpu1 is bad: its driver says so; "
        "host/gpu2 is cordoned by ann@desk: a cable"
    ]
    assert told("c") == []


def test_who_waits_for_the_only_gpus_is_not_told_that_there_are_none() -> None:
    world = Cluster()
    world.did(CreateQueue("q", QueueFields()))
    for node in NODES:
        total = {"CPU": 4.0}
        world.hear(node, NodeReport(available=total, devices={"GPU": [0]}, total=total))
    world.did(Cordon(A, [0], "a fan", "ann@desk"))
    world.did(CreateGang(GangId(GroupId(b"g".ljust(18))), "g", "q", [{"GPU": 1.0}], min_members=1))
    world.rounds()
    explanations = world.scheduler.explanations
    found = explanations.explain(b"g".ljust(18).hex())
    said = "1 GPU takes no new work: host/gpu0 is cordoned by ann@desk: a fan"
    assert found.main == said
    assert [one.change for one in found.because] == ["phalanx uncordon host/gpu0, if it is healthy"]
    assert "even empty" not in str(found)
    assert [one.reason for one in explanations.reasons().values()] == [said]


def test_what_needs_a_device_that_is_closed_for_now_waits_and_is_not_refused() -> None:
    world = Cluster()
    world.did(CreateQueue("q", QueueFields()))
    left = {"GPU": [10_000, 10_000, 10_000, 0]}
    for node in NODES:
        total = {"CPU": 4.0, "GPU": 3.0}
        world.hear(node, NodeReport(available=total, devices=left, total=total))
    four = [{"GPU": 4.0}]
    assert (
        world.request(
            CreateGang(GangId(GroupId(b"g".ljust(18))), "g", "q", four, min_members=1)
        ).error
        is None
    )
    five = [{"GPU": 5.0}]
    refused = world.request(
        CreateGang(GangId(GroupId(b"h".ljust(18))), "h", "q", five, min_members=1)
    ).error
    assert "the largest node has 4 GPU" in str(refused)
