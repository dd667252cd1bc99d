"""Registers serializers that programs register in Phalanx with Ray's pickler, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray import cloudpickle

from phalanx.objects import serialization


def share_serializers() -> None:
    """Register the present and all future serializers with Ray's pickler. May be called again."""
    for cls, reduce in serialization.custom_reducers().items():
        _tell(cls, reduce)
    if _tell not in serialization.on_serializer:
        serialization.on_serializer.append(_tell)


def _tell(cls: type, reduce: Callable[[Any], Any] | None) -> None:
    table = cloudpickle.CloudPickler.dispatch
    if reduce is None:
        table.pop(cls, None)
    else:
        table[cls] = reduce
