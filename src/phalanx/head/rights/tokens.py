"""The tokens of people and robots: names, roles, queues and the hashes of their secrets.

A secret is made where the token is created, and is never sent to the head. After a rotation, a
token has two valid secrets: the new one and the previous one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from phalanx.errors import AuthenticationError, JobCommandError
from phalanx.head.state_store import StateStore
from phalanx.manifests.names import free_fault
from phalanx.model.nearest import nearest
from phalanx.model.principals import ROLES, TOKEN, Principal, Role
from phalanx.model.rows.tokens import TokenInfo

TABLE = "tokens"
SECRETS = 2
"""The number of secrets of a token that are valid at the same time."""
USED_EVERY_S = 60.0
"""The shortest time, in seconds, between two records of a token's last use."""
_ID = re.compile(r"[0-9a-f]{16}")
_HASH_BYTES = 32
MOST = 10_000
NODE_ROLE = "node"
"""The role of a token that is the key of a node. The token has the name of the node."""

Hashes = dict[str, list[bytes]]
"""The hashes of each token's secrets, by the token's id."""


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A token, as stored. Times are in seconds since the epoch."""

    id: str
    name: str
    role: str
    queues: tuple[str, ...] | None = None
    created: float = 0.0
    expires: float | None = None
    last_used: float = 0.0
    hashes: tuple[bytes, ...] = ()
    """The SHA-256 of each secret, newest first."""


class Tokens:
    """All tokens, by name."""

    def __init__(
        self,
        state_store: StateStore,
        wall: Callable[[], float],
        changed: Callable[[Hashes], None],
    ) -> None:
        """`changed` tells the gateway which tokens are known, and closes the connections of tokens
        that were revoked or have expired.
        """
        self._state_store = state_store
        self._wall = wall
        self._changed = changed
        self._rows: dict[str, TokenRow] = {}
        self._names: dict[str, str] = {}
        """The names of tokens by their ids."""
        self._expiring: set[str] = set()
        """The ids of tokens that expire, and had not expired when `tick` last looked."""

    def restore(self, rows: Iterable[TokenRow]) -> None:
        """Restore stored tokens."""
        for row in rows:
            self._rows[row.name] = row
            self._names[row.id] = row.name
        self._expiring = {row.id for row in self._rows.values() if row.expires is not None}

    def tick(self, now: float) -> None:
        """Close the connections of tokens that have just expired. A token expires at a wall-clock
        time, so the time `now` of the steady clock is not used.
        """
        if ended := self._expiring.intersection(self.expired()):
            self._expiring -= ended
            self._changed(self.hashes())

    def expired(self) -> list[str]:
        """Return the ids of the tokens that have expired. Their holders may still connect, but each
        of their requests is refused with the reason that the token has expired.
        """
        now, rows = self._wall(), self._rows.values()
        return [row.id for row in rows if row.expires is not None and now >= row.expires]

    def hashes(self) -> Hashes:
        """Return the hashes of all tokens by their ids."""
        return {row.id: list(row.hashes) for row in self._rows.values()}

    def id_of(self, name: str) -> str:
        """Return the id of the token with this name. Raises AuthenticationError if it was
        revoked.
        """
        row = self._rows.get(name)
        if row is None:
            raise AuthenticationError(f"the token {name} was revoked")
        return row.id

    def node_ids(self) -> list[str]:
        """Return the ids of the tokens that are keys of nodes."""
        return [row.id for row in self._rows.values() if row.role == NODE_ROLE]

    def node_of(self, token_id: str) -> str | None:
        """Record a use of a node's key. Returns the name of the node; None if the key is no longer
        valid.
        """
        row = self._rows.get(self._names.get(token_id, ""))
        if row is None or row.role != NODE_ROLE:
            return None
        now = self._wall()
        if row.expires is not None and now >= row.expires:
            return None
        if now >= row.last_used + USED_EVERY_S:
            self._put(msgspec.structs.replace(row, last_used=now))
        return row.name

    def has_node_key(self, name: str) -> bool:
        """Whether the node with this name has a key."""
        row = self._rows.get(name)
        return row is not None and row.role == NODE_ROLE

    # ---- askers ------------------------------------------------------------------------------

    def principal(self, token_id: str) -> Principal:
        """Return the principal of a token that a gateway has checked. The principal's user has the
        token's name.

        Raises AuthenticationError for a token that was revoked.
        """
        name = self._names.get(token_id)
        if name is None:
            raise AuthenticationError("the token was revoked")
        return Principal(TOKEN, name, name)

    def rights(self, principal: Principal) -> tuple[Role, tuple[str, ...] | None]:
        """Return a token's role and queues, and record its use. Raises AuthenticationError if the
        token has expired or was revoked.
        """
        row = self._rows.get(principal.name)
        if row is None:
            raise AuthenticationError(f"the token {principal.name} was revoked")
        if row.role == NODE_ROLE:
            raise AuthenticationError(
                f"{principal.name} is the key of a node, which cannot be used for requests"
            )
        now = self._wall()
        if row.expires is not None and now >= row.expires:
            raise AuthenticationError(f"the token {principal.name} has expired")
        if now >= row.last_used + USED_EVERY_S:
            self._put(msgspec.structs.replace(row, last_used=now))
        return ROLES.get(row.role, Role.VIEWER), row.queues

    # ---- changes -----------------------------------------------------------------------------

    def create(
        self,
        name: str,
        token_id: str,
        secret_hash: bytes,
        role: str,
        queues: tuple[str, ...] | None,
        expires: float | None,
        is_again: bool = False,
    ) -> TokenInfo:
        """Create a token. Raises JobCommandError if the name is taken, and for invalid values."""
        known = self._rows.get(name)
        if known is not None and is_again and known.id == token_id:
            return self._info(known)
        if known is not None:
            raise JobCommandError(f"there is a token {name!r} already: rotate or revoke it")
        if not name or free_fault("token", name) is not None or set(name) & set("@:, *"):
            raise JobCommandError(
                f"{name[:100]!r} is not a token's name: spaces, '@', ':' and '*' are not allowed"
            )
        roles = (*ROLES, NODE_ROLE)
        if role not in roles:
            raise JobCommandError(
                f"there is no role {role[:100]!r}{nearest(role, roles)}; the roles are "
                f"{', '.join(roles)}"
            )
        if role == NODE_ROLE and queues is not None:
            raise JobCommandError("the key of a node has no queues: it submits nothing")
        if not _ID.fullmatch(token_id) or token_id in self._names:
            raise JobCommandError(
                "a token's id must be 16 hexadecimal digits that no other token has"
            )
        if len(self._rows) >= MOST:
            raise JobCommandError(f"there are {MOST:,} tokens: revoke some first")
        now = self._wall()
        if expires is not None and not now < expires < float("inf"):
            raise JobCommandError("the time at which a token expires must be in the future")
        row = TokenRow(
            id=token_id,
            name=name,
            role=role,
            queues=queues,
            created=now,
            expires=expires,
            hashes=(_hash(secret_hash),),
        )
        self._names[token_id] = name
        if expires is not None:
            self._expiring.add(token_id)
        self._put(row)
        self._changed(self.hashes())
        return self._info(row)

    def rotate(self, name: str, secret_hash: bytes) -> TokenInfo:
        """Give a token a new secret. The previous secret stays valid until the next rotation."""
        row, new = self._need(name), _hash(secret_hash)
        if row.hashes[0] != new:
            row = msgspec.structs.replace(row, hashes=(new, *row.hashes)[:SECRETS])
            self._put(row)
            self._changed(self.hashes())
        return self._info(row)

    def revoke(self, name: str, is_again: bool = False) -> None:
        """Forget a token, and close the connections that use it."""
        if is_again and name not in self._rows:
            return
        row = self._need(name)
        del self._rows[name], self._names[row.id]
        self._expiring.discard(row.id)
        self._state_store.keep(TABLE, name.encode(), None)
        self._changed(self.hashes())

    def rows(self) -> list[TokenInfo]:
        """Return rows of all tokens by name, without their secrets."""
        return [self._info(self._rows[name]) for name in sorted(self._rows)]

    def _need(self, name: str) -> TokenRow:
        row = self._rows.get(name)
        if row is None:
            raise JobCommandError(f"there is no token {name[:100]!r}{nearest(name, self._rows)}")
        return row

    def _put(self, row: TokenRow) -> None:
        self._rows[row.name] = row
        self._state_store.keep(TABLE, row.name.encode(), row)

    def _info(self, row: TokenRow) -> TokenInfo:
        return TokenInfo(
            name=row.name,
            id=row.id,
            role=row.role,
            queues=None if row.queues is None else list(row.queues),
            created=row.created,
            expires=row.expires,
            last_used=row.last_used,
            secrets=len(row.hashes),
        )


def decode_rows(rows: Iterable[bytes]) -> list[TokenRow]:
    """Return the tokens that these stored rows encode."""
    return [msgspec.msgpack.decode(row, type=TokenRow) for row in rows]


def _hash(secret_hash: bytes) -> bytes:
    if len(secret_hash) != _HASH_BYTES:
        raise JobCommandError(f"the hash of a secret has {_HASH_BYTES} bytes")
    return secret_hash
