"""Events at the head have an author and a reason, are limited in number, and are restored by the
next head.
"""

from __future__ import annotations

import pytest
from tests.unit.head.gangs.test_what_people_see import settle
from tests.world.clock import ManualClock
from tests.world.cluster import World, stored_world

from phalanx.errors import JobCommandError
from phalanx.head.events import event_log as books
from phalanx.head.events.event_log import KEEP_OF_JOBS, KEEP_OTHERS, MAX_TEXT, EventLog
from phalanx.head.events.jobs import MOST_OF_ARRAY
from phalanx.head.state_store import StateStore, read_state
from phalanx.model.jobs.arrays import ArraySpec
from phalanx.model.jobs.spec import Process, TaskGroup, Template
from phalanx.model.principals import UNIX, Principal
from phalanx.model.reservations import Reservation
from phalanx.model.rows.events import EventInfo
from phalanx.observe.events import KINDS, MAX_EVENTS, EventQuery, details, subject
from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.bundle_messages import MemberNews
from phalanx.protocol.membership_messages import Join
from phalanx.protocol.requests.cluster import DrainNode, UndrainNode
from phalanx.protocol.requests.events import ListEvents
from phalanx.protocol.requests.gangs import SetRules
from phalanx.protocol.requests.jobs import CommandJob, DeleteJob, ResizeJob, UpdateJob
from phalanx.protocol.requests.queues import (
    CloseQueue,
    CreateQueue,
    DeleteQueue,
    QueueFields,
    UpdateQueue,
)
from phalanx.protocol.requests.request import encode_request, read_result
from phalanx.protocol.requests.reservations import DeleteReservation, Reserve

EVIL = "<img src=x onerror=alert(1)>\x1b]0;t\x07\u202e"


def events(world, **query):
    return world.ask(ListEvents(EventQuery(**query))).events


def kinds(world, **query):
    return [one.kind for one in events(world, **query)]


def put(world, name, members=1, cpus=1.0, **fields):
    process = Process(command=("true",), requests=(("CPU", cpus),))
    group = TaskGroup(name="w", replicas=members, template=Template(processes=(process,)))
    world.job(group, name=name, min_available=members, **fields)
    settle(world)


def news(world, name, index=0, code=None):
    """Let the node report that a member runs, or has ended."""
    gang = world.scheduler.jobs.gang_of(f"default/{name}")
    member = gang.members[index]
    world.hear(
        member.node,
        MemberNews(group=gang.gang_id, index=index, attempt=member.attempt, code=code),
    )


class Visitor:
    """Sends requests of a user's command."""

    def __init__(self, world, user):
        self.world = world
        self.principal = Principal(UNIX, user, user, is_owner=True)
        self.origin = "process 1"
        self.replies = []

    def send(self, message):
        self.replies.append(message)

    def ask(self, request):
        ask = Ask(1, request.kind, encode_request(request))
        self.world.head.answering.answer_visitor(self, ask)
        reply = self.replies.pop()
        assert isinstance(reply, Reply)
        return read_result(request, reply.result, reply.error)


def test_a_jobs_way_is_told_from_its_coming_to_its_end():
    world = World()
    world.add("n1", CPU=2.0)
    put(world, "a", members=2, user="mara")
    news(world, "a", 0)
    news(world, "a", 1)
    news(world, "a", 0, code=0)
    news(world, "a", 1, code=3)
    found = events(world, job="a")
    assert [one.kind for one in found] == ["submitted", "placed", "began", "ended"]
    assert {one.user for one in found} == {"mara"} and found[0].by == "mara"
    assert found[1].places == (("n1", "n1", 2),) and found[1].members == 2
    assert found[3].state == "Failed" and "exit code 3" in found[3].why
    assert kinds(world, user="mara", kinds=["ended"]) == ["ended"]
    assert kinds(world, user="eve") == []


def test_who_preempted_whom_is_told_at_both():
    world = World()
    world.add("n1", CPU=2.0)
    put(world, "low", members=2)
    news(world, "low", 0)
    news(world, "low", 1)
    put(world, "high", cpus=2.0, priority=9)
    for _ in range(4):
        settle(world)
    (gone,) = events(world, kinds=["preempted"])
    assert (gone.job, gone.by, gone.members) == ("default/low", "default/high", 2)
    assert gone.places == (("n1", "n1", 2),)
    assert details(gone) == "2 members on n1; for high"
    assert gone in events(world, job="high"), "what it took from others is its matter, too"
    reason = world.scheduler.job_requests.listing.description("default/low").members[0].reason
    assert reason == "its place went to default/high (preempt)"


def test_a_queue_takes_back_what_it_deserves():
    world = World()
    world.add("n1", CPU=2.0)
    world.ask(CreateQueue("a", QueueFields()))
    world.ask(CreateQueue("b", QueueFields()))
    for name in ("one", "two"):
        put(world, name, queue="a")
    put(world, "mine", queue="b")
    for _ in range(4):
        settle(world)
    (gone,) = events(world, kinds=["reclaimed"])
    assert (gone.queue, gone.by, gone.members) == ("a", "default/mine", 1)


def test_commands_are_told_with_who_gave_them():
    world = World()
    world.add("n1", CPU=1.0)
    ana = Visitor(world, "ana")
    put(world, "runs")
    put(world, "waits")
    for command in ("hold", "release", "suspend", "resume"):
        ana.ask(CommandJob("waits", command))
        settle(world)
    ana.ask(UpdateJob("waits", priority=3))
    ana.ask(ResizeJob("waits", {"w": 2}))
    ana.ask(CommandJob("waits", "cancel"))
    settle(world)
    found = events(world, job="waits")
    assert [one.kind for one in found if one.by == "ana"] == [
        "held", "released", "suspended", "requeued", "waits", "changed", "changed", "ending",
        "ended",
    ]  # fmt: skip
    assert all(not one.by for one in events(world, job="runs"))
    ana.ask(DrainNode("n1", "a fan is broken"))
    ana.ask(UndrainNode("n1"))
    drained, undrained = events(world, node="n1", kinds=["node-drained", "node-undrained"])
    assert (drained.by, drained.why, undrained.by) == ("ana", "a fan is broken", "ana")


def test_nodes_come_and_go():
    world = World()
    world.add("n1")
    world.add("n2")
    put(world, "a")
    news(world, "a")
    node = world.nodes["n1"]
    world.head.on_lost(node.prefix)
    world.hear("n1", Join(node.row(), "n1", 1, {}, node.inventory()))
    world.kill("n1")
    assert kinds(world, node="n1") == [
        "node-joined", "placed", "node-away", "node-back", "node-lost", "lost",
    ]  # fmt: skip
    (lost,) = events(world, kinds=["node-lost"])
    assert lost.why == "its process ended"
    assert kinds(world, kinds=["lost"]) == ["lost"]
    assert kinds(world, node="n2", kinds=["node"]) == ["node-joined"]


def test_queues_reservations_and_rules():
    world = World()
    world.add("n1", CPU=4.0)
    ana = Visitor(world, "ana")
    ana.ask(CreateQueue("lab", QueueFields(weight=1)))
    ana.ask(UpdateQueue("lab", QueueFields(weight=3, capability={"CPU": 2.0})))
    ana.ask(UpdateQueue("lab", QueueFields(weight=3)))
    ana.ask(CloseQueue("lab"))
    ana.ask(DeleteQueue("lab"))
    found = events(world, queue="lab")
    assert [one.kind for one in found] == [
        "queue-made", "queue-changed", "queue-state", "queue-deleted",
    ]  # fmt: skip
    assert found[1].why == "weight 1 to 3, capability nothing to cpu=2"
    assert (found[2].state, found[2].by) == ("Closed", "ana")
    ana.ask(Reserve(Reservation(name="course", nodes=("n1",), length_s=3600.0)))
    settle(world)
    ana.ask(DeleteReservation("course"))
    assert kinds(world, kinds=["reservation"]) == [
        "reservation-made", "reservation-began", "reservation-ended", "reservation-deleted",
    ]  # fmt: skip
    with pytest.raises(JobCommandError):
        ana.ask(SetRules("tiers: [", EVIL))
    ana.ask(SetRules(None))
    refused, reset = events(world, kinds=["rules"])
    assert (refused.kind, refused.name, refused.by) == ("rules-refused", EVIL, "ana")
    assert "not YAML" in refused.why and reset.why == "back to the rules that come with the cluster"


def test_the_next_head_knows_what_was_written_and_goes_on():
    world = stored_world()
    world.add("n1", CPU=1.0)
    put(world, "a")
    world.head.on_tick(world.now)
    world.write()
    before = events(world)
    put(world, "late")  # nobody writes what is noted of it, but its record is written
    world.write()
    world.now += 1000.0
    world.restart()
    after = events(world)
    assert after[: len(before)] == before
    assert [one.kind for one in after[len(before) :]] == ["submitted", "head-began"]
    assert after[-2].job == "default/late" and "jobs 2, nodes 1" in after[-1].why
    numbers = [one.number for one in after]
    assert numbers == sorted(set(numbers))


def test_a_row_is_forgotten_in_the_store_when_it_is_forgotten_here(monkeypatch):
    monkeypatch.setattr(books, "WRITES", 10**6)
    world = stored_world()
    book = world.head.event_log
    for number in range(KEEP_OF_JOBS + 5):
        book.note("placed", job=f"default/{number}")
        if number == 100:
            book.tick(0.0)
    for number in range(KEEP_OTHERS + 5):
        book.note("node-joined", node=f"{number:x}")
    book.tick(0.0)
    page = world.ask(ListEvents(EventQuery(limit=10_000)))
    assert page.kept == len(page.events) == KEEP_OF_JOBS + KEEP_OTHERS
    assert page.events[0].job == "default/5", "nodes crowd no job out, nor jobs a node"
    world.write()
    stored = read_state(world.journal.storage).events
    assert sorted(one.number for one in stored) == [one.number for one in page.events]


def test_a_full_store_takes_no_events_and_takes_them_later():
    world = stored_world()
    world.journal.shortage = "its disk is full"
    world.head.on_tick(world.now)
    assert not any(table == "events" for rows, _ in world.journal.records for table, _ in rows)
    world.journal.shortage = ""
    world.head.on_tick(world.now)
    assert any(table == "events" for rows, _ in world.journal.records for table, _ in rows)


def test_who_follows_hears_each_event_once_also_from_another_head():
    clock = ManualClock(1000.0)
    book = EventLog(StateStore(), clock)
    for name in "abc":
        book.note("submitted", job=f"default/{name}")
    first = book.page(EventQuery(limit=2))
    assert [one.job for one in first.events] == ["default/b", "default/c"] and first.is_cut
    assert book.page(EventQuery(after=first.newest)).events == []
    book.note("ended", job="default/a")
    (new,) = book.page(EventQuery(after=first.newest)).events
    assert new.kind == "ended"
    later = EventLog(StateStore(), ManualClock(1001.0))
    later.note("head-began")
    assert [one.kind for one in later.page(EventQuery(after=new.number)).events] == ["head-began"]


def test_texts_are_cut_and_a_defect_that_comes_again_and_again_is_noted_now_and_then():
    world = World()
    world.head.event_log.note("defect", name=EVIL * 100, why="x" * 1000)
    (event,) = events(world, kinds=["defect"])
    assert len(event.name) == len(event.why) == MAX_TEXT and event.why.endswith("…")
    world.head.internal_errors._show = lambda error: None
    for _ in range(250):
        world.head.internal_errors.add("tick", ValueError(EVIL))
    counted = [one.why for one in events(world, kinds=["defect"]) if one.name == "tick"]
    assert len(counted) == 3 and "(100 by now)" in counted[-1]


def test_of_an_array_only_failures_are_told_and_not_all():
    world = World()
    world.add("n1", CPU=200.0)
    count = MOST_OF_ARRAY + 20
    process = Process(command=("false",), requests=(("CPU", 1.0),))
    group = TaskGroup(
        name="w", replicas=1, template=Template(processes=(process,), restart="Never")
    )
    world.job(group, name="many", array=ArraySpec(ranges=((0, count - 1, 1),)))
    settle(world)
    jobs = world.scheduler.jobs
    for job in [one for one in jobs.table.all() if one.spec.element is not None]:
        news(world, job.spec.name)
        news(world, job.spec.name, code=1)
    found = kinds(world, job="many", limit=10_000)
    assert found.count("element-failed") == MOST_OF_ARRAY
    assert set(found) <= {"submitted", "began", "ended", "element-failed"}


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"kinds": ["preemptd"]}, "did you mean 'preempted'"),
        ({"kinds": [EVIL]}, "there are no events of kind"),
        ({"limit": 0}, "limit must be 1 to 10,000, not 0"),
        ({"limit": MAX_EVENTS + 1}, "not 10001"),
        ({"since": 5.0, "until": 4.0}, "until .4.0. must be after since"),
        ({"since": float("nan")}, "since must be 0 or more"),
        ({"kinds": ["node"] * 101}, "at most 100 are allowed"),
    ],
)
def test_a_question_that_is_none_is_refused_with_what_is_allowed(query, why):
    with pytest.raises(ValueError, match=why):
        events(World(), **query)


def test_every_kind_reads():
    for kind in KINDS:
        bare = EventInfo(number=1, at=0.0, kind=kind)
        assert subject(bare) and details(bare) == ""
    place = tuple((f"{n:056x}", f"n{n}", 1) for n in range(5))
    full = EventInfo(number=1, at=0.0, kind="placed", job="default/a", members=5, places=place)
    assert (subject(full), details(full)) == ("a", "5 members on n0, n1, n2 and 2 more nodes")


def test_a_job_that_is_deleted_is_told_and_its_name_starts_anew():
    world = World()
    world.add("n1")
    put(world, "a")
    world.ask(DeleteJob("a"))
    news(world, "a", code=-15)
    settle(world)
    put(world, "a")
    found = kinds(world, job="a")
    assert found[:2] == ["submitted", "placed"] and found.count("submitted") == 2
    assert "ending" in found
