"""Principals: the people, tokens, jobs and nodes that send requests, as the server knows them.

A principal is created where somebody is authenticated: from the kernel's report about a socket, or
from a token, but never from a statement of the asking process.
"""

from __future__ import annotations

import enum
from functools import cached_property

import msgspec

UNIX, TOKEN, JOB, NODE = "unix", "token", "job", "node"
"""The kinds of principals: an account of a machine, a token, a job that acts for its owner, and a
node that acts for itself.
"""
GROUP = "@"
"""The first character of the name of a group of accounts, as in `@ml`."""
EVERYBODY = "*"


class Role(enum.IntEnum):
    """The rights of a person or token. Each role includes the rights of the roles before it."""

    VIEWER = 0
    USER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """The role's name in commands and files."""
        return self.name.lower()


ROLES = {role.word: role for role in Role}


class Principal(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """The asker of a request."""

    kind: str
    name: str
    """The name of the account or token, the full name of the job, or the id of the node."""
    user: str = ""
    """The user to whom the principal's submitted work, and its usage, belong."""
    groups: tuple[str, ...] = ()
    """The groups of the account."""
    is_owner: bool = False
    """Whether the asker runs under the same account as the daemon that authenticated it."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @cached_property
    def names(self) -> frozenset[str]:
        """The names by which a queue's list of people may include this principal."""
        own = (self.user,) if self.user else ()
        groups = (f"{GROUP}{group}" for group in self.groups)
        return frozenset((EVERYBODY, str(self), *own, *groups))


NOBODY = Principal("", "")
"""The principal of a peer without identity, which has no rights."""
