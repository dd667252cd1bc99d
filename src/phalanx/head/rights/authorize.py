"""Decides whether a principal may do something to an object: a pure function of principal, verb and
object.

The function implements the table in docs/explanation/security.md. A queue administrator is a person
in the `admin` list of the queue or of a queue above it. A job has its owner's rights to see and to
submit. A job may change only itself and the jobs that it has submitted. It may never administer
anything, even if its owner may.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import msgspec

from phalanx.model.principals import JOB, NODE, Principal, Role
from phalanx.model.rights import Verb

Names = frozenset[str]

CLUSTER, QUEUE, WORK = "cluster", "queue", "job"
"""The kinds of objects: the cluster with its nodes, a queue, and work such as a job or a gang."""


class Asking(msgspec.Struct, frozen=True, dict=True):
    """A principal and the rights that it has in the cluster."""

    principal: Principal
    role: Role
    queues: tuple[str, ...] | None = None
    """The queues in which a token may act, including the queues below them. None means all queues.
    """
    priority: int = 0
    """If the principal is a job: the job's priority. The job may give no higher priority to jobs
    that it submits.
    """

    @cached_property
    def is_job(self) -> bool:
        """Whether the principal is a job, which acts for its owner."""
        return self.principal.kind == JOB

    @cached_property
    def names_owners(self) -> bool:
        """Whether the principal may submit work that belongs to another user."""
        return self.role >= Role.ADMIN and not self.is_job

    @cached_property
    def is_free(self) -> bool:
        """Whether the principal may do everything except join as a node."""
        return self.names_owners and self.queues is None

    @property
    def user(self) -> str:
        """The user for whom the principal acts."""
        return self.principal.user

    @property
    def names(self) -> Names:
        """The words in lists of people that name this principal."""
        return self.principal.names


class Object(msgspec.Struct, frozen=True, kw_only=True):
    """The thing that a request concerns, with everything about it that decides on rights."""

    kind: str = CLUSTER
    name: str = ""
    owner: str = ""
    """The user who owns the work."""
    lineage: tuple[str, ...] = ()
    """For work: its own name, then the name of the job that submitted it, then that job's
    submitter, and so on.
    """
    path: tuple[str, ...] = ()
    """The queues from the root down to the object's queue or, if the object is a queue, to that
    queue.
    """
    submit: tuple[Names, ...] = ()
    """The lists of people who may submit, one from each queue of the path that has such a list."""
    admin: Names = frozenset()
    """The lists of people who administer the queue or one of its ancestors."""
    admin_above: Names = frozenset()
    """The lists of people who administer an ancestor of the queue."""
    priority: int = 0
    """The priority that the request gives to the work."""
    max_priority: int | None = None
    """The highest priority that the owner may give to work in the queue; None if any is allowed."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip() if self.name else f"the {self.kind}"


EVERYTHING = Object()
"""The object that stands for the whole cluster."""


class Allowed(msgspec.Struct, frozen=True):
    """The decision that the request may be carried out. `rule` names the right that allows it."""

    rule: str


class Denied(msgspec.Struct, frozen=True):
    """The decision that the request is refused. `rule` names the right that the request needs."""

    rule: str


Decision = Allowed | Denied


def authorize(asking: Asking, verb: Verb, thing: Object) -> Decision:
    """Return whether the principal may do to the object what the verb says, and the rule that
    decided.
    """
    return _RULES[verb](asking, thing)


_BY_ROLE = {role: Allowed(f"the role {role.word} may do this") for role in Role}
_OWN = Allowed("the work is its own")
_QUEUE_ADMIN = Allowed("it administers the queue")
_SEEN = Allowed("everybody sees names, states and amounts")
_NAMED = Allowed("the queue's submit list names it")
_NODE = Allowed("a node takes part in the cluster")


def _see(asking: Asking, thing: Object) -> Decision:
    if asking.is_job and thing.owner and thing.owner != asking.user:
        return Denied("a job sees only the work of its owner")
    return _SEEN


def _read(asking: Asking, thing: Object) -> Decision:
    if asking.is_job:
        if asking.principal.name in thing.lineage:
            return _OWN
        return Denied("a job reads only its own output and that of jobs that it has submitted")
    if asking.role >= Role.OPERATOR:
        return _BY_ROLE[asking.role]
    if thing.owner and thing.owner == asking.user:
        return _OWN
    if _administers(asking, thing):
        return _QUEUE_ADMIN
    return Denied(
        "logs, environments and details are for the owner, administrators of the queue, operators "
        "and admins"
    )


def _submit(asking: Asking, thing: Object) -> Decision:
    decided = _takes(asking, thing)
    if isinstance(decided, Denied):
        return decided
    if asking.is_job:
        if thing.priority > asking.priority:
            return Denied(
                f"a job submits nothing above its own priority, which is {asking.priority}, and "
                f"this has {thing.priority}"
            )
        return decided
    if decided is _NAMED and not _is_within(thing):
        return Denied(_above(thing))
    return decided


def _takes(asking: Asking, thing: Object) -> Decision:
    """Return whether the queue accepts work of this person."""
    if asking.role >= Role.OPERATOR:
        return _BY_ROLE[asking.role] if _is_meant(asking, thing) else _other_queue(thing)
    if asking.role < Role.USER:
        return Denied("the role viewer submits nothing; it needs the role user")
    if not _is_meant(asking, thing):
        return _other_queue(thing)
    if not asking.is_job and _administers(asking, thing):
        return _QUEUE_ADMIN
    if not thing.submit:
        return Denied(
            f"no submit list of queue {_queue(thing)} or of a queue above it names anybody; "
            "an admin sets one: phalanx queue update NAME --submit"
        )
    for names in thing.submit:
        if names.isdisjoint(asking.names):
            return Denied(
                f"the submit list of queue {_queue(thing)}, or of a queue above it, does not name "
                f"{asking.principal}"
            )
    return _NAMED


def _change(asking: Asking, thing: Object) -> Decision:
    if asking.is_job:
        if asking.principal.name in thing.lineage:
            return _OWN
        return Denied("a job changes only itself and jobs that it has submitted")
    if asking.role >= Role.OPERATOR:
        return _BY_ROLE[asking.role]
    if asking.role < Role.USER:
        return Denied("the role viewer changes nothing")
    if thing.owner and thing.owner == asking.user:
        return _OWN
    if _administers(asking, thing):
        return _QUEUE_ADMIN
    return Denied("work is changed by its owner, administrators of its queue, operators and admins")


def _raise(asking: Asking, thing: Object) -> Decision:
    if asking.is_job:
        return Denied("a job moves no work ahead of other work")
    if asking.role >= Role.OPERATOR:
        return _BY_ROLE[asking.role]
    if asking.role >= Role.USER:
        if _administers(asking, thing):
            return _QUEUE_ADMIN
        if thing.owner and thing.owner == asking.user:
            return _OWN if _is_within(thing) else Denied(_above(thing))
    return Denied("work is moved ahead by administrators of its queue, operators and admins")


def _operate(asking: Asking, thing: Object) -> Decision:
    if asking.is_job:
        return Denied("a job operates neither nodes nor queues")
    if asking.role >= Role.OPERATOR:
        return _BY_ROLE[asking.role]
    if thing.kind == QUEUE and asking.role >= Role.USER and _administers(asking, thing):
        return _QUEUE_ADMIN
    return Denied("it needs the role operator" + (_OR_QUEUE if thing.kind == QUEUE else ""))


def _administer(asking: Asking, thing: Object) -> Decision:
    if asking.is_job:
        return Denied("a job administers nothing, whoever its owner is")
    if asking.role >= Role.ADMIN:
        return _BY_ROLE[asking.role]
    if thing.kind == QUEUE and asking.role >= Role.USER and _is_meant(asking, thing):
        if not thing.admin_above.isdisjoint(asking.names):
            return _QUEUE_ADMIN
        return Denied("it needs the role admin, or to administer a queue above this one")
    return Denied("it needs the role admin")


def _use(asking: Asking, thing: Object) -> Decision:
    if thing.owner and thing.owner == asking.user:
        return _OWN
    if asking.role >= Role.OPERATOR:
        return _BY_ROLE[asking.role]
    if asking.role < Role.USER:
        return Denied("the role viewer runs no programs")
    if thing.kind == WORK:
        return Denied("the program belongs to another user")
    return _BY_ROLE[Role.USER]


def _join(asking: Asking, thing: Object) -> Decision:
    return _NODE if asking.principal.kind == NODE else Denied("only a node asks for this")


_RULES: dict[Verb, Callable[[Asking, Object], Decision]] = {
    Verb.SEE: _see,
    Verb.READ: _read,
    Verb.SUBMIT: _submit,
    Verb.CHANGE: _change,
    Verb.RAISE: _raise,
    Verb.OPERATE: _operate,
    Verb.ADMINISTER: _administer,
    Verb.USE: _use,
    Verb.JOIN: _join,
}
_OR_QUEUE = ", or to administer the queue or one above it"


def _administers(asking: Asking, thing: Object) -> bool:
    return not thing.admin.isdisjoint(asking.names) and _is_meant(asking, thing)


def _is_meant(asking: Asking, thing: Object) -> bool:
    """Whether the token may act in the object's queue."""
    return asking.queues is None or not set(asking.queues).isdisjoint(thing.path)


def _other_queue(thing: Object) -> Denied:
    return Denied(f"the token is for other queues than {_queue(thing)}")


def _is_within(thing: Object) -> bool:
    return thing.max_priority is None or thing.priority <= thing.max_priority


def _above(thing: Object) -> str:
    return (
        f"the highest priority of {thing.owner or 'a user'} in queue {_queue(thing)} is "
        f"{thing.max_priority}, and this has {thing.priority}; administrators of the queue, "
        "operators and admins may give more"
    )


def _queue(thing: Object) -> str:
    return thing.path[-1] if thing.path else thing.name
