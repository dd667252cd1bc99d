"""The switch that decides whether a call that needs a runtime may start one. It is on by default.

PHALANX_AUTO_INIT=0, or Ray's RAY_ENABLE_AUTO_CONNECT=0, in the environment turns it off.
"""

from __future__ import annotations

import os

VARIABLES = ("PHALANX_AUTO_INIT", "RAY_ENABLE_AUTO_CONNECT")

_is_on = all(os.environ.get(name) != "0" for name in VARIABLES)


def is_on() -> bool:
    """Whether a call that needs a runtime may start one."""
    return _is_on


def switch(on: bool) -> None:
    """Turn the switch on or off in this process."""
    global _is_on
    _is_on = on
