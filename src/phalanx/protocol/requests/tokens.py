"""Requests to the head about the tokens of people and robots."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.rights import Verb
from phalanx.model.rows.tokens import TokenInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class CreateToken(Request[TokenInfo]):
    """Create a token. The asker has made the secret; the head gets only its SHA-256. `id`: 16
    hexadecimal digits. `expires`: seconds since the epoch. Raises JobCommandError for a name that
    is taken, and for invalid values.
    """

    kind: ClassVar[int] = 17
    verb: ClassVar[Verb] = Verb.ADMINISTER
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str
    id: str
    secret_hash: bytes
    role: str = "user"
    queues: list[str] | None = None
    expires: float | None = None


class RotateToken(Request[TokenInfo]):
    """Give a token a new secret; the previous secret stays valid until the next rotation.

    Raises JobCommandError for an unknown token.
    """

    kind: ClassVar[int] = 18
    verb: ClassVar[Verb] = Verb.ADMINISTER
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str
    secret_hash: bytes


class RevokeToken(Request[None]):
    """Delete a token, and end its connections. Raises JobCommandError for an unknown token."""

    kind: ClassVar[int] = 19
    verb: ClassVar[Verb] = Verb.ADMINISTER
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    name: str


class ListTokens(Request[list[TokenInfo]]):
    """Return all tokens by name, without their secrets."""

    kind: ClassVar[int] = 56
    verb: ClassVar[Verb] = Verb.ADMINISTER
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY
