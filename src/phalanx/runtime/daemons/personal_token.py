"""The token of a person or robot: `phx_ID_SECRET`, in a file of mode 0600.

It gives the rights of its role; the cluster's token (`cluster_token`) gives those of the cluster's
owner. The file that PHALANX_TOKEN_FILE names may contain either.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
from typing import NamedTuple

from phalanx.runtime.daemons.cluster_token import default_path, read_text

_FORM = re.compile(r"phx_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_ID_BYTES, _SECRET_BYTES = 8, 32


class PersonalToken(NamedTuple):
    """A token's id and its secret of 32 bytes."""

    id: str
    secret: bytes

    @property
    def secret_hash(self) -> bytes:
        """The SHA-256 hash of the secret. The head keeps the hash, and not the secret."""
        import hashlib  # slow to import, and most commands have no such token

        return hashlib.sha256(self.secret).digest()

    def __str__(self) -> str:
        secret = base64.urlsafe_b64encode(self.secret).decode().rstrip("=")
        return f"phx_{self.id}_{secret}"


def new_token(token_id: str = "") -> PersonalToken:
    """Return a new token. With an id, return the token of this id with a new secret."""
    return PersonalToken(token_id or os.urandom(_ID_BYTES).hex(), os.urandom(_SECRET_BYTES))


def own_token() -> PersonalToken | None:
    """Return the token of this user; None if the user's file contains no token, or a cluster's
    token.

    Raises AuthenticationError for a file that others can read.
    """
    path = default_path()
    if not os.path.lexists(path):
        return None
    return parse(read_text(path))


def parse(text: str) -> PersonalToken | None:
    """Return the token that a text represents; None if the text represents no token."""
    form = _FORM.fullmatch(text.strip())
    if form is None:
        return None
    return PersonalToken(form[1], base64.urlsafe_b64decode(form[2] + "="))


def write(path: str, token: PersonalToken) -> None:
    """Write a token to a file of mode 0600, which replaces an earlier file. Raises OSError."""
    directory = os.path.dirname(os.path.abspath(path))
    os.makedirs(directory, mode=0o700, exist_ok=True)
    draft = os.path.join(directory, f".token-{os.urandom(8).hex()}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w") as file:
            file.write(f"{token}\n")
        os.rename(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
