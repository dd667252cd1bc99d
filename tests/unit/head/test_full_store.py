"""A head whose store has no room refuses new work, and goes on with what runs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.principals import OWNER
from tests.world.clock import ManualClock
from tests.world.head import make_head

from phalanx.errors import JobCommandError, StoreFullError
from phalanx.head.state_store import read_state
from phalanx.model.ids import GangId, GroupId
from phalanx.model.jobs.spec import CronSpec, FlowSpec, JobSpec, Process, Step, TaskGroup, Template
from phalanx.model.lifecycle import DEAD
from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.cluster_messages import ForwardedAsk, ForwardedReply, Via, ViewRow
from phalanx.protocol.frames import decode_body
from phalanx.protocol.membership_messages import Expelled, Join, Joined
from phalanx.protocol.node_messages import ActorUpdate
from phalanx.protocol.requests import (
    actors,
    cluster,
    gangs,
    groups,
    jobs,
    key_values,
    node,
    queues,
    ray,
)
from phalanx.protocol.requests.actors import ActorSpec, ListActors, RegisterActor
from phalanx.protocol.requests.cluster import GetStatus, ListNodes, NewDriverJob
from phalanx.protocol.requests.gangs import CreateGang
from phalanx.protocol.requests.groups import CreateGroup
from phalanx.protocol.requests.jobs import ApplyManifests, CommandJob, ListCrons, ListJobs, Manifest
from phalanx.protocol.requests.queues import CreateQueue, ListQueues, QueueFields
from phalanx.protocol.requests.request import Effect, Request, encode_request, read_result
from phalanx.storage.memory import MemoryDisk, MemoryShard
from phalanx.storage.storage import Storage

PREFIX = b"node01"
DRIVER = PREFIX + b"driver0001"
FULL = "its disk is full"
GROUP = GangId(GroupId(b"group".ljust(18)))


class Journal:
    """Writes immediately while its store has space. Otherwise writes as soon as there is space
    again.
    """

    def __init__(self, disk: MemoryDisk) -> None:
        self.storage = Storage([MemoryShard(disk)])
        self.shortage = ""
        self.is_stalled = self.is_slow = False
        self.waiting: list[Any] = []

    def record(self, changes, durable=None):
        self.waiting.append((dict(changes), durable))
        if not (self.is_stalled or self.is_slow):
            self.write()

    def write(self):
        while self.waiting:
            changes, durable = self.waiting.pop(0)
            self.storage.apply(changes)
            if durable is not None:
                durable()

    def flush(self):
        """Do nothing, because it writes immediately."""


class Place:
    """A head with one of its nodes, and a driver there."""

    def __init__(self, disk: MemoryDisk | None = None, cluster: str = "") -> None:
        self.disk = disk or MemoryDisk()
        self.journal = Journal(self.disk)
        self.sent: list[Any] = []
        self.clock = ManualClock(100.0)
        self.token = 0
        self.control = make_head(
            lambda prefix, message: self.sent.append(message),
            self.clock,
            journal=self.journal,
            stored=read_state(self.journal.storage),
            cluster=cluster,
        )

    def joins(self, cluster: str = "", epoch: int = 0) -> Any:
        del self.sent[:]
        row = ViewRow("6e" * 28, PREFIX, "h", 1, "ALIVE", {"CPU": 4.0}, {"CPU": 4.0}, {})
        inventory = BundleInventory([], {})
        self.control.on_message(PREFIX, Join(row, "machine", epoch, {}, inventory, cluster))
        return next(m for m in self.sent if isinstance(m, Joined | Expelled))

    def is_short(self, is_stalled: bool) -> None:
        self.journal.shortage, self.journal.is_stalled = FULL, is_stalled

    def has_room(self) -> None:
        self.journal.shortage, self.journal.is_stalled = "", False
        self.journal.write()

    def sends(self, request: Request[Any], process: bytes = DRIVER) -> int:
        self.token += 1
        body = encode_request(request)
        self.control.on_message(PREFIX, ForwardedAsk(self.token, process, request.kind, body))
        return self.token

    def replies(self, token: int) -> list[ForwardedReply]:
        return [m for m in self.sent if isinstance(m, ForwardedReply) and m.token == token]

    def answer(self, request: Request[Any], process: bytes = DRIVER) -> Any:
        (reply,) = self.replies(self.sends(request, process))
        return read_result(request, reply.result, reply.error)


class Visitor:
    """A person's command that sends requests."""

    principal = OWNER
    origin = "process 1"

    def __init__(self) -> None:
        self.replies: list[Reply] = []

    def send(self, message):
        self.replies.append(message)


@pytest.fixture
def place() -> Place:
    made = Place()
    made.joins()
    return made


def _job_spec(name: str) -> JobSpec:
    command = Process(command=("true",), requests=(("CPU", 1.0),))
    group = TaskGroup(
        name="g", replicas=1, min_available=1, template=Template(processes=(command,))
    )
    return JobSpec(name=name, groups=(group,), min_available=1)


def _apply(kind: str, spec: Any, id: bytes) -> ApplyManifests:
    return ApplyManifests([Manifest(kind, msgspec.msgpack.encode(spec))], id)


def make_job(name: str, id: bytes = b"") -> ApplyManifests:
    return _apply("Job", _job_spec(name), id)


def _flow(name: str, id: bytes = b"") -> ApplyManifests:
    return _apply("JobFlow", FlowSpec(name=name, steps=(Step(name="s"),)), id)


def _cron(name: str, id: bytes = b"", schedule: str = "@yearly") -> ApplyManifests:
    return _apply("CronJob", CronSpec(name=name, schedule=schedule, job=_job_spec(name)), id)


def _actor(number: int) -> RegisterActor:
    spec = ActorSpec(actor=DRIVER[:12] + number.to_bytes(4, "big"), class_name="A", name="a")
    return RegisterActor(spec, b"", [], get_if_exists=False)


NEW_WORK = [
    make_job("j"),
    _actor(1),
    CreateGroup(GROUP, [{"CPU": 1.0}], "PACK", "", False, []),
    CreateGang(GROUP, "gang", "default", [{"CPU": 1.0}], 1),
    CreateQueue("q", QueueFields()),
]


@pytest.mark.parametrize("is_stalled", [False, True])
@pytest.mark.parametrize("request_", NEW_WORK, ids=lambda r: type(r).__name__)
def test_new_work_is_refused_at_once_and_taken_when_there_is_room(place, request_, is_stalled):
    place.is_short(is_stalled)
    for _ in range(2):
        with pytest.raises(StoreFullError, match=f"takes no new work: {FULL}. Running work"):
            place.answer(request_)
    place.has_room()
    place.answer(request_)


@pytest.mark.parametrize("kind", ["Job", "JobFlow", "Nonsense"])
def test_bytes_that_are_no_object_harm_nobody_while_the_store_is_full(place, kind):
    place.is_short(is_stalled=False)
    with pytest.raises((StoreFullError, ValueError)):
        place.answer(ApplyManifests([Manifest(kind, b"\xff")], b"id"))
    body = msgspec.Raw(b"\xc1")
    place.control.on_message(PREFIX, ForwardedAsk(90, DRIVER, ApplyManifests.kind, body))
    assert len(place.replies(90)) == 1


def test_a_driver_begins_when_there_is_room(place):
    own = PREFIX + bytes(10)
    place.is_short(is_stalled=False)
    with pytest.raises(StoreFullError):
        place.answer(NewDriverJob(), own)
    place.has_room()
    assert place.answer(NewDriverJob(), own)


def test_what_an_earlier_head_took_is_not_refused_when_it_is_asked_again(place):
    asked = [*NEW_WORK[1:4], make_job("j", b"id"), _flow("f", b"id2"), _cron("c", b"id3")]
    for request in asked:
        place.answer(request)
    place.is_short(is_stalled=False)
    for request in asked:
        place.answer(request)


def test_a_job_that_an_earlier_head_took_before_it_died_is_no_error():
    disk = MemoryDisk()
    first = Place(disk)
    first.joins()
    first.answer(make_job("j", b"id"))
    second = Place(disk)
    second.joins(epoch=1)
    (done,) = second.answer(make_job("j", b"id"))
    assert (done.name, done.done) == ("j", "created")
    for other in (b"", b"another"):
        with pytest.raises(JobCommandError, match="job default/j exists already"):
            second.answer(make_job("j", other))
    assert [job.name for job in second.answer(ListJobs())] == ["j"]


def test_a_flow_that_an_earlier_head_took_before_it_died_is_no_error():
    disk = MemoryDisk()
    first = Place(disk)
    first.joins()
    first.answer(_flow("f", b"id"))
    second = Place(disk)
    second.joins(epoch=1)
    (done,) = second.answer(_flow("f", b"id"))
    assert (done.kind, done.name, done.done) == ("JobFlow", "f", "created")
    for other in (b"", b"another"):
        with pytest.raises(JobCommandError, match="flow default/f exists already"):
            second.answer(_flow("f", other))


def test_a_cron_job_that_is_submitted_again_by_the_same_request_undoes_no_later_change():
    disk = MemoryDisk()
    first = Place(disk)
    first.joins()
    first.answer(_cron("c", b"id"))
    first.answer(CommandJob("c", "suspend"))
    second = Place(disk)
    second.joins(epoch=1)
    (done,) = second.answer(_cron("c", b"id"))
    assert (done.kind, done.name, done.done) == ("CronJob", "c", "created")
    assert [row.state for row in second.answer(ListCrons())] == ["Suspended"]
    second.answer(_cron("c", b"another", "@monthly"))
    (row,) = second.answer(ListCrons())
    assert (row.schedule, row.state) == ("@monthly", "Active")


def test_questions_are_answered_and_changes_wait_while_nothing_can_be_written(place):
    place.answer(make_job("j"))
    group = NEW_WORK[2]
    place.answer(group)
    place.is_short(is_stalled=True)
    cancelling = place.sends(CommandJob("default/j", "cancel"))
    assert place.replies(cancelling) == []
    status = place.answer(GetStatus())
    assert status.troubles == [f"no new work is taken: {FULL}"]
    assert [job.name for job in place.answer(ListJobs())] == ["j"]
    for request in (ListNodes(), ListQueues(), ListActors()):
        assert place.answer(request) is not None
    place.has_room()
    assert len(place.replies(cancelling)) == 1
    assert place.answer(GetStatus()).troubles == []


def test_questions_that_came_before_it_was_full_are_answered_too(place):
    place.journal.is_slow = True
    token = place.sends(GetStatus())
    cancelling = place.sends(CommandJob("default/j", "cancel"))
    place.control.state_store.flush()
    assert place.replies(token) == []
    place.is_short(is_stalled=True)
    place.control.state_store.flush()
    assert len(place.replies(token)) == 1
    assert place.replies(cancelling) == []
    place.has_room()
    assert len(place.replies(token)) == len(place.replies(cancelling)) == 1


def test_with_little_room_changes_are_still_written_at_once(place):
    place.answer(make_job("j"))
    place.is_short(is_stalled=False)
    assert place.answer(CommandJob("default/j", "cancel")) is None


def test_a_visitor_is_answered_while_nothing_can_be_written(place):
    place.is_short(is_stalled=True)
    visitor = Visitor()
    asked: list[Request[Any]] = [GetStatus(), make_job("j")]
    for token, request in enumerate(asked):
        ask = Ask(token, request.kind, encode_request(request))
        place.control.answering.answer_visitor(visitor, ask)
    answered, refused = visitor.replies
    assert read_result(GetStatus, answered.result, answered.error).troubles
    with pytest.raises(StoreFullError):
        read_result(ApplyManifests, refused.result, refused.error)


def test_an_actor_that_nobody_waits_for_is_dead_for_its_owner(place):
    place.is_short(is_stalled=False)
    request = _actor(7)
    body = encode_request(request)
    place.control.on_message(PREFIX, ForwardedAsk(0, DRIVER, request.kind, body))
    bodies = [m.body for m in place.sent if isinstance(m, Via) and m.process == DRIVER]
    (update,) = [m for body in bodies for m in decode_body(body) if isinstance(m, ActorUpdate)]
    assert (update.actor, update.state, update.code) == (request.spec.actor, DEAD, "store_full")
    assert FULL in update.reason
    assert place.answer(actors.ListNamedActors(None)) == []


def test_every_request_says_what_it_does_to_the_store():
    """A request that adds something, or that only reads, must declare this. All other requests wait
    until their changes are written.
    """
    modules = (actors, cluster, gangs, groups, jobs, key_values, node, queues, ray)
    found = {
        kind.__name__: kind.effect
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Request) and kind is not Request
    }
    adds = {name for name, effect in found.items() if effect is Effect.ADDS}
    assert adds == {
        "NewDriverJob", "RegisterActor", "AnnounceActor", "CreateGroup", "CreateGang",
        "ApplyManifests", "ResizeJob", "UpdateJob", "CreateQueue", "AdmitBatch", "PutValue",
    }  # fmt: skip
    reads = {name for name, effect in found.items() if effect is Effect.READS}
    listings = {name for name in found if name.startswith(("List", "Explain"))}
    assert not [name for name in reads if name.startswith(("Create", "Delete", "Kill", "Apply"))]
    of_the_node = {"ListRuns", "ExplainTask", "ListGangPlaces", "ListStages"}
    assert listings - of_the_node <= reads


# ---- whose store it is ---------------------------------------------------------------------------


def test_a_node_of_another_cluster_is_refused_and_shown():
    place = Place(cluster="ours")
    answer = place.joins("theirs", epoch=3)
    assert isinstance(answer, Expelled)
    assert answer.is_foreign
    visitor = Visitor()
    request = GetStatus()
    place.control.answering.answer_visitor(visitor, Ask(1, request.kind, encode_request(request)))
    (trouble,) = read_result(GetStatus, visitor.replies[0].result, None).troubles
    assert "1 nodes of another cluster were refused, on machine" in trouble


@pytest.mark.parametrize("known", ["", "ours"])
def test_a_node_of_this_cluster_or_of_none_joins(known):
    place = Place(cluster="ours")
    answer = place.joins(known)
    assert isinstance(answer, Joined)
    assert answer.cluster == "ours"
