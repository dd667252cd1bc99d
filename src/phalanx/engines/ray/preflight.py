"""What would make Ray hang or fail without a word is found before, and said."""

from __future__ import annotations

import socket

PROBE_S = 2.0


def check_reachable(address: str | None) -> None:
    """Raise ConnectionError when nothing listens at HOST:PORT or ray://HOST:PORT.

    Ray itself tries for a minute, and then says nothing of the address.
    """
    if address in (None, "auto", "local"):
        return
    host, _, port = str(address).removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"{address!r} is no address of a Ray cluster: HOST:PORT, auto or local.")
    try:
        socket.create_connection((host, int(port)), timeout=PROBE_S).close()
    except OSError as error:
        reason = (error.strerror or "no answer").lower()
        raise ConnectionError(
            f"Nothing listens at {address} ({reason}): `ray start --head` starts a Ray cluster "
            "there, and `ray status` on its machine shows whether one runs."
        ) from None
