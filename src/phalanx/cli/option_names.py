"""Errors of Python's interface in the words of the command line: options in place of keywords."""

from __future__ import annotations

import re
from collections.abc import Mapping

OF_START = {
    name: f"--{name.replace('_', '-')}"
    for name in ("num_cpus", "num_gpus", "resources", "object_store_memory")
}
"""The options of `phalanx start` by the keywords of `init`."""


def with_options(text: str, options: Mapping[str, str]) -> str:
    """Return an error's text with options in place of keywords. `options`: the options by the
    keywords that set the same fields.
    """
    return re.sub(r"\b\w+\b", lambda found: options.get(found.group(), found.group()), text)
