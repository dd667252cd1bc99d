"""Who may see the page: one-time codes, and the sessions that they open. Pure: callers pass `now`,
in seconds of the machine's monotonic clock.

On a machine that people share, everybody reaches 127.0.0.1: whoever opens the page has to show
that the cluster's user let him. That user's command makes a code from a secret in a file of his
(mode 0600); the code is good once, for a minute, and travels in the fragment of an address, which
browsers send to nobody.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

CODE_S = 60.0
SESSION_S = 12 * 3600.0
MAX_SESSIONS = 1_000
_NONCE = 16
_TIME = 8
_PROOF = 16


def make_code(secret: bytes, now: float) -> str:
    """A code that is good once within `CODE_S` from `now`."""
    said = int(now * 1000).to_bytes(_TIME, "big") + secrets.token_bytes(_NONCE)
    return base64.urlsafe_b64encode(said + _proof(secret, said)).decode().rstrip("=")


def _proof(secret: bytes, said: bytes) -> bytes:
    return hmac.new(secret, b"phalanx dashboard code" + said, hashlib.sha256).digest()[:_PROOF]


class Login:
    """The codes that were used, and the sessions that are open.

    Wrong codes are not counted against the right one: everybody on the machine could then keep the
    cluster's user out, and nobody guesses a proof of 128 bits.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._used: dict[bytes, float] = {}
        self._sessions: dict[bytes, float] = {}

    def redeem(self, code: str, now: float) -> str | None:
        """A new session for a good code; None for any other."""
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
        """Whether this is a session that has not ended."""
        return session is not None and self._sessions.get(_hashed(session), 0.0) > now

    def close(self, session: str | None) -> None:
        """End a session."""
        if session is not None:
            self._sessions.pop(_hashed(session), None)


def _hashed(session: str) -> bytes:
    """What is kept of a session, so that nothing that is kept opens one."""
    return hashlib.sha256(session.encode()).digest()
