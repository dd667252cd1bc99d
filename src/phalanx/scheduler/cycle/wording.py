"""Sentences about what scheduling counts, as people say them: CPU and GPU, bytes in units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from phalanx.model.readable import size, time_ahead
from phalanx.model.rows.explanation import BYTES

_NAMES = {"cpu": "CPU", "nvidia.com/gpu": "GPU"}
"""Resources by the names of tasks' options."""
_ONE = re.compile(r"\b1 nodes (\w+)")
_COUNTS = ("count", "of")
"""Numbers of nodes and tasks, whatever the resource is measured in."""
_AHEAD = re.compile(r"\b1 are ahead")
_VERBS = {"lack": "lacks", "have": "has", "are": "is", "were": "was"}


class _Size(float):
    """Bytes, whatever form is asked for."""

    def __format__(self, form: str) -> str:
        return size(float(self))


def resource_name(name: str) -> str:
    """A resource as people say it."""
    return _NAMES.get(name, name)


def written(template: str, detail: Mapping[str, Any]) -> str:
    """The template with the detail in it. Raises KeyError and ValueError where they do not fit."""
    resource = detail.get("resource")
    is_bytes = resource in BYTES
    said = {k: _said(x, is_bytes and k not in _COUNTS) for k, x in detail.items()}
    if resource is not None:
        said["resource"] = resource_name(resource)
    if "in_s" in said:
        said["in_s"] = time_ahead(said["in_s"])
    text = _AHEAD.sub("1 is ahead", template.format(**said))
    return _ONE.sub(lambda found: f"1 node {_VERBS.get(found[1], found[1])}", text)


def _said(value: Any, is_size: bool) -> Any:
    """Bytes in units, and mappings as a person lists them."""
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return _Size(value) if is_size and is_number else value
