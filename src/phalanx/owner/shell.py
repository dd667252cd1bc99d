"""The services of the process around an owner."""

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
    """Counts seconds."""
    wall: Callable[[], float]
    """Returns seconds since the epoch."""
    request_tick: Callable[[], None]
    warn: Callable[[str], None]
    """Shows the user a text."""
    report: Callable[[str], None] = lambda text: None
    """Shows a text about failures that nobody has read."""
