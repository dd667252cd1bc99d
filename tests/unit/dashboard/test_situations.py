"""Situations in which work waits: the listing, the explanation and the page give the same
reason.
"""

from __future__ import annotations

import asyncio
import html
import json

import pytest
from tests.unit.head.gangs.test_rules import PROMISING
from tests.unit.head.gangs.test_what_people_see import settle
from tests.world.cluster import World
from tests.world.head import ask

from phalanx.adapters.slurm.commands import rows
from phalanx.cli.common_options import rows_json
from phalanx.cli.job_list import JOBS
from phalanx.cli.listing import listing
from phalanx.cli.table import safe
from phalanx.manifests.dependencies import read_dependencies
from phalanx.model.jobs.spec import Process, TaskGroup, Template
from phalanx.model.jobs.timing import Moment, Timing
from phalanx.model.reservations import Reservation
from phalanx.protocol.requests.cluster import DrainNode
from phalanx.protocol.requests.gangs import Explain, SetRules
from phalanx.protocol.requests.health import Cordon
from phalanx.protocol.requests.jobs import ListJobs
from phalanx.protocol.requests.queues import CreateQueue, QueueFields
from phalanx.protocol.requests.reservations import Reserve, SetLicense

from .test_app import served
from .world import Head as DrawnHead

LIMITED = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: limits
    arguments: {users: {bob: {nvidia.com/gpu: 2}}}
  - name: predicates
"""


class GpuWorld(World):
    """A head whose nodes have sixteen CPUs each, and as many GPUs as the test says."""

    def add_gpus(self, name, gpus=2, cpus=16.0, **labels):
        return self.add(name, labels, CPU=cpus, GPU=float(gpus))

    def put(self, name, gpus=1.0, members=1, seconds=None, placement=None, **fields):
        group = members_of("w", members, gpus, placement)
        self.put_groups(name, group, timing=Timing(limit_s=seconds), **fields)

    def put_groups(self, name, *groups, **fields):
        least = sum(group.replicas for group in groups)
        self.job(*groups, name=name, min_available=least, **fields)
        settle(self)


def members_of(name, count, gpus, placement=None):
    process = Process(command=("true",), requests=(("CPU", 1.0), ("GPU", gpus)))
    template = Template(processes=(process,), placement=placement or {})
    return TaskGroup(name=name, replicas=count, template=template)


class Head(DrawnHead):
    """Answers the page's requests by the head."""

    def __init__(self, world):
        super().__init__()
        self.world = world

    def ask(self, request):
        return ask(self.world.head, request)


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
    return "3 of 4 tasks would find room, so none starts: 1 more needs 1 GPU"


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
    return "no node has the labels asked for: disk=nvme (0 nodes have it)"


def behind_a_promise(world):
    world.add_gpus("n1", gpus=4)
    world.ask(SetRules(PROMISING, "own.yaml"))
    world.put("runs", members=2, seconds=36_000.0)
    world.put("wide", members=4, seconds=600.0)
    world.put("late", seconds=72_000.0)
    return "places are promised to it, in 10h28m at the latest"


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
    return "no node is open to new tasks"


def held_by_the_user(world):
    world.add_gpus("n1")
    process = Process(command=("true",), requests=(("GPU", 1.0),))
    group = TaskGroup(name="w", replicas=1, template=Template(processes=(process,)))
    world.job(group, name="late", timing=Timing(is_held=True))
    settle(world)
    return "it is held"


def some_members_ask_for_a_label_that_no_node_has(world):
    """The first member would fit, and other jobs hold many GPUs. Neither is the reason."""
    world.add_gpus("n1", gpus=4)
    world.put("llama", members=2)
    launcher = members_of("launcher", 1, 0.0)
    workers = members_of("worker", 2, 1.0, {"nodeSelector": {"gpu": "h100"}})
    world.put_groups("late", launcher, workers)
    return "for 2 of its 3 tasks, no node has the labels asked for: gpu=h100 (0 nodes have it)"


def gpu_type_that_no_node_has(world):
    world.add_gpus("n1", **{"ray.io/accelerator-type": "K80"})
    world.put("late", placement={"nodeSelector": {"ray.io/accelerator-type": "H100"}})
    return "no node has the labels asked for: ray.io/accelerator-type=H100"


def larger_than_the_nodes_with_its_label(world):
    world.add_gpus("n1", gpus=1, zone="a")
    world.add_gpus("n2", gpus=4, zone="b")
    world.put("holder", gpus=1.0, placement={"nodeSelector": {"zone": "a"}})
    world.put("late", gpus=2.0, placement={"nodeSelector": {"zone": "a"}})
    return "no node that it may use, even empty, has 2 GPU (largest 1)"


def larger_than_any_node_that_is_left(world):
    world.add_gpus("n1", gpus=1)
    world.add_gpus("n2", gpus=4)
    world.put("holder", gpus=4.0)
    world.put("late", gpus=4.0)
    world.kill("n2")
    settle(world)
    return "no node, even empty, has 4 GPU (largest 1)"


def gang_larger_than_all_that_is_left(world):
    world.add_gpus("n1")
    world.add_gpus("n2")
    world.put("holder", members=2)
    world.put("late", members=4)
    world.kill("n2")
    settle(world)
    return "its nodes, even empty, hold 2 of the 4 tasks that it needs at once"


def member_queue_cap_of_a_gang(world):
    """The gang's three members must start together, so the queue's limit would not let a part of
    them start.
    """
    world.add_gpus("n1", gpus=4)
    world.ask(CreateQueue("team", QueueFields(capability={"GPU": 3.0})))
    world.put("first", queue="team")
    world.put("late", queue="team", members=3)
    return "queue team may hold 3 GPU and holds 1; this asks for 3 more"


def user_limit(world):
    world.add_gpus("n1", gpus=4)
    world.ask(SetRules(LIMITED, "own.yaml"))
    world.put("first", user="bob", gpus=2.0)
    world.put("late", user="bob", gpus=1.0)
    return "user bob may use 2 GPU, and would use 3"


def dependency(world):
    world.add_gpus("n1")
    world.put("first")
    world.put("late", after=read_dependencies("afterok:first", "default"))
    return "it waits until first has completed (afterok)"


def begin_time(world):
    world.add_gpus("n1")
    begin = Timing(begin=Moment(at=world.now + 600.0))
    world.put_groups("late", members_of("w", 1, 1.0), timing=begin)
    return "it begins at 1970-01-01 00:1"


def licenses(world):
    world.add_gpus("n1", gpus=4)
    world.ask(SetLicense("matlab", 3))
    world.put("first", licenses=(("matlab", 2),))
    world.put("late", licenses=(("matlab", 2),))
    return "2 of 3 licenses of matlab are held by job first, and it asks for 2"


def behind_others_of_a_higher_priority(world):
    world.add_gpus("n1", gpus=1)
    world.put("runs", priority=9)
    world.put("next", priority=5)
    world.put("late", priority=1)
    return "1 node lacks GPU (needs 1, most free 0)"


def preemption_under_way(world):
    world.add_gpus("n1", gpus=1)
    world.put("victim")
    process = members_of("w", 1, 1.0)
    world.job(process, name="late", min_available=1, priority=9)
    world.cycles()
    return "it is promised node n1 once evictions there end"


def gpus_that_are_closed(world):
    node = world.add_gpus("n1", gpus=4)
    world.ask(Cordon("n1", [0], "a loose cable"))
    left = {"GPU": [0, 10_000, 10_000, 10_000]}
    total = {"CPU": 16.0, "GPU": 3.0}
    node.about = {"available": total, "devices": left, "total": total}
    world.report(node)
    world.put("late", gpus=4.0)
    return "1 GPU takes no new work: n1/gpu0 is cordoned: a loose cable"


def scarce_cpus_beside_free_gpus(world):
    """The job lacks CPUs, so it does not wait for the job that holds GPUs."""
    world.add_gpus("n1", gpus=8, cpus=4.0)
    world.put("gpus", gpus=2.0)
    world.put("cpus", gpus=0.0, members=2)
    world.put("late", members=2)
    return "1 of 2 tasks would find room, so none starts: 1 more needs 1 CPU"


SITUATIONS = [
    queue_cap, quota_of_the_queue_above, gang_too_large, fragmented_devices, no_such_label,
    behind_a_promise, reserved, preempted, node_drained, held_by_the_user,
    some_members_ask_for_a_label_that_no_node_has, gpu_type_that_no_node_has,
    larger_than_the_nodes_with_its_label, larger_than_any_node_that_is_left,
    gang_larger_than_all_that_is_left, member_queue_cap_of_a_gang, user_limit, dependency,
    begin_time, licenses, behind_others_of_a_higher_priority, preemption_under_way,
    gpus_that_are_closed, scarce_cpus_beside_free_gpus,
]  # fmt: skip


WORDS = {
    queue_cap: "QOSResourceLimit",
    quota_of_the_queue_above: "QOSResourceLimit",
    member_queue_cap_of_a_gang: "QOSResourceLimit",
    user_limit: "AssociationResourceLimit",
    no_such_label: "BadConstraints",
    some_members_ask_for_a_label_that_no_node_has: "BadConstraints",
    gpu_type_that_no_node_has: "BadConstraints",
    larger_than_the_nodes_with_its_label: "BadConstraints",
    larger_than_any_node_that_is_left: "BadConstraints",
    gang_larger_than_all_that_is_left: "BadConstraints",
    node_drained: "ReqNodeNotAvail",
    reserved: "ReqNodeNotAvail",
    gpus_that_are_closed: "ReqNodeNotAvail",
    held_by_the_user: "JobHeldUser",
    dependency: "Dependency",
    begin_time: "BeginTime",
    licenses: "Licenses",
    behind_a_promise: "Priority",
    behind_others_of_a_higher_priority: "Priority",
}
"""squeue's REASON in each situation; `Resources` in those that are not listed."""


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.__name__)
def test_the_commands_say_it_too(situation, monkeypatch):
    """The same reason is in the column REASON of `phalanx jobs`, in its `--json` and in `phalanx
    explain`. squeue has its own word for it.
    """
    world = GpuWorld()
    said = situation(world)
    row = world.ask(ListJobs(name="late"))[0]
    assert row.reason.startswith(said)
    heads, cells = listing(JOBS, [row], "name,reason").splitlines()
    assert heads.split() == ["NAME", "REASON"]
    assert cells.split(maxsplit=1) == ["late", safe(row.reason)]
    assert json.loads(rows_json([row]))[0]["reason"] == row.reason
    assert row.reason in str(world.ask(Explain("late")))
    monkeypatch.setattr(rows, "address", lambda: None)
    monkeypatch.setattr(rows, "ask", lambda _, request: world.ask(request))
    shown = rows.Shown({"reason"})
    shown._now = row.submitted + row.age_s
    assert shown.row(row)["reason"] == WORDS.get(situation, "Resources")


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

    page, listed_rows = asyncio.run(look())
    listed = next(one for one in listed_rows if one["name"] == "late")
    assert why.main in page
    assert listed["reason"] == row.reason
    assert listed["position"] == row.position
    assert (listed["expected_start"] or {}).get("at_s") == start


@pytest.mark.parametrize(
    ("situation", "held"),
    [
        (scarce_cpus_beside_free_gpus, "  held by cpus (2 CPU), gpus (1 CPU)"),
        (queue_cap, "  held by first (1 GPU)"),
        (user_limit, "  held by first (2 GPU)"),
        (behind_others_of_a_higher_priority, "  held by runs (1 GPU)"),
        (some_members_ask_for_a_label_that_no_node_has, ""),
        (larger_than_the_nodes_with_its_label, ""),
        (gang_larger_than_all_that_is_left, ""),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_those_are_named_that_hold_what_it_waits_for(situation, held):
    """`explain` names the jobs that hold what is missing. It names none if the job could not start
    when they end.
    """
    world = GpuWorld()
    situation(world)
    lines = str(world.ask(Explain("late"))).splitlines()
    assert [line for line in lines if line.startswith("  held by")] == ([held] if held else [])


def test_one_number_for_the_members_without_room():
    world = GpuWorld()
    world.add_gpus("n1", gpus=8)
    world.put("holder", members=7)
    world.put("late", members=8)
    said = str(world.ask(Explain("late")))
    assert "1 of 8 tasks would find room, so none starts: 7 more need 1 GPU each" in said
    assert "to change that: make room for 7 more of its tasks" in said
    assert "8 more" not in said


def test_who_is_being_placed_does_not_wait():
    world = GpuWorld()
    world.add_gpus("n1")
    process = Process(command=("true",), requests=(("GPU", 1.0),))
    world.job(TaskGroup(name="w", replicas=1, template=Template(processes=(process,))), name="soon")
    world.cycles()
    assert "does not wait: it is being placed" in str(world.ask(Explain("soon")))
