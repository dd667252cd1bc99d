"""The cluster's tokens in their file. The file is read again after it has changed."""

from __future__ import annotations

import os
from typing import Protocol

from phalanx.errors import AuthenticationError
from phalanx.runtime.daemons import cluster_token

_BYTES = 32


class Tokens(Protocol):
    """The tokens by which gateways recognize each other."""

    @property
    def path(self) -> str:
        """The file from which the tokens come."""
        ...

    def own(self) -> bytes:
        """Return the token that this gateway presents to others."""
        ...

    def accepted(self) -> list[bytes]:
        """Return the tokens that others may present."""
        ...


class TokenOfNobody:
    """A token that nobody else has, for a node that presents a key of its own."""

    def __init__(self, path: str) -> None:
        """`path`: the file with the node's key."""
        self.path = path
        self._token = os.urandom(_BYTES)

    def own(self) -> bytes:
        """Return the token."""
        return self._token

    def accepted(self) -> list[bytes]:
        """Return only this token, because no other token is accepted."""
        return [self._token]


class OneToken:
    """The token of another cluster, which a gateway only presents."""

    def __init__(self, text: str) -> None:
        """Raises AuthenticationError if `text` is no token."""
        self.path = "the token of a job's own cluster"
        self._token = cluster_token.secret_bytes(text)

    def own(self) -> bytes:
        """Return the token."""
        return self._token

    def accepted(self) -> list[bytes]:
        """Return no token, because nobody dials this gateway with this token."""
        return []


class TokenFile:
    """The tokens that a gateway presents and accepts now.

    The file is read again, so a rotation of tokens needs no restart. While the file cannot be read,
    the last tokens stay valid.
    """

    def __init__(self, path: str) -> None:
        """Raises AuthenticationError for a file without a token; see `cluster_token.read`."""
        self.path = path
        self._seen = self._state()
        self._tokens = cluster_token.read_all(path)

    def own(self) -> bytes:
        """Return the token that this gateway presents to others."""
        return self.accepted()[0]

    def accepted(self) -> list[bytes]:
        """Return the tokens that others may present."""
        state = self._state()
        if state != self._seen:
            try:
                self._tokens = cluster_token.read_all(self.path)
            except AuthenticationError:
                return self._tokens  # it is read again at the next check
            self._seen = state
        return self._tokens

    def _state(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self.path)
        except OSError:
            return 0, 0, 0
        return found.st_ino, found.st_mtime_ns, found.st_size
