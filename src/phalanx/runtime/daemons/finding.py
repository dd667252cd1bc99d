"""Finds the clusters of this user that run on this machine, and sends requests to one of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TypeVar

from phalanx.protocol.requests.request import Request
from phalanx.runtime.daemons import logins
from phalanx.runtime.daemons.daemon_files import (
    OF_CLIENT,
    OF_PROGRAM,
    OF_SOCKET,
    REMOTE,
    STANDBY,
    Announcement,
)
from phalanx.runtime.daemons.local import local_daemons, numeric_addresses
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.session import Session

R = TypeVar("R")
ANSWER_S = 10.0
Found = list[tuple[Session, Announcement]]


class NoClusterError(ConnectionError):
    """Raised if no process of the wanted cluster runs on this machine."""


def find_daemons(address: str | None, with_programs: bool = False) -> Found:
    """Return the head and the nodes of a cluster that run here, in the order in which to ask them.

    If `address` is empty, the cluster is, in this order: the one that PHALANX_ADDRESS names, that
    of the current login, or the only cluster on this machine. An address without a port is the name
    of a login; "local" ignores the current login. `with_programs`: if no cluster runs
    here, return the only program that has started a session for itself (its address is `pid:PID`).
    Raises NoClusterError if there is none, ValueError if there are several or if the address is
    malformed, and ConnectionError for a host name without an address.
    """
    address = address or os.environ.get("PHALANX_ADDRESS") or None
    if address is not None and address.startswith(OF_PROGRAM):
        return program_of(address)
    if address is not None and address.startswith(OF_SOCKET):
        return _shared(address)
    address = None if address is None else address.removeprefix(OF_CLIENT)
    if (login := logins.chosen(address)) is not None:
        return [remote_head(login.address, login.name)]
    is_any = address in (None, "auto", "local")
    wanted: tuple[str | None, ...] = (None,) if is_any else numeric_addresses(str(address))
    here = first_found(local_daemons, wanted)
    found = [(session, one) for session, one in here if one.kind != STANDBY]
    if not found and with_programs and is_any:
        found = programs()
    if not found:
        found = first_found(_of_others, wanted)
    if not found and not is_any and (login := logins.read().at(str(address))) is not None:
        found = [remote_head(login.address, login.name)]
    if not found:
        if here:
            raise NoClusterError(_only_standby(here[0][1]))
        of = "" if is_any else f" of the cluster at {address}"
        raise NoClusterError(
            f"No head and no node{of} runs on this machine under this user. `phalanx start --head` "
            "starts a cluster, `phalanx start --address HOST:PORT` joins one."
        )
    clusters = sorted({one.address for _, one in found})
    _, first = found[0]
    if len(clusters) > 1 and not set(clusters) <= {first.address, *first.standbys}:
        what = "Programs" if clusters[0].startswith(OF_PROGRAM) else "Nodes"
        raise ValueError(
            f"{what} of {len(clusters)} clusters run here: choose one with --address, one of "
            f"{', '.join(clusters)}."
        )
    return found


def first_found(find: Callable[[str | None], Found], addresses: Iterable[str | None]) -> Found:
    """Return the daemons at the first of these addresses that has any."""
    return next(filter(None, map(find, addresses)), [])


def _only_standby(one: Announcement) -> str:
    others = " or ".join(one.standbys)
    return (
        f"Only a standby runs here, at {one.address}: the head is at {others}. Run the command "
        "there, or on a machine with a node of the cluster."
    )


def _of_others(address: str | None) -> Found:
    """Return the heads of other users on this machine. If there is none, but an address is given
    and this user's file has a personal token, return the remote head at the address.
    """
    # Imported here because most commands ask a daemon of their own user.
    from phalanx.runtime.daemons.personal_token import own_token
    from phalanx.runtime.daemons.shared_sockets import shared_heads

    found = shared_heads(address)
    if not found and address is not None and own_token() is not None:
        found = [remote_head(address)]
    return found


def remote_head(address: str, login: str = "") -> tuple[Session, Announcement]:
    """Return a head on any machine, which is reached with the token of a login or, without a login,
    with this user's token.
    """
    session = Session(name="", directory="", shared="", spill="", disk="")
    head = Announcement(kind=REMOTE, pid=0, started="", address=address, token_file="", name=login)
    return session, head


def _shared(address: str) -> Found:
    """Return the head at this address, `unix:DIRECTORY`. The head may belong to any user. Raises
    NoClusterError if there is none.
    """
    from phalanx.runtime.daemons.shared_sockets import shared_heads

    try:
        found = shared_heads(address)
    except PermissionError as error:
        raise NoClusterError(f"{error}.") from None
    if not found:
        raise NoClusterError(
            f"No head runs at {address}: `phalanx start --head --shared` prints the address."
        )
    return found


def programs(temp_dir: str | None = None) -> Found:
    """Return the programs of this user that have started a session of their own."""
    found = []
    root = sessions.runtime_root(temp_dir)
    for name in sorted(os.listdir(root)):
        directory = os.path.join(root, name)
        try:
            session, pid = sessions.read_session(directory), sessions.owner_of(directory)
        except (OSError, ValueError, KeyError, TypeError):
            continue
        is_daemon = os.path.exists(os.path.join(directory, "daemon"))
        if pid is None or is_daemon or not os.path.exists(session.socket_of(b"node")):
            continue
        address = f"{OF_PROGRAM}{pid}"
        started = sessions.started_at(pid) or ""
        one = Announcement(
            kind="node", pid=pid, started=started, address=address, token_file="", is_private=True
        )
        found.append((session, one))
    return found


def program_of(address: str, temp_dir: str | None = None) -> Found:
    """Return the program with the address `pid:PID`. Raises NoClusterError if there is none."""
    found = [(session, one) for session, one in programs(temp_dir) if one.address == address]
    if not found:
        raise NoClusterError(
            f"{address} is no process of this user on this machine that has started a session of "
            "its own with phalanx.init()."
        )
    return found


def ask_cluster(address: str | None, request: Request[R], timeout_s: float) -> R:
    """Return a cluster's answer, through a daemon of the cluster on this machine.

    Raises the errors of `find_daemons`, ConnectionError if no daemon answers, TimeoutError, and any
    error with which the head answers.
    """
    # Imported here because callers that only look for daemons send nothing, for example a driver
    # before it starts its node.
    from phalanx.runtime.daemons.visitor import ask_daemon

    troubles = []
    for session, daemon in find_daemons(address, with_programs=True):
        try:
            return ask_daemon(session, daemon, request, timeout_s)
        except ConnectionError as error:
            troubles.append(str(error))
    raise ConnectionError(f"The head does not answer: {'; '.join(troubles)}.")


class HeadHere:
    """A cluster's head, which is reached through a daemon of the cluster on this machine."""

    def __init__(self, address: str) -> None:
        """`address`: HOST:PORT of the head, or `pid:PID` of a program with its own session."""
        self.address = address

    def ask(self, request: Request[R]) -> R:
        """Return the head's answer; see `ask_cluster`."""
        return ask_cluster(self.address, request, ANSWER_S)

    def is_here(self) -> bool:
        """Whether the head or one of its nodes runs on this machine."""
        try:
            return bool(find_daemons(self.address))
        except ConnectionError:
            return False
