"""`ray.util.debug`: what is to be said once. `ray.util.rpdb`: there is no debugger."""

from __future__ import annotations

import time

_PERIOD_S = 60.0
_said: dict[str, float] = {}
_every_s: float | None = None
_is_off = False


def _is_ray_debugger_post_mortem_enabled() -> bool:
    """Whether a debugger is to stop where a task fails."""
    return False


def log_once(key: str) -> bool:
    """Whether this is the first time that the key is asked for, or its period is over."""
    now = time.monotonic()
    if _is_off or (key in _said and (_every_s is None or now < _said[key] + _every_s)):
        return False
    _said[key] = now
    return True


def disable_log_once_globally() -> None:
    """No key is new."""
    global _is_off
    _is_off = True


def enable_periodic_logging() -> None:
    """Each key is new again after a minute."""
    global _every_s
    _every_s = _PERIOD_S


def reset_log_once(key: str | None = None) -> None:
    """The key is new again; all are, without one."""
    if key is None:
        _said.clear()
    else:
        _said.pop(key, None)
