"""The services that a process provides to the owner in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from phalanx.owner.objects.streams import Pack
from phalanx.owner.objects.table import Files
from phalanx.owner.transport import NodeLink, Outbox, Transport


@dataclass(frozen=True, kw_only=True)
class OwnerShell:
    """The functions through which an owner reaches its node, other processes and the user."""

    transport: Transport
    outbox: Outbox
    node: NodeLink
    files: Files
    pack: Pack
    """Turns values into payloads."""
    clock: Callable[[], float]
    """Returns the seconds of a clock that never goes backwards."""
    wall: Callable[[], float]
    """Returns the seconds since the epoch."""
    request_tick: Callable[[], None]
    warn: Callable[[str], None]
    """Shows the user a text."""
    report: Callable[[str], None] = lambda text: None
    """Shows the user a text about failures that nobody has read."""
