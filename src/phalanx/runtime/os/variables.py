"""Fills in the variables in values that runtime environments set."""

from __future__ import annotations

import os
import re

_UNKNOWN = re.compile(r"\$\{\w+\}")


def expanded(value: str) -> str:
    """Return a value with `$NAME` and `${NAME}` replaced by this process's variables.

    If a variable is not set, `${NAME}` becomes empty and `$NAME` stays, as on Ray.
    """
    return _UNKNOWN.sub("", os.path.expandvars(value))
