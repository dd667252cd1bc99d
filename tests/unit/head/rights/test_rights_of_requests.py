"""Every request of the protocol needs a right, which is checked before the request reaches its
handler.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from tests.fuzz.values import Maker
from tests.present import present
from tests.world.clock import ManualClock
from tests.world.head import make_head

import phalanx.protocol.requests as room
from phalanx.errors import NotAllowedError, PhalanxError
from phalanx.head.head import Head
from phalanx.head.rights.audit import DENIED, DONE, FAILED, RecentAudit
from phalanx.head.rights.control import RightsSetup
from phalanx.model.ids import node_process_id, process_id
from phalanx.model.jobs.spec import CronSpec, FlowSpec, JobSpec, Process, Step, TaskGroup, Template
from phalanx.model.principals import JOB, UNIX, Principal
from phalanx.model.rights import WORDS, Verb
from phalanx.observe.events import EventQuery
from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.cluster_messages import ForwardedAsk
from phalanx.protocol.requests.accounting import ListAttempts
from phalanx.protocol.requests.cluster import DrainNode
from phalanx.protocol.requests.events import ListEvents
from phalanx.protocol.requests.gangs import ListGangs
from phalanx.protocol.requests.jobs import (
    ApplyManifests,
    CommandJob,
    DeleteJob,
    GetJob,
    ListJobs,
    Manifest,
    UpdateJob,
)
from phalanx.protocol.requests.news import GetNews, Since
from phalanx.protocol.requests.packages import PutPackage, ReadPackage
from phalanx.protocol.requests.queues import (
    CreateQueue,
    OpenQueue,
    QueueFields,
    UpdateQueue,
)
from phalanx.protocol.requests.request import Request, Role, encode_request, read_result
from phalanx.protocol.requests.rights import AskRight, ListAudit, ListRoles, SetRole
from phalanx.protocol.requests.shares import SetShares

for one in pkgutil.iter_modules(room.__path__):
    importlib.import_module(f"{room.__name__}.{one.name}")
TYPES = sorted(
    (one for one in Request.__subclasses__() if one.__module__.startswith(room.__name__)),
    key=lambda one: one.kind,
)
"""All types of requests."""


def module_of(request_type: type[Request[Any]]) -> str:
    return request_type.__module__.rpartition(".")[2]


PREFIX = b"prefix"


class Person:
    """A person who is connected to a socket of the head."""

    origin = "process 7"

    def __init__(self, head: Head, principal: Principal) -> None:
        self._head, self.principal = head, principal
        self.replies: list[Reply] = []

    def send(self, message: Any) -> None:
        self.replies.append(message)

    def ask(self, request: Request[Any]) -> Any:
        ask = Ask(1, request.kind, encode_request(request))
        self._head.answering.answer_visitor(self, ask)
        reply = self.replies.pop()
        return read_result(request, reply.result, reply.error)

    def submit(self, name: str, **fields: Any) -> Any:
        return self.ask(ApplyManifests([Manifest("Job", encoded(job(name, **fields)))]))


def encoded(spec: Any) -> bytes:
    return msgspec.msgpack.encode(spec)


def spec_of(head: Head, uid: str) -> JobSpec:
    return present(head.gang_scheduler.jobs.table.get(uid)).spec


def job(name: str, **fields: Any) -> JobSpec:
    group = TaskGroup(name="w", template=Template(processes=(Process(command=("true",)),)))
    return JobSpec(name=name, groups=(group,), **fields)


@pytest.fixture
def audit() -> RecentAudit:
    return RecentAudit()


@pytest.fixture
def head(audit: RecentAudit) -> Iterator[Head]:
    setup = RightsSetup(
        is_shared=True,
        owner="boss",
        audit=audit,
        groups_of={"ana": ("ml",)}.get,  # type: ignore
    )
    yield make_head(lambda prefix, message: None, ManualClock(0.0), rights=setup)


@pytest.fixture
def boss(head: Head) -> Person:
    person = Person(head, Principal(UNIX, "boss", "boss", is_owner=True))
    person.ask(UpdateQueue("default", QueueFields(submit="ana, bo")))
    return person


@pytest.fixture
def ana(head: Head, boss: Person) -> Person:
    return Person(head, Principal(UNIX, "ana", "ana", ("ml",)))


@pytest.fixture
def bo(head: Head, boss: Person) -> Person:
    return Person(head, Principal(UNIX, "bo", "bo"))


def in_job(head: Head, name: str) -> Person:
    return Person(head, Principal(JOB, name, is_owner=True))


@pytest.mark.parametrize("request_type", TYPES, ids=lambda one: one.__name__)
def test_every_request_declares_its_verb(request_type: type[Request[Any]]) -> None:
    assert isinstance(request_type.__dict__["verb"], Verb)


def test_every_request_to_the_head_is_checked_before_its_handler(head: Head) -> None:
    """The person is a viewer, who may only `see`. No request that needs another verb reaches its
    handler.
    """
    head.roles.put("eve", "viewer")
    eve = Person(head, Principal(UNIX, "eve", "eve"))
    refused: set[str] = set()
    seen: set[str] = set()
    for request_type in TYPES:
        if module_of(request_type) in ("node", "ray"):
            continue
        handlers = head.answering.handlers_of(request_type.kind)
        handled: list[Any] = []
        _, handler = handlers._entries[request_type.kind]
        handlers._entries[request_type.kind] = (
            request_type,
            partial(_handled, handled),
        )
        checked: list[Any] = []
        refusal = head.rights.refusal

        def check(asking: Any, request: Any, checked: Any = checked, then: Any = refusal) -> Any:
            checked.append(request)
            return then(asking, request)

        head.rights.refusal = check  # type: ignore[method-assign]
        try:
            for seed in range(50):  # some values are not those of any request
                if not checked:
                    request = Maker(random.Random(seed), {}).struct(request_type)
                    _send(head, eve, request)
        finally:
            head.rights.refusal = refusal  # type: ignore[method-assign]
            handlers._entries[request_type.kind] = (request_type, handler)
        assert checked, request_type
        (seen if handled else refused).add(request_type.__name__)
    assert {"CreateQueue", "SetRules", "DrainNode", "SetRole", "ListAudit"} <= refused
    assert {"ListJobs", "ListNodes", "GetStatus"} & seen


def _handled(handled: list[Any], asker: Any, request: Any) -> None:
    handled.append(request)


def _send(head: Head, person: Person, request: Request[Any]) -> None:
    """Send a request in a role that its type allows."""
    if Role.VISITOR in request.asked_by:
        with contextlib.suppress(NotAllowedError, ValueError, TypeError, PhalanxError):
            person.ask(request)
        return
    is_of_process = Role.PROCESS in request.asked_by
    origin = process_id(PREFIX, b"worker", bytes(4)) if is_of_process else node_process_id(PREFIX)
    body = encode_request(request)
    ask = ForwardedAsk(0, origin, request.kind, body, principal=person.principal)
    head.answering.answer(PREFIX, ask)


def test_the_owner_is_the_asker_whatever_a_manifest_says(head: Head, ana: Person) -> None:
    ana.submit("one")
    assert spec_of(head, "default/one").user == "ana"
    with pytest.raises(NotAllowedError, match="only an admin names another user"):
        ana.submit("two", user="bo")
    cron = CronSpec(name="c", schedule="@hourly", job=job("c", submitted_by="default/one"))
    ana.ask(ApplyManifests([Manifest("CronJob", encoded(cron))]))
    record = present(head.gang_scheduler.job_requests.crons.table.get("default/c"))
    assert (record.spec.job.user, record.spec.job.submitted_by) == ("ana", "")
    ana.ask(ApplyManifests([Manifest("JobTemplate", encoded(job("t")))]))
    flow = FlowSpec(name="f", steps=(Step(name="t"),))
    boss = Person(head, Principal(UNIX, "boss", "boss", is_owner=True))
    boss.ask(ApplyManifests([Manifest("JobFlow", encoded(flow))]))
    head.on_tick(0.0)
    assert spec_of(head, "default/f-t").user == "boss", "not ana's"


def test_an_admin_submits_for_another(head: Head, boss: Person) -> None:
    boss.submit("one", user="bo")
    assert spec_of(head, "default/one").user == "bo"


def test_one_user_does_not_touch_the_work_of_another(ana: Person, bo: Person) -> None:
    ana.submit("one")
    for request in (
        CommandJob("one", "cancel"),
        DeleteJob("one"),
        UpdateJob("one", priority=-1),
        GetJob("one"),
    ):
        with pytest.raises(NotAllowedError):
            bo.ask(request)
    assert [row.name for row in bo.ask(ListJobs())] == ["one"], "names and states are seen"
    with pytest.raises(NotAllowedError):
        ana.ask(UpdateJob("one", priority=5))
    ana.ask(CommandJob("one", "cancel"))


def test_users_change_neither_queues_nor_nodes_nor_shares(ana: Person) -> None:
    for request in (
        CreateQueue("mine", QueueFields()),
        UpdateQueue("default", QueueFields(submit="*")),
        OpenQueue("default"),
        SetShares("default", {"bo": 0.0}),
        SetRole("ana", "admin"),
        DrainNode("n1", "", ""),
        ListAudit(),
        ApplyManifests([Manifest("Queue", encoded({"name": "default", "weight": 9}))]),
        ApplyManifests([Manifest("PriorityClass", encoded({"name": "p", "value": 9}))]),
    ):
        with pytest.raises(NotAllowedError):
            ana.ask(request)


def test_users_upload_packages_and_viewers_do_not(head: Head, boss: Person, ana: Person) -> None:
    assert ana.ask(PutPackage("0" * 64, 1)) == -1, "the head of this test takes none"
    assert ana.ask(ReadPackage("0" * 64)).size == -1
    boss.ask(SetRole("ana", "viewer"))
    for request in (PutPackage("0" * 64, 1), ReadPackage("0" * 64)):
        with pytest.raises(NotAllowedError):
            ana.ask(request)


def test_nobody_submits_to_a_queue_without_a_list(head: Head, boss: Person, ana: Person) -> None:
    boss.ask(CreateQueue("closed", QueueFields()))
    with pytest.raises(NotAllowedError, match="no submit list of queue closed"):
        ana.submit("one", queue="closed")
    boss.ask(UpdateQueue("root", QueueFields(submit="@ml")))
    ana.submit("one", queue="closed")


def test_a_priority_above_the_highest_is_refused(boss: Person, ana: Person) -> None:
    with pytest.raises(NotAllowedError, match="the highest priority of"):
        ana.submit("one", priority=10)
    boss.submit("two", priority=10)


def test_queue_administrators_have_their_subtree(head: Head, boss: Person) -> None:
    boss.ask(CreateQueue("lab", QueueFields(admin="carl", submit="ana")))
    boss.ask(CreateQueue("night", QueueFields(parent="lab")))
    carl = Person(head, Principal(UNIX, "carl", "carl"))
    carl.ask(UpdateQueue("night", QueueFields(weight=2)))
    carl.ask(CreateQueue("day", QueueFields(parent="lab", admin="dora")))
    for request in (
        UpdateQueue("lab", QueueFields(admin="carl, dora")),
        UpdateQueue("night", QueueFields(parent="default")),
        CreateQueue("other", QueueFields()),
        UpdateQueue("default", QueueFields(admin="carl")),
    ):
        with pytest.raises(NotAllowedError):
            carl.ask(request)
    ana = Person(head, Principal(UNIX, "ana", "ana"))
    ana.submit("one", queue="night")
    carl.ask(CommandJob("one", "hold"))
    dora = Person(head, Principal(UNIX, "dora", "dora"))
    with pytest.raises(NotAllowedError):
        dora.ask(CommandJob("one", "release"))


def test_a_job_acts_for_its_owner_without_the_rights_of_an_admin(head: Head, boss: Person) -> None:
    boss.submit("one")
    boss.submit("two")
    one = in_job(head, "default/one")
    one.submit("child")
    spec = spec_of(head, "default/child")
    assert (spec.user, spec.submitted_by) == ("boss", "default/one")
    one.ask(CommandJob("child", "hold"))
    one.ask(CommandJob("one", "hold"))
    for request in (
        CommandJob("two", "cancel"),
        GetJob("two"),
        CreateQueue("q", QueueFields()),
        SetRole("ana", "admin"),
        UpdateJob("child", priority=1),
    ):
        with pytest.raises(NotAllowedError):
            one.ask(request)
    in_job(head, "default/child").submit("grandchild")
    one.ask(CommandJob("grandchild", "cancel"))


def test_a_job_that_nobody_knows_does_nothing(head: Head, ana: Person) -> None:
    ana.submit("one")
    gone = in_job(head, "default/gone")
    with pytest.raises(NotAllowedError):
        gone.submit("child")
    with pytest.raises(NotAllowedError):
        gone.ask(CommandJob("one", "cancel"))


def test_jobs_see_only_the_work_of_their_owner(head: Head, ana: Person, bo: Person) -> None:
    ana.submit("one")
    bo.submit("two")
    one = in_job(head, "default/one")
    assert [row.name for row in one.ask(ListJobs())] == ["one"]
    news = one.ask(GetNews(Since()))
    assert [row.name for row in news.jobs] == ["one"]
    assert [row.job for row in one.ask(ListGangs())] == ["default/one"]
    assert {row.job for row in one.ask(ListEvents(EventQuery())).events} <= {"", "default/one"}
    assert len(ana.ask(ListGangs())) == 2 and len(ana.ask(GetNews(Since())).jobs) == 2


def test_changes_and_refusals_are_in_the_audit_log(
    audit: RecentAudit, boss: Person, ana: Person
) -> None:
    ana.submit("one")
    with pytest.raises(NotAllowedError):
        ana.ask(CreateQueue("q", QueueFields()))
    ana.ask(ListJobs())
    with pytest.raises(Exception, match="there is no queue"):
        boss.ask(OpenQueue("q"))
    found = boss.ask(ListAudit())
    told = [(row.principal, row.verb, row.what, row.result) for row in found]
    assert told == [
        ("unix:boss", "administer", "UpdateQueue default", DONE),
        ("unix:ana", "submit", "ApplyManifests job default/one", DONE),
        ("unix:ana", "administer", "CreateQueue queue q", DENIED),
        ("unix:boss", "operate", "OpenQueue q", FAILED),
    ]
    assert {row.origin for row in found} == {"process 7"} and "admin" in found[2].why
    assert boss.ask(ListAudit(principal="ana", is_denied=True)) == [found[2]]
    assert boss.ask(ListAudit(count=1)) == [found[3]]


def test_roles_are_given_and_taken_back(head: Head, boss: Person, ana: Person) -> None:
    boss.ask(SetRole("ana", "operator"))
    ana.ask(OpenQueue("default"))
    assert [(row.user, row.role) for row in ana.ask(ListRoles())] == [("ana", "operator")]
    boss.ask(SetRole("ana", "viewer"))
    with pytest.raises(NotAllowedError, match="viewer"):
        ana.submit("one")
    boss.ask(SetRole("ana", ""))
    ana.submit("one")
    with pytest.raises(ValueError, match="there is no role 'admn'"):
        boss.ask(SetRole("ana", "admn"))


def test_can_tells_the_rule(boss: Person, ana: Person, bo: Person) -> None:
    ana.submit("one")
    told = bo.ask(AskRight("cancel", "one"))
    assert not told.is_allowed and told.principal == "unix:bo" and told.role == "user"
    assert ana.ask(AskRight("cancel", "one")).is_allowed
    assert ana.ask(AskRight("submit", "default")).is_allowed
    assert not ana.ask(AskRight("queue", "default")).is_allowed
    assert boss.ask(AskRight("drain")).is_allowed
    with pytest.raises(ValueError, match="there is no verb 'cancle'"):
        ana.ask(AskRight("cancle", "one"))
    for word in WORDS:
        ana.ask(AskRight(word))


def test_asking_takes_no_right(ana: Person) -> None:
    ana.ask(ListJobs())
    assert ListAttempts.verb is Verb.SEE
