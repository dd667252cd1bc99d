"""Sentences about what scheduling counts, as people say them: CPU and GPU, bytes in units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from phalanx.model.readable import size

_NAMES = {"cpu": "CPU", "nvidia.com/gpu": "GPU"}
"""Resources by the names of tasks' options."""
_BYTES = ("memory", "object_store_memory")
_ONE = re.compile(r"\b1 nodes (\w+)")
_AHEAD = re.compile(r"\b1 are ahead")
_VERBS = {"lack": "lacks", "have": "has", "are": "is", "were": "was"}


class _Size(float):
    """Bytes, whatever form is asked for."""

    def __format__(self, form: str) -> str:
        return size(float(self))


def written(template: str, detail: Mapping[str, Any]) -> str:
    """The template with the detail in it. Raises KeyError and ValueError where they do not fit."""
    resource = detail.get("resource")
    said = {name: _said(value, resource in _BYTES) for name, value in detail.items()}
    if resource in _NAMES:
        said["resource"] = _NAMES[resource]
    text = _AHEAD.sub("1 is ahead", template.format(**said))
    return _ONE.sub(lambda found: f"1 node {_VERBS.get(found[1], found[1])}", text)


def _said(value: Any, is_size: bool) -> Any:
    """Bytes in units, and mappings as a person lists them."""
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return _Size(value) if is_size and is_number else value
