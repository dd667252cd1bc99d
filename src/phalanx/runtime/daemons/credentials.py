"""The token and the trusted certificate with which this user reaches a head on another machine."""

from __future__ import annotations

from phalanx.errors import AuthenticationError
from phalanx.runtime.daemons import logins
from phalanx.runtime.daemons.daemon_files import Announcement
from phalanx.runtime.daemons.personal_token import PersonalToken, own_token
from phalanx.runtime.daemons.trust import Trust


def credentials_of(daemon: Announcement) -> tuple[PersonalToken, Trust]:
    """Return the token for a remote head, and the certificate that the head must show.

    Both come from the login that the announcement names. Without a login, the token is that of this
    user. Raises AuthenticationError if there is no token.
    """
    if daemon.name:
        login = logins.read().named(daemon.name)
        if login is None:
            raise AuthenticationError(f"there is no login {daemon.name!r} any more: phalanx login")
        return login.secret, login.trust
    token = own_token()
    if token is None:
        raise AuthenticationError(f"there is no token for the head at {daemon.address}")
    return token, Trust()
