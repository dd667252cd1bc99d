"""Packs the arguments of remote calls. References are packed separately from values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.errors import NotPicklableError, PhalanxError
from phalanx.objects.reference import ObjectRef
from phalanx.objects.serialization import blame
from phalanx.protocol.messages import Payload
from phalanx.runtime.driver.values import Packed as PackedValue
from phalanx.runtime.engine import tracing

Packed = tuple[Payload, list[ObjectRef[Any]] | None, list[Any] | None]
"""Packed arguments: (payload, top-level references, objects that must exist until the call
ends).
"""


TOGETHER_BYTES = 1 << 14
"""Calls whose arguments have at most this size in bytes may be sent together in one message."""


def shareable(
    payload: Payload, inputs: list[ObjectRef[Any]] | None, pins: list[Any] | None
) -> bytes | None:
    """Return the packed arguments of a call as bytes if the call may be sent in one message with
    other calls. Return None if the arguments contain references or are large.
    """
    if inputs is None and pins is None and isinstance(payload, bytes):
        return payload if len(payload) <= TOGETHER_BYTES else None
    return None


def pack_arguments(
    pack: Callable[[Any], PackedValue], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Packed:
    """Pack the arguments of a call. `name`: the name of the called function, for errors. `pack`:
    the function that makes a payload of a value.

    Raises NotPicklableError, which names the part of the arguments that cannot be pickled.
    """
    spans = tracing.active
    kwargs = kwargs if spans is None else spans.submitted(name, kwargs)
    if not args and not kwargs:
        return b"", None, None
    places: list[int | str] | None = None
    inputs: list[ObjectRef[Any]] | None = None
    for i, value in enumerate(args):
        if type(value) is ObjectRef:
            if inputs is None or places is None:
                places, inputs, args = [], [], list(args)  # type: ignore[assignment]
            places.append(i)
            inputs.append(value)
            args[i] = None  # type: ignore[index]
    for key, value in kwargs.items():
        if type(value) is ObjectRef:
            if inputs is None or places is None:
                places, inputs = [], []
            places.append(key)
            inputs.append(value)
    if inputs is not None:
        kwargs = {k: None if type(v) is ObjectRef else v for k, v in kwargs.items()}
    parts = (args, kwargs) if inputs is None else (args, kwargs, places)
    try:
        payload, hold, refs = pack(parts)
    except PhalanxError:
        raise
    except Exception as error:
        found = blame({"args": list(args), "kwargs": kwargs}, error)
        raise NotPicklableError(
            f"Could not serialize the arguments of {name}(): {found}. Pass the data it is made "
            "from instead, or make it inside the task."
        ) from error
    if hold is None and refs is None:
        return payload, inputs, None
    if hold is not None:
        hold.seen = True  # the called function may keep the memory that it maps
    return payload, inputs, [hold, refs]
