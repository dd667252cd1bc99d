"""The principal at the other end of a Unix socket, as the kernel reports it.

The kernel notes the process and the account that open a connection (SO_PEERCRED, unix(7)). A
process that descends from a member of a job acts as that job, whatever it claims to be: the node
writes the job's name into the environment of the member's first process, and each process is traced
back through its parents.
"""

from __future__ import annotations

import contextlib
import functools
import grp
import os
import pwd
import socket
from collections.abc import Iterator
from typing import NamedTuple

from phalanx.model.principals import JOB, UNIX, Principal
from phalanx.runtime.os.own_time import own_time
from phalanx.runtime.os.peer_user import peer_of

_DEPTH = 100
"""The largest number of a process's ancestors that are looked at."""
_KNOWN_S = 60.0
"""Seconds for which the name and the groups of an account are remembered. Directories of accounts
on other machines answer slowly.
"""
_MOST_KNOWN = 1_000
_accounts: dict[int, tuple[float, Account]] = {}


class Account(NamedTuple):
    """The name of an account, and its groups. If the machine knows no name, the name is the
    account's number.
    """

    name: str
    groups: tuple[str, ...]


def principal_of(sock: socket.socket) -> Principal:
    """Return the account at the other end of a Unix socket, or the job to which the process there
    belongs.
    """
    peer = peer_of(sock)
    is_owner = peer.uid == os.getuid()
    if is_owner and (job := job_of(peer.pid)):
        return Principal(JOB, job, is_owner=True)
    name, groups = account_of(peer.uid)
    return Principal(UNIX, name, name, groups, is_owner)


def own_principal() -> Principal:
    """Return the account of this process."""
    name, groups = account_of(os.getuid())
    return Principal(UNIX, name, name, groups, is_owner=True)


def account_of(uid: int) -> Account:
    """Return an account by its number."""
    now = own_time()
    known = _accounts.get(uid)
    if known is not None and now < known[0]:
        return known[1]
    if len(_accounts) >= _MOST_KNOWN:
        _accounts.clear()
    try:
        found = pwd.getpwuid(uid)
    except (KeyError, OSError):
        account = Account(str(uid), ())
    else:
        account = Account(found.pw_name, groups_of(found.pw_name))
    _accounts[uid] = (now + _KNOWN_S, account)
    return account


def groups_of(user: str) -> tuple[str, ...]:
    """Return the groups of an account by its name; none if the machine does not know the name."""
    found: list[str] = []
    with contextlib.suppress(KeyError, OSError):
        for gid in os.getgrouplist(user, pwd.getpwnam(user).pw_gid):
            with contextlib.suppress(KeyError, OSError):
                found.append(grp.getgrgid(gid).gr_name)
    return tuple(found)


def job_of(pid: int) -> str:
    """Return the full name of the job to whose members a process belongs; "" if it belongs to none.

    The uppermost ancestor with a member's environment decides, because the job's own program can
    give its descendants any environment. Ancestors of this process are not members of its cluster,
    because the cluster may itself run inside a job of another cluster.
    """
    found = ""
    for one in _upwards(pid):
        if one in _above_this():
            break
        found = _member_environment(one) or found
    return found


@functools.cache
def _above_this() -> frozenset[int]:
    """Return this process and its ancestors."""
    return frozenset(_upwards(os.getpid()))


def _upwards(pid: int) -> Iterator[int]:
    for _ in range(_DEPTH):
        if pid <= 1:
            return
        yield pid
        pid = _parent(pid)


def _member_environment(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            text = file.read()
    except OSError:  # the process has ended, or belongs to another account
        return ""
    if b"PHALANX_ATTEMPT=" not in text:
        return ""
    variables = dict(one.split(b"=", 1) for one in text.split(b"\0") if one.startswith(b"PHALANX_"))
    names = [variables.get(key, b"") for key in (b"PHALANX_NAMESPACE", b"PHALANX_JOB")]
    is_member = all(names) and b"PHALANX_ATTEMPT" in variables
    return b"/".join(names).decode("utf-8", "replace") if is_member else ""


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
