"""Whether a call that needs a runtime starts one, where there is none: a switch, on at first.

The environment turns it off by PHALANX_AUTO_INIT=0, or by Ray's RAY_ENABLE_AUTO_CONNECT=0.
"""

from __future__ import annotations

import os

VARIABLES = ("PHALANX_AUTO_INIT", "RAY_ENABLE_AUTO_CONNECT")

_is_on = all(os.environ.get(name) != "0" for name in VARIABLES)


def is_on() -> bool:
    """Whether it is on."""
    return _is_on


def switch(on: bool) -> None:
    """Turn it on or off, in this process."""
    global _is_on
    _is_on = on
