"""The roles of users: the roles that an administrator gave them, and the default roles."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.errors import JobCommandError
from phalanx.head.state_store import StateStore
from phalanx.manifests.names import free_fault
from phalanx.model.nearest import nearest
from phalanx.model.principals import ROLES, Principal, Role
from phalanx.model.rows.rights import RoleInfo

TABLE = "roles"
SUPERUSER = "root"


class Roles:
    """The roles of one cluster's users.

    A cluster in the mode *mine* has one user, its owner, whose role is admin. In the mode *shared*
    the owner and the superuser are admins. Everybody else has the role that an admin has given, or
    the role `user`.
    """

    def __init__(self, state_store: StateStore, *, is_alone: bool, owner: str) -> None:
        """`is_alone`: whether the mode is *mine*. `owner`: the account under which the head
        runs.
        """
        self._state_store = state_store
        self.is_alone = is_alone
        self._owner = owner
        self._given: dict[str, Role] = {}

    def of(self, principal: Principal) -> Role:
        """Return the role of an account."""
        if self.is_alone or principal.is_owner or principal.name == SUPERUSER:
            return Role.ADMIN
        return self._given.get(principal.user, Role.USER)

    def of_owner(self, user: str) -> Role:
        """Return the role of a job's owner; `viewer` if the owner is unknown."""
        if self.is_alone or (user and user in (self._owner, SUPERUSER)):
            return Role.ADMIN
        return self._given.get(user, Role.USER if user else Role.VIEWER)

    def put(self, user: str, role: str) -> list[RoleInfo]:
        """Give a user a role; an empty role takes the user's role away. Returns all rows."""
        fault = free_fault("user", user)
        if fault is not None:
            raise JobCommandError(fault)
        if role and role not in ROLES:
            raise JobCommandError(
                f"there is no role {role!r}{nearest(role, ROLES)}; the roles are {', '.join(ROLES)}"
            )
        if role:
            self._given[user] = ROLES[role]
        else:
            self._given.pop(user, None)
        row = RoleInfo(user=user, role=role) if role else None
        self._state_store.keep(TABLE, user.encode(), row)
        return self.rows()

    def rows(self) -> list[RoleInfo]:
        """Return the users who were given a role, by name."""
        return [RoleInfo(user=name, role=self._given[name].word) for name in sorted(self._given)]

    def restore(self, rows: Iterable[RoleInfo]) -> None:
        """Restore stored roles."""
        self._given = {row.user: ROLES[row.role] for row in rows if row.role in ROLES}
