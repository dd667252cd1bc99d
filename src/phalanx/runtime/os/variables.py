"""The values that runtime environments give variables."""

from __future__ import annotations

import os
import re

_UNKNOWN = re.compile(r"\$\{\w+\}")


def expanded(value: str) -> str:
    """Return a value with `$NAME` and `${NAME}` replaced by this process's variables.

    As on Ray, `${NAME}` is empty when there is no such variable, and `$NAME` stays.
    """
    return _UNKNOWN.sub("", os.path.expandvars(value))
