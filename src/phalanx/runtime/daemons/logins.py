"""The logins of this user: heads on other machines, each with its address, a token and the
certificate that the head must show.

They are in one file of mode 0600, which `phalanx login` writes below the user's configuration
directory. One login is the current one.
"""

from __future__ import annotations

import os

import msgspec

from phalanx.errors import AuthenticationError
from phalanx.runtime.daemons.personal_token import PersonalToken, parse
from phalanx.runtime.daemons.trust import Trust
from phalanx.runtime.os.private_files import NotPrivateError, read_private, write_draft

JOB = "PHALANX_JOB"
"""The variable that every command of a job has. Such a command belongs to the cluster that runs it,
whatever cluster its user has logged in to.
"""
_MAX_BYTES = 1 << 20


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """One login."""

    name: str
    address: str
    """HOST:PORT of the head."""
    token: str
    fingerprint: str = ""
    """The SHA-256 of the head's certificate, in hex; "" without TLS, or if `ca` decides."""
    ca: str = ""
    """The file of the authorities that may have signed the head's certificate."""

    def __repr__(self) -> str:
        return f"Login({self.name} at {self.address})"  # without the token

    @property
    def secret(self) -> PersonalToken:
        """The token. Raises AuthenticationError if somebody has damaged it."""
        found = parse(self.token)
        if found is None:
            raise AuthenticationError(
                f"the login {self.name} has no token: log in again, with phalanx login "
                f"{self.address} --name {self.name}"
            )
        return found

    @property
    def trust(self) -> Trust:
        """The certificate that the head must show."""
        return Trust(self.fingerprint, self.ca)


class Logins(msgspec.Struct, frozen=True, kw_only=True):
    """All logins of this user."""

    current: str = ""
    """The name of the login that is used if no address is given; "" for none."""
    logins: tuple[Login, ...] = ()

    def named(self, name: str) -> Login | None:
        """Return the login with this name, if there is one."""
        return next((one for one in self.logins if one.name == name), None)

    def at(self, address: str) -> Login | None:
        """Return a login at this address, the current login first; None if no login has this
        address.
        """
        there = [one for one in self.logins if one.address == address]
        there.sort(key=lambda one: one.name != self.current)
        return there[0] if there else None

    def adding(self, login: Login) -> Logins:
        """Return these logins and one more, which is now current. It replaces a login of the same
        name.
        """
        others = (one for one in self.logins if one.name != login.name)
        return Logins(current=login.name, logins=(*others, login))

    def without(self, name: str) -> Logins:
        """Return these logins without one of them. If that one was current, no login is current any
        more.
        """
        kept = tuple(one for one in self.logins if one.name != name)
        return Logins(current="" if self.current == name else self.current, logins=kept)


def path() -> str:
    """Return the path of the file with the logins."""
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(config, "phalanx", "logins.json")


def read() -> Logins:
    """Return the logins; none if there is no file. Raises AuthenticationError for a file that
    cannot be read, and for one that other users could read or have made.
    """
    where = path()
    try:
        text = read_private(where, _MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return Logins()
    except OSError as error:
        raise AuthenticationError(
            f"the logins in {where} cannot be read: {error.strerror}. It must be a file, not a link"
        ) from None
    except NotPrivateError as error:
        if error.mode is None:
            raise AuthenticationError(f"{where} must be a file of this user") from None
        raise AuthenticationError(
            f"{where} is open to other users (mode {error.mode:04o}): its tokens may be known, so "
            "let them be rotated; then remove the file and log in again"
        ) from None
    try:
        return msgspec.json.decode(text, type=Logins)
    except msgspec.MsgspecError as error:
        raise AuthenticationError(
            f"{where} cannot be read ({error}): remove it and log in again"
        ) from None


def save(logins: Logins) -> None:
    """Replace the file with the logins. Raises OSError."""
    where = path()
    os.makedirs(os.path.dirname(where), mode=0o700, exist_ok=True)
    draft = write_draft(where, msgspec.json.format(msgspec.json.encode(logins), indent=1) + b"\n")
    try:
        os.rename(draft, where)
    except OSError:
        os.unlink(draft)
        raise


def known_port(host: str) -> str:
    """Return the address, HOST:PORT, of a login at this host: that of the current login if several
    have this host; "" if no login has this host.
    """
    logins = read()
    there = [one for one in logins.logins if one.address.rpartition(":")[0] == host]
    there.sort(key=lambda one: one.name != logins.current)
    return there[0].address if there else ""


def chosen(address: str | None) -> Login | None:
    """Return the login for which an address stands; None if there is no such login. None and "auto"
    stand for the current login, and an address without a port stands for the login of that name.

    A command of a job has no current login.
    """
    if address in (None, "", "auto"):
        if os.environ.get(JOB) or not os.path.lexists(path()):
            return None
        logins = read()
        return logins.named(logins.current)
    if ":" in str(address) or address == "local" or not os.path.lexists(path()):
        return None
    return read().named(str(address))
