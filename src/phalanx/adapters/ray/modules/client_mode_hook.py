"""`ray._private.client_mode_hook`: there is no client mode, because every driver is next to a
node.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

is_client_mode_enabled = False


def client_mode_hook(function: T) -> T:
    """Return the function itself, because calls never go to a client server."""
    return function


client_mode_wrap = client_mode_hook


def client_mode_should_convert(*_: object, **__: object) -> bool:
    """Return False: calls never go to a client server."""
    return False


def auto_init_hook(function: Callable[..., T]) -> Callable[..., T]:
    """Return the function itself: calls that need a runtime start one."""
    return function


def wrap_auto_init(function: Callable[..., T]) -> Callable[..., T]:
    return function


@contextlib.contextmanager
def enable_client_mode() -> Iterator[None]:
    """Do nothing: there is no client mode to turn on."""
    yield


@contextlib.contextmanager
def disable_client_hook() -> Iterator[None]:
    yield


def _explicitly_enable_client_mode() -> None:
    raise NotImplementedError(
        "Phalanx has no client mode: run the driver on a machine with a node."
    )


def _explicitly_disable_client_mode() -> None:
    """Do nothing: there is no client mode to turn off."""
