"""Rows about rights: answers to the question whether a user may do something, entries of the audit
log, and roles.
"""

from __future__ import annotations

from phalanx.model.rows.row import Row


class RightInfo(Row, frozen=True, kw_only=True):
    """The answer to the question whether the asker may do something, with the rule that decides
    it.
    """

    principal: str
    role: str
    verb: str
    object: str
    is_allowed: bool
    rule: str


class AuditInfo(Row, frozen=True, kw_only=True):
    """A change or a refusal, as the audit log keeps it."""

    at: float
    """The time of the request, in seconds since the epoch."""
    principal: str
    user: str
    """The user for whom the principal asked."""
    origin: str
    """The process of this machine, or the node, from which the request came."""
    verb: str
    what: str
    """The request, with the object that it concerns."""
    result: str
    """The result of the request: done, failed or denied."""
    why: str = ""
    """The rule by which the request was denied, or the error with which it failed."""


class RoleInfo(Row, frozen=True, kw_only=True):
    """A user who was given a role."""

    user: str
    role: str
