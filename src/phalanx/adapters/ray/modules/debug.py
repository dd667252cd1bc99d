"""`ray.util.debug`, which logs messages once, and `ray.util.rpdb`, for which Phalanx has no
debugger.
"""

from __future__ import annotations

import time

_PERIOD_S = 60.0
_said: dict[str, float] = {}
_every_s: float | None = None
_is_off = False


def _is_ray_debugger_post_mortem_enabled() -> bool:
    """Return False: no debugger stops at a task's failure."""
    return False


def log_once(key: str) -> bool:
    """Whether to log a message with this key now. A message is logged the first time, and again
    after the key's period.
    """
    now = time.monotonic()
    if _is_off or (key in _said and (_every_s is None or now < _said[key] + _every_s)):
        return False
    _said[key] = now
    return True


def disable_log_once_globally() -> None:
    """Let `log_once` return False for every key."""
    global _is_off
    _is_off = True


def enable_periodic_logging() -> None:
    """Let `log_once` accept each key again after a minute."""
    global _every_s
    _every_s = _PERIOD_S


def reset_log_once(key: str | None = None) -> None:
    """Let `log_once` accept the key again, or every key if none is given."""
    if key is None:
        _said.clear()
    else:
        _said.pop(key, None)
