"""Requests to the head about rights: decisions, roles and the audit log."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.rights import Verb
from phalanx.model.rows.rights import AuditInfo, RightInfo, RoleInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class AskRight(Request[RightInfo]):
    """Return whether the asker may do something, with the rule that decides it.

    `word` is one of `model.rights.WORDS`; `object` is the name of a queue or of work, or empty
    for the cluster. Raises ValueError for another word, and JobNotFoundError or
    QueueUnavailableError for an unknown name.
    """

    kind: ClassVar[int] = 11
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    word: str
    object: str = ""


class ListAudit(Request[list[AuditInfo]]):
    """Return the latest changes and refusals in the audit log, oldest first.

    `principal`: the principal or user whose entries to list; "" for all.
    """

    kind: ClassVar[int] = 12
    verb: ClassVar[Verb] = Verb.ADMINISTER
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    count: int = 100
    principal: str = ""
    is_denied: bool = False
    """Whether to list refusals only."""


class SetRole(Request[list[RoleInfo]]):
    """Give a user a role; an empty role removes the user's role. Returns the roles of all users
    that have one.

    Raises ValueError for an unknown role.
    """

    kind: ClassVar[int] = 13
    verb: ClassVar[Verb] = Verb.ADMINISTER
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    user: str
    role: str


class ListRoles(Request[list[RoleInfo]]):
    """Return the users who were given a role, by name."""

    kind: ClassVar[int] = 14
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY
