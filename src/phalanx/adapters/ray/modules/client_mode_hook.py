"""`ray._private.client_mode_hook`: there is no client mode, every driver is beside a node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

is_client_mode_enabled = False


def client_mode_hook(function: T) -> T:
    """The function itself: nothing stands between it and the cluster."""
    return function


client_mode_wrap = client_mode_hook


def client_mode_should_convert(*_: object, **__: object) -> bool:
    """Whether a call would go to a client server."""
    return False


def auto_init_hook(function: Callable[..., T]) -> Callable[..., T]:
    """The function itself: what needs a runtime starts one."""
    return function


def wrap_auto_init(function: Callable[..., T]) -> Callable[..., T]:
    """See auto_init_hook."""
    return function


@contextlib.contextmanager
def enable_client_mode() -> Iterator[None]:
    """Nothing to turn on."""
    yield


@contextlib.contextmanager
def disable_client_hook() -> Iterator[None]:
    """Nothing to turn off."""
    yield


def _explicitly_enable_client_mode() -> None:
    raise NotImplementedError("Phalanx has no client mode: run the driver beside a node.")


def _explicitly_disable_client_mode() -> None:
    """Nothing to turn off."""
