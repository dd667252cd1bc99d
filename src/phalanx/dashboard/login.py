"""The sign-in to the page: one-time codes, and the sessions that they open.

This module is pure: callers pass `now`, in seconds of the machine's monotonic clock.

All users of a machine can reach 127.0.0.1, so a viewer must prove to be the cluster's user. The
user's command makes a code from a secret in a file of mode 0600. The code works once, within a
minute. The code is in the fragment of an address, because browsers send no fragments to servers.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

CODE_S = 60.0
"""Seconds for which a code is valid."""
SESSION_S = 12 * 3600.0
"""Seconds after which a session ends."""
MAX_SESSIONS = 1_000
"""The most open sessions. A further session ends the oldest."""
_NONCE = 16
_TIME = 8
_PROOF = 16


def make_code(secret: bytes, now: float) -> str:
    """Return a code that works once, within `CODE_S` seconds from `now`."""
    said = int(now * 1000).to_bytes(_TIME, "big") + secrets.token_bytes(_NONCE)
    return base64.urlsafe_b64encode(said + _proof(secret, said)).decode().rstrip("=")


def _proof(secret: bytes, said: bytes) -> bytes:
    return hmac.new(secret, b"phalanx dashboard code" + said, hashlib.sha256).digest()[:_PROOF]


class Login:
    """The used codes and the open sessions.

    Wrong codes do not block later codes. Otherwise any user of the machine could lock out the
    cluster's user. No limit on attempts is needed, because nobody can guess 128 bits.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._used: dict[bytes, float] = {}
        self._sessions: dict[bytes, float] = {}

    def redeem(self, code: str, now: float) -> str | None:
        """Open a session for a valid code. Returns the session; None for any other code."""
        said = self._checked(code, now)
        if said is None:
            return None
        self._used = {one: at for one, at in self._used.items() if now - at < CODE_S}
        self._used[said] = now
        session = secrets.token_urlsafe(32)
        self._sessions = {one: end for one, end in self._sessions.items() if end > now}
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[min(self._sessions, key=lambda one: self._sessions[one])]
        self._sessions[_hashed(session)] = now + SESSION_S
        return session

    def _checked(self, code: str, now: float) -> bytes | None:
        try:
            whole = base64.urlsafe_b64decode(code + "=" * (-len(code) % 4))
        except ValueError:
            return None
        said, proof = whole[:-_PROOF], whole[-_PROOF:]
        if len(said) != _TIME + _NONCE or not hmac.compare_digest(
            proof, _proof(self._secret, said)
        ):
            return None
        made = int.from_bytes(said[:_TIME], "big") / 1000
        if not -1.0 < now - made < CODE_S or said in self._used:
            return None
        return said

    def is_open(self, session: str | None, now: float) -> bool:
        """Whether this session exists and has not ended."""
        return session is not None and self._sessions.get(_hashed(session), 0.0) > now

    def close(self, session: str | None) -> None:
        """End a session."""
        if session is not None:
            self._sessions.pop(_hashed(session), None)


def _hashed(session: str) -> bytes:
    """Return the hash under which a session is stored. Nobody can use the session with the hash
    alone.
    """
    return hashlib.sha256(session.encode()).digest()
