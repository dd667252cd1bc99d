"""Random clusters in which work waits for a single cause: every page and command names this cause,
and when it is gone the job starts.
"""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.present import present
from tests.unit.head.gangs.test_what_people_see import settle

from phalanx.model.jobs.timing import Timing
from phalanx.protocol.bundle_messages import MemberNews
from phalanx.protocol.requests.cluster import DrainNode, UndrainNode
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.jobs import CommandJob, ListJobs
from phalanx.protocol.requests.queues import CreateQueue, QueueFields
from phalanx.protocol.requests.reservations import SetLicense

from .test_app import served
from .test_situations import GpuWorld, Head, members_of


class Drawn(GpuWorld):
    """Nodes in two zones with running work. The waiting gang would fit, were it not for one
    cause.
    """

    def __init__(self, seed):
        super().__init__()
        self.rng = random.Random(seed)
        self.members = self.rng.randint(2, 4)
        self.names = [f"n{number}" for number in range(self.rng.randint(2, 5))]
        for at, name in enumerate(self.names):
            self.add_gpus(name, gpus=8, cpus=32.0, zone="ab"[at % 2])
        for number in range(self.rng.randint(0, 3)):
            self.put(f"other{number}", gpus=1.0, members=self.rng.randint(1, 2))

    def put_gang(self, placement=None, **fields):
        """Submit the gang that waits. Its first member asks for no GPU and for no label."""
        workers = members_of("worker", self.members - 1, 1.0, placement)
        self.put_groups("late", members_of("first", 1, 0.0), workers, **fields)

    def complete(self, name):
        """Let all members of a job complete."""
        gang = present(self.head.gang_scheduler.jobs.gang_of(f"default/{name}"))
        for index, member in enumerate(list(gang.members)):
            news = MemberNews(gang.gang_id, index, member.attempt, code=0)
            self.hear(member.node, news)


def label(world):
    world.put_gang({"nodeSelector": {"disk": "nvme"}})
    return "labels", lambda: world.add_gpus("new", gpus=8, disk="nvme")


def zone_too_small(world):
    world.add_gpus("small", gpus=1, zone="c")
    workers = members_of("worker", 1, 2.0, {"nodeSelector": {"zone": "c"}})
    world.put_groups("late", members_of("first", 1, 0.0), workers)
    return "never-fits-there", lambda: world.add_gpus("new", gpus=2, zone="c")


def zone_too_few(world):
    world.add_gpus("small", gpus=1, zone="c")
    workers = members_of("worker", 2, 1.0, {"nodeSelector": {"zone": "c"}})
    world.put_groups("late", members_of("first", 1, 0.0), workers)
    return "gang-never-fits", lambda: world.add_gpus("new", gpus=1, zone="c")


def zone_full(world):
    """Fill one zone; work in other zones must not be named as a cause."""
    world.add_gpus("small", gpus=2, zone="c")
    world.put("holder", gpus=2.0, placement={"nodeSelector": {"zone": "c"}})
    world.put("late", gpus=2.0, placement={"nodeSelector": {"zone": "c"}})
    assert "held by holder (2 GPU)" in str(world.ask(Explain("late")))
    return "resource", lambda: world.complete("holder")


def queue_cap(world):
    world.ask(CreateQueue("team", QueueFields(capability={"GPU": float(world.members - 1)})))
    world.put("holder", queue="team")
    world.put_gang(queue="team")
    return "queue-quota", lambda: world.complete("holder")


def licenses(world):
    world.ask(SetLicense("matlab", 2))
    world.put("holder", licenses=(("matlab", 1),))
    world.put_gang(licenses=(("matlab", 2),))
    return "license", lambda: world.ask(SetLicense("matlab", 3))


def all_drained(world):
    for name in world.names:
        world.ask(DrainNode(name, "by command"))
    world.put_gang()
    return "unschedulable", lambda: world.ask(UndrainNode(world.names[0]))


def held(world):
    world.put_gang(timing=Timing(is_held=True))
    return "held", lambda: world.ask(CommandJob("late", "release"))


CAUSES = [label, zone_too_small, zone_too_few, zone_full, queue_cap, licenses, all_drained, held]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("cause", CAUSES, ids=lambda one: one.__name__)
def test_the_cause_comes_first_everywhere_and_the_job_starts_without_it(cause, seed):
    world = Drawn(seed)
    code, mend = cause(world)
    why = world.ask(Explain("late"))
    row = world.ask(ListJobs(name="late"))[0]
    assert why.because[0].reason == code
    assert why.main == row.reason

    async def listed():
        async with served(Head(world)) as (client, _):
            return (await client.get("/api/v1/jobs?q=late")).json()["page"]["listed"]["rows"]

    if seed == 0:
        assert [one["reason"] for one in asyncio.run(listed())] == [row.reason]
    mend()
    settle(world)
    settle(world)
    assert world.ask(ListJobs(name="late"))[0].state == "Running", str(world.ask(Explain("late")))
