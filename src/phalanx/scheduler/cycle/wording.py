"""Sentences about amounts. Resources and sizes appear as users write them: CPU, GPU, 1.5 GiB."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from phalanx.model.readable import duration, size
from phalanx.model.rows.explanation import BYTES

_NAMES = {"cpu": "CPU", "nvidia.com/gpu": "GPU"}
"""The names of resources in options of tasks, by their names in cycles."""
_ONE = re.compile(r"\b1 nodes (\w+)")
_COUNTS = ("count", "of", "placed", "minimum", "tasks", "in_gang", "cards")
"""Details that count nodes or tasks; they are never bytes."""
_AHEAD = re.compile(r"\b1 are ahead")
_VERBS = {"lack": "lacks", "have": "has", "are": "is", "were": "was"}


class _Size(float):
    """A number of bytes. It is always printed with a unit, whatever format the template asks
    for.
    """

    def __format__(self, form: str) -> str:
        return size(float(self))


def resource_name(name: str) -> str:
    """Return the name of a resource as users write it."""
    return _NAMES.get(name, name)


def written(template: str, detail: Mapping[str, Any]) -> str:
    """Return the template filled with the detail.

    Raises KeyError or ValueError if the template needs a detail that is missing or of another kind.
    """
    resource = detail.get("resource")
    is_bytes = resource in BYTES
    said = {k: _said(x, is_bytes and k not in _COUNTS) for k, x in detail.items()}
    if resource is not None:
        said["resource"] = resource_name(resource)
    if "in_s" in said:
        said["in_s"] = duration(said["in_s"])
    text = _AHEAD.sub("1 is ahead", template.format(**said))
    return _ONE.sub(lambda found: f"1 node {_VERBS.get(found[1], found[1])}", text)


def _said(value: Any, is_size: bool) -> Any:
    """Return a detail for display: bytes with a unit, and a mapping as a text with commas."""
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return _Size(value) if is_size and is_number else value
