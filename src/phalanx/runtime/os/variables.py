"""The values that runtime environments give variables."""

from __future__ import annotations

import os
import re

_UNKNOWN = re.compile(r"\$\{\w+\}")


def expanded(value: str) -> str:
    """Return a value with `$NAME` and `${NAME}` replaced by this process's variables.

    If there is no such variable, `${NAME}` becomes empty and `$NAME` stays, as on Ray.
    """
    return _UNKNOWN.sub("", os.path.expandvars(value))
