"""`ray.cloudpickle`: cloudpickle, and two functions that Ray adds."""

from __future__ import annotations

from collections.abc import Callable
from pickle import PicklingError
from typing import Any, BinaryIO, TypeVar

import cloudpickle

from phalanx.objects.serialization import blame

T = TypeVar("T")


def dumps_debug(value: Any, *args: Any, **kwargs: Any) -> bytes:
    """Pickle a value. If a piece of it cannot be pickled, the TypeError or PicklingError names the
    piece.
    """
    return _explained(value, lambda: bytes(cloudpickle.dumps(value, *args, **kwargs)))


def dump_debug(value: Any, file: BinaryIO, *args: Any, **kwargs: Any) -> None:
    """Pickle a value into a file. If a piece of it cannot be pickled, the TypeError or
    PicklingError names the piece.
    """
    _explained(value, lambda: cloudpickle.dump(value, file, *args, **kwargs))


def _explained(value: Any, step: Callable[[], T]) -> T:
    try:
        return step()
    except (TypeError, PicklingError) as error:
        raise type(error)(f"{value!r} cannot be pickled: {blame(value, error)}") from error
