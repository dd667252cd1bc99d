"""The head's key. By its signatures, phalanx-launch knows under which account the head lets work
run.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import pwd
import secrets
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from phalanx.model.ids import GangId, JobId
from phalanx.protocol.bundle_messages import Grant
from phalanx.runtime.os.below import open_below

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

VALID_S = 120
"""Seconds within which a node must use a grant."""
LEAST_UID = 1000
"""The lowest user id of an account under which work may run. Lower ids belong to accounts of the
machine.
"""
_KEY, _PUBLIC = "launch.key", "launch.pub"
_VERSION = 1


class SignedGrants:
    """Signs that a member may run under the account of its owner: one time, on one node, and within
    VALID_S seconds.
    """

    def __init__(self, directory: str, clock: Callable[[], float] = time.time) -> None:
        """`directory` contains the key, which the first head makes. Raises OSError, ValueError, and
        ModuleNotFoundError without `cryptography`.
        """
        self._key = _key_in(directory)
        self._clock = clock

    def grant(
        self, user: str, job: JobId, attempt: int, node: str, devices: Sequence[int]
    ) -> Grant:
        """Return a grant. If this work may not run as the user, the grant has no signature, and its
        `refusal` gives the reason.
        """
        try:
            uid = pwd.getpwnam(user).pw_uid
        except (KeyError, ValueError):
            why = f"the head's machine has no account {user}, as which this job would run"
            return Grant(user, 0, refusal=why)
        if uid < LEAST_UID:
            why = f"no job runs as {user}, an account of the machine itself (number {uid})"
            return Grant(user, uid, refusal=why)
        fields = {
            "v": _VERSION,
            "user": user,
            "uid": uid,
            "job": job,
            "attempt": attempt,
            "node": node,
            "devices": list(devices),
            "expires": int(self._clock()) + VALID_S,
            "nonce": secrets.token_hex(16),
        }
        body = json.dumps(fields, separators=(",", ":")).encode()
        return Grant(user, uid, self._key.sign(body) + body)

    def secret(self, user: str, job: JobId, gang: GangId) -> str:
        """Return the secret of a gang, in the form of a cluster's token. The secret is the digest
        of the head's signature over the gang's names, so the head can compute it again and need not
        store it. The signed bytes are not a grant, and the signature never leaves the head.
        """
        about = json.dumps(["secret of a gang", user, job, gang.hex()]).encode()
        digest = hashlib.sha256(self._key.sign(about)).digest()
        return "phx_" + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def public_path(directory: str) -> str:
    """Return the path of the file with the public key. Root copies this file to each node."""
    return os.path.join(directory, _PUBLIC)


def _key_in(directory: str) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    os.makedirs(directory, mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        fd = open_below(directory, _KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with open(fd, "wb") as file:
            file.write(Ed25519PrivateKey.generate().private_bytes_raw())
    with open(open_below(directory, _KEY, os.O_RDONLY), "rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(f"{os.path.join(directory, _KEY)} is open to other users")
        key = Ed25519PrivateKey.from_private_bytes(file.read(100))
    public = public_path(directory)
    with open(f"{public}.new", "w") as text:
        text.write(key.public_key().public_bytes_raw().hex() + "\n")
    os.replace(f"{public}.new", public)
    return key
