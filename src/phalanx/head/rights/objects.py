"""The objects that requests concern, as rights see them, and the verbs that each request needs.

Most types of requests concern the whole cluster, and need the verb that their type names. This
module has a function for each of the other types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.head.actors.table import ActorTable
from phalanx.head.drivers import Drivers
from phalanx.head.groups.record import Group
from phalanx.head.groups.table import GroupTable
from phalanx.head.rights.authorize import EVERYTHING, QUEUE, WORK, Names, Object
from phalanx.manifests.people_lists import ADMIN, SUBMIT, read_people
from phalanx.manifests.queue_rules import DEFAULT, ROOT
from phalanx.model.jobs.arrays import split_element
from phalanx.model.jobs.spec import CronSpec, FlowSpec, JobSpec
from phalanx.model.principals import EVERYBODY, JOB
from phalanx.model.rights import Verb
from phalanx.protocol.requests.actors import ExplainActor, KillActor
from phalanx.protocol.requests.client_drivers import EnterDriver
from phalanx.protocol.requests.gangs import CreateGang, EndMembers, Explain
from phalanx.protocol.requests.groups import RemoveGroup
from phalanx.protocol.requests.jobs import (
    ApplyManifests,
    CommandJob,
    DeleteJob,
    GetJob,
    GetMemberUse,
    ListElements,
    Manifest,
    ReadJobLog,
    ResizeJob,
    UpdateJob,
)
from phalanx.protocol.requests.logs import ReadProcessLog
from phalanx.protocol.requests.packages import PutPackage, ReadPackage
from phalanx.protocol.requests.queues import (
    AdmitQueue,
    CloseQueue,
    CreateQueue,
    DeleteQueue,
    OpenQueue,
    UpdateQueue,
)
from phalanx.protocol.requests.request import Request
from phalanx.protocol.requests.shares import SetShares
from phalanx.protocol.requests.steps import AttachMember, BeginStep, RunStep, SignalJob
from phalanx.protocol.requests.user_limits import SetLimits

if TYPE_CHECKING:
    from phalanx.head.gangs.gang_scheduler import GangScheduler
    from phalanx.model.jobs.records import JobRecord

Need = tuple[Verb, Object]
"""A verb that a request needs, and the object to which the verb applies."""
_JOB = slice(12, 16)
"""The bytes of a process's id that name the driver's job, as a slice."""
_LINEAGE = 50
"""The largest number of steps that are followed from a job to its submitter, or from a queue to its
parent.
"""
_ANYBODY = (frozenset((EVERYBODY,)),)


class Objects:
    """Finds the objects of requests in the head's tables."""

    def __init__(
        self,
        *,
        gangs: Callable[[], GangScheduler],
        drivers: Drivers,
        actors: ActorTable,
        groups: GroupTable,
        is_open: bool,
        max_priority: Callable[[str, str], int | None],
    ) -> None:
        """`gangs` returns the gang scheduler. `is_open`: whether queues without a list of
        submitters accept everybody's work. `max_priority(queue, user)`: the highest priority that
        the user may give to work there; None if any is allowed.
        """
        self._gangs = gangs
        self._drivers = drivers
        self._actors = actors
        self._groups = groups
        self._is_open = is_open
        self._max_priority = max_priority
        self._user = ""
        """The user whose request is being checked. Submitted work belongs to this user."""
        work, queue = self._named_work, self._named_queue
        self._of: dict[type[Request[Any]], Callable[[Any], list[Need]]] = {
            CommandJob: lambda it: work(Verb.CHANGE, it.name),
            ResizeJob: lambda it: work(Verb.CHANGE, it.name),
            SignalJob: lambda it: work(Verb.CHANGE, it.job),
            RunStep: lambda it: work(Verb.CHANGE, it.job),
            BeginStep: lambda it: work(Verb.CHANGE, it.job),
            AttachMember: lambda it: work(Verb.CHANGE, it.job),
            ReadJobLog: lambda it: work(Verb.READ, it.job),
            GetMemberUse: lambda it: work(Verb.READ, it.job),
            GetJob: lambda it: work(Verb.READ, it.name),
            Explain: lambda it: work(Verb.READ, it.name),
            ListElements: lambda it: work(Verb.SEE, it.name),
            DeleteJob: self._delete,
            UpdateJob: self._update,
            ApplyManifests: self._apply,
            CreateGang: lambda it: [(Verb.SUBMIT, self.submission(it.queue, it.priority))],
            EndMembers: self._end_members,
            AdmitQueue: self._admit_queue,
            CreateQueue: self._create_queue,
            UpdateQueue: self._update_queue,
            DeleteQueue: lambda it: queue(Verb.ADMINISTER, it.name),
            OpenQueue: lambda it: queue(Verb.OPERATE, it.name),
            CloseQueue: lambda it: queue(Verb.OPERATE, it.name),
            SetShares: lambda it: queue(Verb.RAISE, it.queue),
            SetLimits: lambda it: queue(Verb.OPERATE, it.queue),
            KillActor: lambda it: self._actor(Verb.USE, it.actor),
            ExplainActor: self._explain_actor,
            RemoveGroup: self._remove_group,
            ReadProcessLog: self._process_log,
            PutPackage: self._package,
            ReadPackage: self._package,
            EnterDriver: lambda it: work(Verb.CHANGE, it.job),
        }

    def needs(self, request: Request[Any], user: str) -> list[Need]:
        """Return the needs of a request that this user makes. A request about a thing that does not
        exist needs nothing, because its handler reports the error.
        """
        found = self._of.get(type(request))
        self._user = user
        return [(request.verb, EVERYTHING)] if found is None else found(request)

    # ---- queues ------------------------------------------------------------------------------

    def queue(self, name: str, parent: str | None = None) -> Object:
        """Return a queue as an object of rights. `parent`: if the queue is to be created, its
        parent.
        """
        path, submit, admin, above = self._lists(name, parent)
        return Object(
            kind=QUEUE, name=name, path=path, submit=submit, admin=admin, admin_above=above
        )

    def _lists(
        self, name: str, parent: str | None = None
    ) -> tuple[tuple[str, ...], tuple[Names, ...], Names, Names]:
        """Return the path of a queue, its lists of submitters, and two lists of administrators: for
        the queue and its ancestors, and for the ancestors only.
        """
        get = self._gangs().queues.table.get
        path = [name]
        submit: list[Names] = []
        own: Names = frozenset()
        above: Names = frozenset()
        record = get(name)
        at = parent or ROOT if record is None else record.name
        if record is None:
            record = get(at)
            path.insert(0, at)
        while record is not None and len(path) < _LINEAGE:
            written = dict(record.spec.annotations)
            if SUBMIT in written:
                submit.insert(0, read_people(written[SUBMIT]))
            if ADMIN in written:
                people = read_people(written[ADMIN])
                if record.name == name:
                    own = people
                else:
                    above |= people
            if record.name == ROOT:
                break
            record = get(record.spec.parent or ROOT)
            if record is not None:
                path.insert(0, record.name)
        lists = tuple(submit) or (_ANYBODY if self._is_open else ())
        return tuple(path), lists, own | above, above

    def _named_queue(self, verb: Verb, name: str) -> list[Need]:
        if self._gangs().queues.table.get(name) is None:
            return []
        return [(verb, self.queue(name))]

    def _create_queue(self, request: CreateQueue) -> list[Need]:
        return [(Verb.ADMINISTER, self.queue(request.name, request.fields.parent))]

    def _update_queue(self, request: UpdateQueue) -> list[Need]:
        needs = self._named_queue(Verb.ADMINISTER, request.name)
        if needs and request.fields.parent is not None:
            moved = self.queue(f"a queue below {request.fields.parent}", request.fields.parent)
            needs.append((Verb.ADMINISTER, moved))
        return needs

    def _admit_queue(self, request: AdmitQueue) -> list[Need]:
        if self._gangs().queues.table.get(request.name) is None:
            return [(Verb.ADMINISTER, self.queue(request.name))] if request.makes else []
        return [(Verb.SUBMIT, self.submission(request.name, 0))]

    def _package(self, request: PutPackage | ReadPackage) -> list[Need]:
        """Return the need of an upload or a download. A user may upload before the queue of the job
        is known. A user who knows the SHA-256 of a package may read it.
        """
        queues = tuple(record.name for record in self._gangs().queues.table.all())
        package = Object(
            kind=WORK, name="a package", owner=self._user, path=queues, submit=_ANYBODY
        )
        return [(Verb.SUBMIT, package)]

    def submission(self, queue: str, priority: int, owner: str = "", name: str = "") -> Object:
        """Return work that will be submitted to a queue, as an object of rights. Without an owner,
        the work belongs to the asker.
        """
        path, submit, admin, above = self._lists(queue)
        owner = owner or self._user
        return Object(
            kind=WORK,
            name=name or f"in queue {queue}",
            owner=owner,
            path=path,
            submit=submit,
            admin=admin,
            admin_above=above,
            priority=priority,
            max_priority=self._max_priority(queue, owner),
        )

    # ---- work --------------------------------------------------------------------------------

    def work(self, name: str) -> Object | None:
        """Return a job, gang, flow or cron job by its name, as an object of rights; None if none
        has this name.
        """
        return next(self._found(name), None)

    def _found(self, name: str) -> Iterator[Object]:
        gangs = self._gangs()
        if (job := self.job(name)) is not None:
            yield self.of_spec(job.spec)
        uid = _uid(name)
        requests = gangs.job_requests
        if (flow := requests.flows.table.get(uid)) is not None:
            lineage = (uid, *self._above(flow.spec))
            yield Object(kind=WORK, name=uid, owner=flow.spec.user, lineage=lineage)
        if (cron := requests.crons.table.get(uid)) is not None:
            yield self.of_spec(cron.spec.job, uid)
        if (gang := gangs.explanations.find(name)) is not None:
            yield self._in_queue(uid, gang.queue, gang.user, self.driver_lineage(gang.creator))

    def job(self, name: str) -> JobRecord | None:
        """Return the record of a job; for an array task's name, the record of its array."""
        gangs = self._gangs()
        found = gangs.jobs.table.get(_uid(name))
        if found is None and (array := split_element(name)) is not None:
            found = gangs.jobs.table.get(_uid(array[0]))
        return found

    def of_spec(self, spec: JobSpec, uid: str = "") -> Object:
        """Return a job as an object of rights."""
        name = uid or spec.uid
        return self._in_queue(name, spec.queue, spec.user, (name, *self._above(spec)))

    def _in_queue(self, name: str, queue: str, owner: str, lineage: tuple[str, ...]) -> Object:
        path, submit, admin, above = self._lists(queue)
        return Object(
            kind=WORK,
            name=name,
            owner=owner,
            lineage=lineage,
            path=path,
            submit=submit,
            admin=admin,
            admin_above=above,
        )

    def _above(self, spec: JobSpec | FlowSpec) -> tuple[str, ...]:
        """Return the names of the jobs above a job: the array of an array task, the job that
        submitted the job, that job's submitter, and so on.
        """
        found: list[str] = []
        if isinstance(spec, JobSpec) and spec.element:
            found.append(spec.element.array)
        at = spec.submitted_by
        while at and at not in found and len(found) < _LINEAGE:
            found.append(at)
            at = self._submitter(at)
        return tuple(found)

    def _submitter(self, name: str) -> str:
        """Return the job that submitted a job, or the job inside which a driver runs."""
        if "/" in name:
            record = self.job(name)
            return "" if record is None else record.spec.submitted_by
        principal = self._drivers.principal_of(name)
        return principal.name if principal is not None and principal.kind == JOB else ""

    def driver_lineage(self, process: bytes) -> tuple[str, ...]:
        """Return the job of the driver to which a process belongs, and the jobs above that job."""
        found: list[str] = []
        at = process[_JOB].hex()
        while at and at not in found and len(found) < _LINEAGE:
            found.append(at)
            at = self._submitter(at)
        return tuple(found)

    def _named_work(self, verb: Verb, name: str) -> list[Need]:
        found = self.work(name)
        return [] if found is None else [(verb, found)]

    def _delete(self, request: DeleteJob) -> list[Need]:
        if found := self._named_work(Verb.CHANGE, request.name):
            return found
        is_domain = self._gangs().domains.has(request.name.rpartition("/")[2])
        return [(Verb.ADMINISTER, EVERYTHING)] if is_domain else []

    def _update(self, request: UpdateJob) -> list[Need]:
        needs = self._named_work(Verb.CHANGE, request.name)
        job, gangs = self.job(request.name), self._gangs()
        if job is None or not needs:
            return needs
        spec, before = job.spec, gangs.priorities.of(job.spec)
        priority = before if request.priority is None else request.priority
        queue = spec.queue if request.queue is None else request.queue
        if queue != spec.queue:
            needs.append((Verb.SUBMIT, self.submission(queue, priority, spec.user)))
        if priority > before:
            raised = msgspec.structs.replace(
                needs[0][1], priority=priority, max_priority=self._max_priority(queue, spec.user)
            )
            needs.append((Verb.RAISE, raised))
        return needs

    def _end_members(self, request: EndMembers) -> list[Need]:
        gang = self._gangs().registry.gangs.get(request.group)
        if gang is None:
            return []
        lineage = self.driver_lineage(gang.creator)
        return [(Verb.CHANGE, self._in_queue(gang.uid, gang.queue, gang.user, lineage))]

    def _apply(self, request: ApplyManifests) -> list[Need]:
        return [need for manifest in request.manifests for need in self._manifest(manifest)]

    def _manifest(self, manifest: Manifest) -> list[Need]:
        kind = manifest.kind
        if kind not in _SPECS:
            return [(_KINDS.get(kind, Verb.ADMINISTER), EVERYTHING)]
        try:
            spec = msgspec.msgpack.decode(manifest.spec, type=_SPECS[kind])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return []  # the request's handler reports that these bytes are invalid
        if isinstance(spec, _QueueHead):
            return [(Verb.ADMINISTER, self.queue(spec.name, spec.parent))]
        if isinstance(spec, FlowSpec):
            return self._jobs_of_flow(spec)
        job = spec.job if isinstance(spec, CronSpec) else spec
        needs = [(Verb.SUBMIT, self._spec_to_submit(job))]
        if kind in ("CronJob", "JobTemplate"):
            requests = self._gangs().job_requests
            cron = requests.crons.table.get(spec.uid) if kind == "CronJob" else None
            old = requests.flows.templates.get(spec.uid) if kind == "JobTemplate" else None
            before = cron.spec.job if cron is not None else old
            if before is not None:
                needs.append((Verb.CHANGE, self.of_spec(before, spec.uid)))
        return needs

    def _jobs_of_flow(self, spec: FlowSpec) -> list[Need]:
        try:
            jobs = self._gangs().job_requests.flows.jobs_of(spec)
        except ValueError:
            return []  # the request's handler reports what is wrong with a step
        submissions = [(Verb.SUBMIT, self._spec_to_submit(job)) for job in jobs]
        return submissions or [(Verb.SUBMIT, self.submission(DEFAULT, 0, spec.user))]

    def _spec_to_submit(self, spec: JobSpec) -> Object:
        try:
            priority = self._gangs().priorities.of(spec)
        except ValueError:
            priority = spec.priority  # the request's handler reports that this class does not exist
        return self.submission(spec.queue, priority, spec.user, spec.uid)

    # ---- programs ----------------------------------------------------------------------------

    def driver(self, process: bytes) -> Object:
        """Return the driver to which a process belongs, as the object to which a right refers."""
        name = process[_JOB].hex()
        lineage = self.driver_lineage(process)
        return Object(kind=WORK, name=name, owner=self.owner_of_driver(name), lineage=lineage)

    def owner_of_driver(self, name: str) -> str:
        """Return the user of a driver's job; "" if the job is unknown."""
        principal = self._drivers.principal_of(name)
        if principal is None:
            return ""
        if principal.kind != JOB:
            return principal.user
        record = self.job(principal.name)
        return "" if record is None else record.spec.user

    def _actor(self, verb: Verb, actor: bytes) -> list[Need]:
        record = self._actors.get(actor)
        return [] if record is None else [(verb, self.driver(record.owner))]

    def _explain_actor(self, request: ExplainActor) -> list[Need]:
        for record in self._actors.all():
            if request.actor in (record.actor.hex(), record.name):
                return [(Verb.READ, self.driver(record.owner))]
        return []

    def _remove_group(self, request: RemoveGroup) -> list[Need]:
        group = self._groups.get(request.group)
        return [(Verb.USE, self.driver(group.creator))] if isinstance(group, Group) else []

    def _process_log(self, request: ReadProcessLog) -> list[Need]:
        try:
            worker = bytes.fromhex(request.worker)
        except ValueError:
            worker = b""
        return [(Verb.READ, self.driver(worker) if len(worker) >= _JOB.stop else EVERYTHING)]


class _QueueHead(msgspec.Struct, kw_only=True):
    """The fields of a queue's manifest that rights depend on."""

    name: str
    parent: str = ""


_SPECS: dict[str, Any] = {
    "Job": JobSpec,
    "JobTemplate": JobSpec,
    "CronJob": CronSpec,
    "JobFlow": FlowSpec,
    "Queue": _QueueHead,
}
_KINDS = {"Reservation": Verb.OPERATE}
"""Kinds of manifests that concern the whole cluster and need a verb other than ADMINISTER, each
with its verb.
"""


def _uid(name: str) -> str:
    return name if "/" in name else f"default/{name}"
