"""Shows the events of a simulated run to people, in short lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from phalanx.protocol.cluster_messages import ForwardedAsk, Via, View
from phalanx.protocol.frames import decode_body
from phalanx.protocol.membership_messages import Reported
from phalanx.protocol.report_messages import NodeReport
from phalanx.protocol.requests.view import GetViewChanges
from phalanx_research.chaos.kernel import Event

LONGEST = 240
_BODIES = (Reported, Via)
_CHATTER = (NodeReport, View)
"""The messages that are sent all the time. They are not shown."""


def story_lines(events: Iterable[Event], involved: Sequence[str], count: int) -> list[str]:
    """Return the last `count` events of the involved processes, one line each."""
    names = {name.split("/", 1)[0] if "/" not in name else name for name in involved}
    hosts = {name.split("/", 1)[0] for name in names}
    chosen = [
        event
        for event in events
        if (event.to in names or event.by in names or (event.to in hosts and not event.by))
        and not isinstance(event.what, _CHATTER)
        and not _is_view(event.what)
    ]
    return [line(event) for event in chosen[-count:]]


def line(event: Event) -> str:
    """Return the line of one event."""
    way = f"{event.by} -> {event.to}" if event.by else event.to
    return f"{event.at:10.4f} s  {way:<16} {_text(event.what)}"[:LONGEST]


def _is_view(what: Any) -> bool:
    return isinstance(what, ForwardedAsk) and what.kind == GetViewChanges.kind


def _text(what: Any) -> str:
    if isinstance(what, str):
        return what
    if isinstance(what, _BODIES):
        inner = "; ".join(_text(message) for message in decode_body(what.body))
        about = what.token if isinstance(what, Reported) else _name(what.process)
        return f"{type(what).__name__} {about}: {inner}"
    if isinstance(what, msgspec.Struct):
        fields = (f"{name}={_value(getattr(what, name))}" for name in what.__struct_fields__)
        return f"{type(what).__name__}({', '.join(f for f in fields if not _is_dull(f))})"
    return _value(what)


def _is_dull(field: str) -> bool:
    return field.endswith(("=''", "=None", "={}", "=[]", "=-"))


def _value(value: Any) -> str:
    if isinstance(value, bytes):
        return _name(value)
    if isinstance(value, dict):
        inside = ", ".join(f"{_value(k)}: {_value(v)}" for k, v in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    text = value if isinstance(value, str) else repr(value)
    return _name(bytes.fromhex(text)) if len(text) == 56 and text.endswith("0000") else text


def _name(value: bytes) -> str:
    """Return a value as text, with short ids: the third process of node02 is n2/3."""
    if not value.strip(b"\0"):
        return "-"
    if value.startswith(b"node") and len(value) >= 6:
        node = f"n{int(value[4:6])}"
        if len(value) != 16:
            return node
        return f"{node}/{int.from_bytes(value[6:12], 'big')}.{int.from_bytes(value[12:], 'big')}"
    return value.decode().strip() if value.isascii() and value.strip().isalnum() else repr(value)
