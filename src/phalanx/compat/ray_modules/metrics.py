"""`ray.util.metrics`: what a program counts. Each process keeps its own, and none is exported."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

Tags = Mapping[str, str] | None
_NAME = re.compile(r"^[a-zA-Z_:][a-zA-Z0-9_:]*$")


class Metric:
    """A named number, one for each set of tags."""

    def __init__(
        self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None
    ) -> None:
        if not name:
            raise ValueError("Empty name is not allowed. Please provide a metric name.")
        if not _NAME.match(name):
            warnings.warn(f"Invalid metric name: {name}: it is discarded.", stacklevel=3)
        keys = () if tag_keys is None else tag_keys
        if not isinstance(keys, tuple):
            raise TypeError(f"tag_keys should be a tuple type, got: {type(keys)}")
        for key in keys:
            if not isinstance(key, str):
                raise TypeError(f"Tag keys must be str, got {type(key)}.")
        self._name = name
        self._description = description
        self._tag_keys = keys
        self._default_tags: dict[str, str] = {}
        self.values: dict[tuple[tuple[str, str], ...], Any] = {}
        """By tags, sorted: what this process has recorded."""

    def set_default_tags(self, default_tags: Mapping[str, str]) -> Any:
        """Tags of all that is recorded from now on; the metric itself."""
        for key, value in default_tags.items():
            if key not in self._tag_keys:
                raise ValueError(f"Unrecognized tag key {key}.")
            _check_tag(value)
        self._default_tags = dict(default_tags)
        return self

    @property
    def info(self) -> dict[str, Any]:
        """What it was made with."""
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": self._default_tags,
        }

    def _key(self, value: float, tags: Tags) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, int | float):
            raise TypeError(f"value must be int or float, got {type(value)}.")
        for text in (tags or {}).values():
            _check_tag(text)
        all_tags = {**self._default_tags, **(tags or {})}
        missing = [key for key in self._tag_keys if key not in all_tags]
        if missing:
            raise ValueError(f"Missing value for tag key(s): {','.join(missing)}.")
        return tuple(sorted(all_tags.items()))

    def __reduce__(self) -> Any:
        return (type(self), (self._name, self._description, self._tag_keys))


class Counter(Metric):
    """A number that only grows."""

    def inc(self, value: float = 1.0, tags: Tags = None) -> None:
        """Add to it."""
        key = self._key(value, tags)
        if value <= 0:
            raise ValueError(f"value must be >0, got {value}")
        self.values[key] = self.values.get(key, 0) + value


class Gauge(Metric):
    """A number that is as it was last set."""

    def set(self, value: float | None, tags: Tags = None) -> None:
        """Set it; None leaves it."""
        if value is not None:
            self.values[self._key(value, tags)] = value


class Histogram(Metric):
    """How many values there were up to each boundary, and above the last."""

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: Sequence[float] | None = None,
        tag_keys: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(name, description, tag_keys)
        if not boundaries:
            raise ValueError("boundaries argument should be provided when using a Histogram.")
        if any(boundary <= 0 for boundary in boundaries):
            raise ValueError(f"Invalid `boundaries` argument, {boundaries}: use positive values.")
        self.boundaries = list(boundaries)

    def observe(self, value: float, tags: Tags = None) -> None:
        """Count a value."""
        counts = self.values.setdefault(self._key(value, tags), [0] * (len(self.boundaries) + 1))
        counts[sum(value > boundary for boundary in self.boundaries)] += 1

    @property
    def info(self) -> dict[str, Any]:
        """What it was made with."""
        return {**super().info, "boundaries": self.boundaries}

    def __reduce__(self) -> Any:
        return (type(self), (self._name, self._description, self.boundaries, self._tag_keys))


def _check_tag(value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"Tag values must be str, got {type(value)}.")
