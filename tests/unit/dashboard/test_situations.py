"""Ten situations in which work waits: the listing, the explanation and the page say the same."""

from __future__ import annotations

import asyncio
import html

import pytest
from tests.asking import ask
from tests.unit.head.gangs.nodes_world import World
from tests.unit.head.gangs.test_rules import PROMISING
from tests.unit.head.gangs.test_what_people_see import settle

from phalanx.model.jobs.spec import Process, TaskGroup, Template
from phalanx.model.jobs.timing import Moment, Timing
from phalanx.model.reservations import Reservation
from phalanx.protocol.cluster_messages import NodeReport, ViewRow
from phalanx.protocol.requests.cluster import DrainNode
from phalanx.protocol.requests.gangs import Explain, SetRules
from phalanx.protocol.requests.jobs import ListJobs
from phalanx.protocol.requests.queues import CreateQueue, QueueFields
from phalanx.protocol.requests.reservations import Reserve

from .test_app import served
from .world import Head as DrawnHead


class GpuWorld(World):
    """A head with nodes of sixteen CPUs and of as many GPUs as a test says."""

    def add_gpus(self, name, gpus=2, **labels):
        total = {"CPU": 16.0, "GPU": float(gpus)}
        devices = {"GPU": [10_000] * gpus}
        prefix = name.encode().ljust(6)
        row = ViewRow(name, prefix, "", 0, "ALIVE", total, dict(total), labels, devices)
        self.shell.join_alone(row)
        self.hear(name, NodeReport(available=total, devices=devices))

    def put(self, name, gpus=1.0, members=1, seconds=None, placement=None, **fields):
        process = Process(command=("true",), requests=(("CPU", 1.0), ("GPU", gpus)))
        template = Template(processes=(process,), placement=placement or {})
        group = TaskGroup(name="w", replicas=members, template=template)
        timing = Timing(limit_s=seconds)
        self.job(group, name=name, min_available=members, timing=timing, **fields)
        settle(self)


class Head(DrawnHead):
    """What the page asks, answered by the control store."""

    def __init__(self, world):
        super().__init__()
        self.world = world

    def ask(self, request):
        return ask(self.world.shell, request)


def queue_cap(world):
    world.add_gpus("n1")
    world.ask(CreateQueue("team", QueueFields(capability={"GPU": 1.0})))
    world.put("first", queue="team")
    world.put("late", queue="team")
    return "queue team may hold 1 GPU and holds 1; this asks for 1 more"


def quota_of_the_queue_above(world):
    world.add_gpus("n1")
    world.ask(CreateQueue("lab", QueueFields(capability={"GPU": 1.0})))
    for name in ("left", "right"):
        world.ask(CreateQueue(name, QueueFields(parent="lab", reclaimable=False)))
    world.put("first", queue="left")
    world.put("late", queue="right")
    return "queue lab may hold 1 GPU and holds 1; this asks for 1 more"


def gang_too_large(world):
    world.add_gpus("n1")
    world.add_gpus("n2")
    world.put("holder")
    world.put("late", members=4)
    return "3 of 4 tasks would find room, so none starts"


def fragmented_devices(world):
    world.add_gpus("n1", zone="a")
    world.add_gpus("n2", zone="b")
    world.put("left", placement={"nodeSelector": {"zone": "a"}})
    world.put("right", placement={"nodeSelector": {"zone": "b"}})
    world.put("late", gpus=2.0)
    return "2 nodes lack GPU (needs 2, most free 1)"


def no_such_label(world):
    world.add_gpus("n1")
    world.put("late", placement={"nodeSelector": {"disk": "nvme"}})
    return "1 node lacks the labels asked for: disk=nvme (0 nodes have it)"


def behind_a_promise(world):
    world.add_gpus("n1", gpus=4)
    world.ask(SetRules(PROMISING, "own.yaml"))
    world.put("runs", members=2, seconds=36_000.0)
    world.put("wide", members=4, seconds=600.0)
    world.put("late", seconds=72_000.0)
    return "places are promised to it, in 10h at the latest"


def reserved(world):
    world.add_gpus("n1")
    spec = Reservation(
        name="course", nodes=("n1",), start=Moment(at=world.now + 600.0), length_s=3600.0
    )
    world.ask(Reserve(spec))
    world.put("late")
    return "1 node is reserved for course from 1970-01-01"


def preempted(world):
    world.add_gpus("n1", gpus=1)
    world.put("late")
    world.put("urgent", priority=9)
    for _ in range(4):
        settle(world)
    return "1 node lacks GPU (needs 1, most free 0)"


def node_drained(world):
    world.add_gpus("n1")
    world.ask(DrainNode("n1", "by command"))
    world.put("late")
    return "1 node is closed to new tasks"


def held_by_the_user(world):
    world.add_gpus("n1")
    process = Process(command=("true",), requests=(("GPU", 1.0),))
    group = TaskGroup(name="w", replicas=1, template=Template(processes=(process,)))
    world.job(group, name="late", timing=Timing(is_held=True))
    settle(world)
    return "it is held"


SITUATIONS = [
    queue_cap, quota_of_the_queue_above, gang_too_large, fragmented_devices, no_such_label,
    behind_a_promise, reserved, preempted, node_drained, held_by_the_user,
]  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.__name__)
def test_the_listing_the_explanation_and_the_page_say_the_same(situation):
    world = GpuWorld()
    said = situation(world)
    row = world.ask(ListJobs(name="late"))[0]
    why = world.ask(Explain("late"))
    assert row.reason.startswith(said), row.reason
    assert why.waits
    assert why.main == row.reason
    start = None if not why.expected_start else why.expected_start.at_s
    assert (row.expected_start.at_s if row.expected_start else None) == start
    if row.position is not None:
        assert why.position == row.position

    async def look():
        async with served(Head(world)) as (client, _):
            page = html.unescape((await client.get("/jobs/default/late")).text)
            data = (await client.get("/api/v1/jobs?q=late")).json()["page"]["listed"]["rows"]
        return page, data

    page, rows = asyncio.run(look())
    listed = next(one for one in rows if one["name"] == "late")
    assert why.main in page
    assert listed["reason"] == row.reason
    assert listed["position"] == row.position
    assert (listed["expected_start"] or {}).get("at_s") == start


def test_who_is_being_placed_does_not_wait():
    world = GpuWorld()
    world.add_gpus("n1")
    process = Process(command=("true",), requests=(("GPU", 1.0),))
    world.job(TaskGroup(name="w", replicas=1, template=Template(processes=(process,))), name="soon")
    world.cycles()
    assert "does not wait: it is being placed" in str(world.ask(Explain("soon")))
