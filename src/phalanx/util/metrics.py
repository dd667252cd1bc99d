"""Metrics of programs: counters, gauges and histograms, recorded anywhere in a cluster.

    requests = Counter("requests", description="Requests served", tag_keys=("route",))
    requests.inc(tags={"route": "/"})

Drivers, tasks and actors record values; the cluster's `/metrics` has the sum for each node: see
docs/reference/metrics.md.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from phalanx.observe.metrics.definitions import COUNTER, GAUGE, HISTOGRAM, Definition
from phalanx.observe.metrics.program_metrics import MOST_CHARS
from phalanx.runtime.engine.program_metrics import PROGRAM

Tags = Mapping[str, str] | None
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


class Metric:
    """A named quantity, with one number for each set of tags.

    Raises ValueError for an empty name or a definition that differs from an earlier one of that
    name, and TypeError for `tag_keys` that are no tuple of texts. A name that cannot be exported
    causes a warning.
    """

    kind: ClassVar[str]
    prefix: ClassVar[str] = ""
    """The prefix of the exported name, which comes before the name that the program gave."""
    is_strict: ClassVar[bool] = True
    """Whether a metric that cannot be exported is an error. Otherwise it causes a warning."""

    def __init__(
        self,
        name: str,
        description: str = "",
        tag_keys: tuple[str, ...] | None = None,
        *,
        bounds: Sequence[float] = (),
    ) -> None:
        if not name:
            raise ValueError("Empty name is not allowed. Please provide a metric name.")
        is_name = _NAME.fullmatch(name) is not None
        if not is_name:
            warnings.warn(
                f"Invalid metric name: {name}. It is not exported: a name has letters, digits, _ "
                "and :, and begins with no digit.",
                stacklevel=3,
            )
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
        self._exported = f"{self.prefix}{name}" if is_name else ""
        self._definition = Definition(self.kind, description, keys, tuple(map(float, bounds)))
        if is_name:
            self._know()

    def _know(self) -> None:
        try:
            PROGRAM.know(self._exported, self._definition)
        except ValueError as error:
            if self.is_strict:
                raise
            warnings.warn(f"{error}. It is not exported.", stacklevel=4)
            self._exported = ""

    def set_default_tags(self, default_tags: Mapping[str, str]) -> Any:
        """Set the tags of all values that are recorded from now on. Returns the metric itself.

        Raises ValueError for a tag key that the metric does not have.
        """
        for key, value in default_tags.items():
            if key not in self._tag_keys:
                raise ValueError(f"Unrecognized tag key {key}.")
            self._check_tag(value)
        self._default_tags = dict(default_tags)
        return self

    @property
    def info(self) -> dict[str, Any]:
        """The name, description, tag keys and default tags of the metric."""
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": self._default_tags,
        }

    def _record(self, value: float, tags: Tags) -> None:
        for text in (tags or {}).values():
            self._check_tag(text)
        given = {**self._default_tags, **(tags or {})}
        missing = [key for key in self._tag_keys if key not in given]
        if missing:
            raise ValueError(f"Missing value for tag key(s): {','.join(missing)}.")
        if not self._exported:
            return
        labels = tuple(given[key][:MOST_CHARS] for key in self._tag_keys)
        PROGRAM.record(self._exported, self._definition, labels, float(value))

    def _record_finite(self, value: float, tags: Tags) -> None:
        if math.isfinite(value):
            self._record(value, tags)
        elif self.is_strict:
            raise ValueError(f"value must be a finite number, got {value}")

    def _check_tag(self, value: object) -> None:
        if not isinstance(value, str):
            raise TypeError(f"Tag values must be str, got {type(value)}.")
        if self.is_strict and len(value) > MOST_CHARS:
            raise ValueError(
                f"A tag's value has at most {MOST_CHARS} characters, not {len(value)}."
            )

    def __reduce__(self) -> Any:
        return (type(self), (self._name, self._description, self._tag_keys))


class Counter(Metric):
    """A metric that only grows.

    Example:
        failures = Counter("failures", description="Failed requests", tag_keys=("route",))
        failures.inc(tags={"route": "/login"})
    """

    kind = COUNTER

    def inc(self, value: float = 1.0, tags: Tags = None) -> None:
        """Add to the counter.

        Raises TypeError for a value that is no number, and ValueError for a value that is not
        finite and above 0, and for missing tags.
        """
        _check_value(value)
        if value <= 0:
            raise ValueError(f"value must be >0, got {value}")
        self._record_finite(value, tags)


class Gauge(Metric):
    """A metric with a current value on each node, which is the last one that was set.

    Example:
        depth = Gauge("depth", description="Waiting requests")
        depth.set(12)
    """

    kind = GAUGE

    def set(self, value: float | None, tags: Tags = None) -> None:
        """Set the gauge; None does not change it. Raises the errors of Counter.inc, but takes any
        float.
        """
        if value is None:
            return
        _check_value(value)
        self._record(value, tags)


class Histogram(Metric):
    """A metric that counts the values up to each boundary, and above the last one.

    Raises ValueError for boundaries that are missing or not above 0.

    Example:
        seconds = Histogram("latency_seconds", boundaries=[0.01, 0.1, 1.0])
        seconds.observe(0.07)
    """

    kind = HISTOGRAM

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: Sequence[float] | None = None,
        tag_keys: tuple[str, ...] | None = None,
    ) -> None:
        if boundaries is None or not len(boundaries):
            raise ValueError(
                "boundaries argument should be provided when using the Histogram class. e.g., "
                'Histogram("name", boundaries=[1.0, 2.0])'
            )
        for at, boundary in enumerate(boundaries):
            if boundary <= 0:
                raise ValueError(
                    f"Invalid `boundaries` argument at index {at}, {boundaries}. Use positive "
                    "values for the arguments."
                )
        super().__init__(name, description, tag_keys, bounds=boundaries)
        self.boundaries = boundaries

    def observe(self, value: float, tags: Tags = None) -> None:
        """Count a value. Raises the errors of Counter.inc, but takes any finite number."""
        _check_value(value)
        self._record_finite(value, tags)

    @property
    def info(self) -> dict[str, Any]:
        """The name, description, tag keys, default tags and boundaries of the metric."""
        return {**super().info, "boundaries": self.boundaries}

    def __reduce__(self) -> Any:
        return (type(self), (self._name, self._description, self.boundaries, self._tag_keys))


def _check_value(value: object) -> None:
    if not isinstance(value, int | float):
        raise TypeError(f"value must be int or float, got {type(value)}.")
