"""The daemons of clusters that run on this machine, and the addresses of their heads."""

from __future__ import annotations

import os

from phalanx.runtime.daemon_registry import registered
from phalanx.runtime.daemons.daemon_files import Announcement, daemons
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.session import Session


def split_address(text: str) -> tuple[str, int]:
    """Return (host, port) of HOST:PORT. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is no address: give HOST:PORT, such as 10.0.0.1:6380.")
    return host.strip("[]"), int(port)


def numeric_address(text: str) -> str:
    """Return HOST:PORT with the host's name resolved, as daemons write it.

    Raises ValueError for a malformed address, and ConnectionError for a name without an address.
    """
    import socket  # slow to import, and most commands have no address

    host, port = split_address(text)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        raise ConnectionError(f"the host {host} has no address: {error.strerror}.") from None
    return f"{found}:{port}"


def numeric_addresses(text: str) -> tuple[str, ...]:
    """Return the addresses in `text`, each with its host's name resolved. In `text`, commas
    separate the address of a head from those of its standbys. Raises as `numeric_address` does.
    """
    return tuple(dict.fromkeys(numeric_address(one.strip()) for one in text.split(",")))


def local_nodes(
    address: str | None = None, temp_dir: str | None = None
) -> list[tuple[Session, Announcement]]:
    """Return this user's nodes on this machine: those of one cluster or, without an address, those
    of all clusters that are not private.

    The oldest comes first: on the head's machine, this is the node that was started with the head.
    """
    here = local_daemons(address, temp_dir)
    return [(session, one) for session, one in here if one.kind == "node"]


def local_daemons(
    address: str | None = None, temp_dir: str | None = None
) -> list[tuple[Session, Announcement]]:
    """Return this user's daemons on this machine: those of one cluster or, without an address,
    those of all clusters that are not private.

    Heads come before nodes, and older daemons before later ones. Usually these are the daemons of
    the runtime directory. If it has none, or if an address is given, all other directories are
    searched, too, because cron and system services have no runtime directory.
    """
    root = sessions.runtime_root(temp_dir)
    if temp_dir is None and address is not None:
        root = _linked_root(root, address) or root
    found = [(session, one) for session, one in daemons(root) if _is_meant(one, address)]
    if temp_dir is None:
        is_everywhere = address is not None or not (found or sessions.is_chosen())
        known = {one.pid for _, one in found}
        found += [
            (one.session, one.daemon)
            for one in registered()
            if (is_everywhere or one.root == root)
            and one.daemon.pid not in known
            and _is_meant(one.daemon, address)
        ]
    found.reverse()
    found.sort(key=lambda one: one[1].kind != "head")
    return found


def link_of(root: str, address: str) -> str:
    """Return the path of the link to the sessions of the cluster at this address. The link may not
    exist.
    """
    return os.path.join(root, f"cluster-{address}")


def _linked_root(root: str, address: str) -> str | None:
    link = link_of(root, address)
    return os.path.realpath(link) if os.path.isdir(link) else None


def _is_meant(one: Announcement, address: str | None) -> bool:
    if address is None:
        return not one.is_private
    return address == one.address or address in one.standbys
