"""`ray.util.annotations`: marks on functions and classes that change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class RayDeprecationWarning(DeprecationWarning):
    """The warning for an interface that will be removed."""


def _mark(*args: Any, **_: Any) -> Any:
    """Return the decorated function or class unchanged. The decorator may have arguments or
    none.
    """
    if len(args) == 1 and callable(args[0]):
        return args[0]

    def same(target: T) -> T:
        return target

    return same


PublicAPI: Callable[..., Any] = _mark
DeveloperAPI: Callable[..., Any] = _mark
Deprecated: Callable[..., Any] = _mark
ConsoleAPI: Callable[..., Any] = _mark
