"""Checks every request to the head against the rights of its asker. No other module does this."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from phalanx.errors import JobCommandError, JobNotFoundError, NotAllowedError
from phalanx.head.grants import Grants
from phalanx.head.rights.audit import (
    CHANGING,
    DENIED,
    DONE,
    FAILED,
    MAX_LATEST,
    AuditJournal,
    described,
    record_of,
)
from phalanx.head.rights.authorize import EVERYTHING, Asking, Denied, Object, authorize
from phalanx.head.rights.objects import Need, Objects
from phalanx.head.rights.roles import Roles
from phalanx.head.rights.tokens import Hashes, Tokens
from phalanx.model.nearest import nearest
from phalanx.model.principals import JOB, NODE, TOKEN, UNIX, Principal, Role
from phalanx.model.rights import WORDS, Verb
from phalanx.model.rows.rights import AuditInfo, RightInfo, RoleInfo
from phalanx.model.rows.tokens import TokenInfo
from phalanx.protocol.gateway_messages import Admit
from phalanx.protocol.requests.request import Asker, Effect, Entry, Request
from phalanx.protocol.requests.rights import AskRight, ListAudit, ListRoles, SetRole
from phalanx.protocol.requests.tokens import CreateToken, ListTokens, RevokeToken, RotateToken
from phalanx.protocol.wire_errors import WireError

GroupsOf = Callable[[str], tuple[str, ...]]
"""Returns the groups of an account, by the account's name."""


class RightsSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of rights in a cluster, and the functions of the head's shell that rights need.
    The defaults are for a cluster of one person, without a file for the audit log.
    """

    is_shared: bool = False
    """Whether other users of the machine can reach the head, as in the mode *shared*."""
    owner: str = ""
    """The account under which the head runs."""
    audit: AuditJournal | None = None
    groups_of: GroupsOf = lambda user: ()
    know_tokens: Callable[[Hashes], None] = lambda hashes: None
    """Tells the gateway the tokens of people and robots, and ends the connections of all other
    tokens.
    """
    admit: Callable[[Admit], None] = lambda admit: None
    """Lets the gateway connect a client with its driver."""
    grants: Grants | None = None
    """Makes work run under its owner's account; None if work runs under the accounts of its nodes.
    """


ONE_PERSON = RightsSetup()
_MAX_ACCOUNTS = 1_000
"""The largest number of accounts whose rights are kept at hand."""


class Rights:
    """Knows the rights of each asker, refuses requests for which a right is missing, and keeps the
    audit log.
    """

    def __init__(
        self,
        *,
        objects: Objects,
        roles: Roles,
        tokens: Tokens,
        audit: AuditJournal,
        wall: Callable[[], float],
        groups_of: GroupsOf,
        priority_of: Callable[[str], int],
    ) -> None:
        """`wall` returns the wall-clock time. `priority_of` returns the priority of a job by its
        full name, or of a driver's job by its id in hex.
        """
        self._objects = objects
        self._roles = roles
        self._tokens = tokens
        self._audit = audit
        self._wall = wall
        self._groups_of = groups_of
        self._priority_of = priority_of
        self._accounts: dict[Principal, Asking] = {}
        """The rights of accounts that have asked, until an account gets another role."""

    def asked(self, principal: Principal, process: bytes, origin: str) -> Asked:
        """Return the record of a request that was not decoded yet. `process`: the id of the asking
        process, if it belongs to the cluster. Raises AuthenticationError for a token that is no
        longer valid.
        """
        return Asked(self, self._asking(principal), self._within(principal, process), origin)

    def _asking(self, principal: Principal) -> Asking:
        if principal.kind == NODE:
            return Asking(principal, Role.USER)
        if principal.kind == TOKEN:
            role, queues = self._tokens.rights(principal)
            return Asking(principal, role, queues)
        if principal.kind == JOB:
            return self._job(principal)
        asking = self._accounts.get(principal)
        if asking is None:
            if len(self._accounts) >= _MAX_ACCOUNTS:
                self._accounts.clear()
            asking = Asking(principal, self._roles.of(principal))
            self._accounts[principal] = asking
        return asking

    def _job(self, principal: Principal) -> Asking:
        """Return the rights of a job: the part of its owner's rights that jobs have."""
        name = principal.name
        record = self._objects.job(name) if "/" in name else None
        if record is not None:
            owner = record.spec.user
            if record.spec.element is not None:  # an array task has the rights of its array
                name = record.spec.element.array
        else:
            owner = "" if "/" in name else self._objects.owner_of_driver(name)
        groups = self._groups_of(owner) if owner and not self._roles.is_alone else ()
        acting = msgspec.structs.replace(principal, name=name, user=owner, groups=groups)
        return Asking(acting, self._roles.of_owner(owner), priority=self._priority_of(name))

    def _within(self, principal: Principal, process: bytes) -> str:
        if process and principal.kind != NODE:
            return process[12:].hex()
        return principal.name if principal.kind == JOB else ""

    # ---- deciding ----------------------------------------------------------------------------

    def refusal(self, asking: Asking, request: Request[Any]) -> tuple[str, str]:
        """Return the names of the request's objects, and why the request is refused; "" if it is
        allowed.
        """
        needs = self._needs(asking, request)
        names = ", ".join(dict.fromkeys(str(thing) for _, thing in needs if thing.name))
        for verb, thing in needs:
            decided = authorize(asking, verb, thing)
            if isinstance(decided, Denied):
                return names, f"{asking.principal} may not {verb.value} {thing}: {decided.rule}"
        return names, ""

    def _needs(self, asking: Asking, request: Request[Any]) -> list[Need]:
        if asking.is_free and request.verb is not Verb.JOIN:
            # For a principal that may do everything to all objects, the object does not matter,
            # except in the audit log.
            name = next((getattr(request, at) for at in _NAMES if hasattr(request, at)), "")
            thing = Object(kind="", name=name) if isinstance(name, str) else EVERYTHING
            return [(request.verb, thing)]
        return self._objects.needs(request, asking.user)

    def note(self, asking: Asking, origin: str, verb: Verb, what: str, why: str, how: str) -> None:
        """Write a record to the audit log."""
        self._audit.add(record_of(asking.principal, origin, verb, what, how, why, self._wall()))

    # ---- requests ----------------------------------------------------------------------------

    def entries(self) -> Iterable[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return (
            AskRight.handled_by(self._ask_right),
            ListAudit.handled_by(self._list_audit),
            SetRole.handled_by(self._set_role),
            ListRoles.handled_by(self._list_roles),
            CreateToken.handled_by(self._create_token),
            RotateToken.handled_by(self._rotate_token),
            RevokeToken.handled_by(self._revoke_token),
            ListTokens.handled_by(self._list_tokens),
        )

    def _ask_right(self, asker: Asker[RightInfo], request: AskRight) -> RightInfo:
        verb = WORDS.get(request.word)
        if verb is None:
            near = nearest(request.word, WORDS)
            raise ValueError(f"there is no verb {request.word!r}{near}; known: {', '.join(WORDS)}")
        principal = asker.principal or Principal(UNIX, "")
        asking = self._asking(principal)
        thing = self._meant(verb, request.object, asking.user)
        decided = authorize(asking, verb, thing)
        return RightInfo(
            principal=str(principal),
            role=asking.role.word,
            verb=verb.value,
            object=str(thing),
            is_allowed=not isinstance(decided, Denied),
            rule=decided.rule,
        )

    def _meant(self, verb: Verb, name: str, user: str) -> Object:
        """Return the object that a name refers to: a queue for the verbs submit, operate and
        administer, and work for all others. An empty name means the whole cluster.
        """
        if not name:
            return EVERYTHING
        if verb is Verb.SUBMIT:
            return self._objects.submission(name, 0, user)
        if verb in (Verb.OPERATE, Verb.ADMINISTER):
            return self._objects.queue(name)
        found = self._objects.work(name)
        if found is None:
            raise JobNotFoundError(f"there is no job, flow, cron job or gang {name!r}")
        return found

    def _set_role(self, asker: Asker[list[RoleInfo]], request: SetRole) -> list[RoleInfo]:
        self._accounts.clear()
        return self._roles.put(request.user, request.role)

    def _list_roles(self, asker: Asker[list[RoleInfo]], request: ListRoles) -> list[RoleInfo]:
        return self._roles.rows()

    def _create_token(self, asker: Asker[TokenInfo], request: CreateToken) -> TokenInfo:
        queues = None if request.queues is None else tuple(request.queues)
        return self._tokens.create(
            request.name,
            request.id,
            request.secret_hash,
            request.role,
            queues,
            request.expires,
            asker.is_again,
        )

    def _rotate_token(self, asker: Asker[TokenInfo], request: RotateToken) -> TokenInfo:
        return self._tokens.rotate(request.name, request.secret_hash)

    def _revoke_token(self, asker: Asker[None], request: RevokeToken) -> None:
        self._tokens.revoke(request.name, asker.is_again)

    def _list_tokens(self, asker: Asker[list[TokenInfo]], request: ListTokens) -> list[TokenInfo]:
        return self._tokens.rows()

    def _list_audit(self, asker: Asker[list[AuditInfo]], request: ListAudit) -> list[AuditInfo]:
        if not 0 < request.count <= MAX_LATEST:
            raise JobCommandError(
                f"1 to {MAX_LATEST:,} records of the audit log can be read, not {request.count:,}"
            )

        def is_meant(one: AuditInfo) -> bool:
            is_theirs = request.principal in ("", one.principal, one.user)
            return is_theirs and (not request.is_denied or one.result == DENIED)

        return self._audit.latest(request.count, is_meant)


class Asked:
    """One request, from its arrival to its result."""

    __slots__ = ("_has_names", "_origin", "_rights", "_what", "asking", "verb", "within")

    def __init__(self, rights: Rights, asking: Asking, within: str, origin: str) -> None:
        self._rights = rights
        self._origin = origin
        self._what = ""
        self._has_names = False
        self.asking = asking
        self.within = within
        self.verb: Verb | None = None
        """The verb of the request, if its result must be recorded; otherwise None."""

    @property
    def principal(self) -> Principal:
        """The principal that asks, with the user for whom it asks."""
        return self.asking.principal

    @property
    def by(self) -> str:
        """The name under which events mention the principal."""
        principal = self.asking.principal
        return principal.user or ("" if principal.kind == NODE else str(principal))

    def check(self, request: Request[Any]) -> None:
        """Raise NotAllowedError if the asker may not make this request."""
        is_change = request.verb in CHANGING and type(request).effect is not Effect.READS
        if not is_change and request.verb is not Verb.JOIN and self.asking.is_free:
            # allowed and not recorded, like nearly all requests if each user owns their work
            return
        names, why = self._rights.refusal(self.asking, request)
        self._has_names = bool(names)
        self._what = described(request, names)
        if why:
            self._rights.note(self.asking, self._origin, request.verb, self._what, why, DENIED)
            raise NotAllowedError(why)
        if is_change:
            self.verb = request.verb

    def answered(self, about: str, error: WireError | None) -> None:
        """Note the result of a change. `about`: the names of the objects that it changed, or ""."""
        if self.verb is not None:
            if about and not self._has_names:
                self._what += f" {about}"
            why, how = ("", DONE) if error is None else (error.message, FAILED)
            self._rights.note(self.asking, self._origin, self.verb, self._what, why, how)
            self.verb = None


_NAMES = ("name", "job", "node_id", "queue", "user")
"""The fields of requests that contain the name of the object."""
