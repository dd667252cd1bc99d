"""A reader of YAML and JSON documents. Each of its errors names the file and the line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

import yaml

from phalanx.errors import BatchFileError
from phalanx.model.nearest import nearest

MOST = 10**18
"""The largest accepted number. Sums of larger numbers would be inexact."""
MAX_VALUES = 10_000_000
"""The largest number of values in a file. Values that an alias repeats count each time, because a
few lines with aliases could expand to more values than fit into memory.
"""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document:
    """A parsed text. Reading starts at `root`."""

    def __init__(self, text: str, file: str = "", most_values: int | None = None) -> None:
        """Parse the text.

        `most_values`: the largest number of values, including those that aliases repeat; None means
        MAX_VALUES. Raises BatchFileError for more values, and for text that is neither YAML nor
        JSON.
        """
        most_values = MAX_VALUES if most_values is None else most_values
        self.text = text
        self.file = file
        try:
            if text.lstrip().startswith(("{", "[")):
                self.value = _strict_json(text)
            else:
                self.value = _load(text)
        except yaml.MarkedYAMLError as e:
            line = e.problem_mark.line + 1 if e.problem_mark else None
            raise BatchFileError(f"this is not YAML: {e.problem or e}", file, line) from e
        except (yaml.YAMLError, ValueError, RecursionError) as e:
            raise BatchFileError(f"this is neither YAML nor JSON: {e}", file, 1) from e
        if "*" in text and "&" in text and _values_beyond(self.value, most_values):
            reason = f"this has more than {most_values} values, including those that aliases repeat"
            raise BatchFileError(reason, file, _first_alias(text))

    @property
    def root(self) -> Place:
        return Place(self, (), self.value)

    def line_of(self, path: tuple[str | int, ...]) -> int:
        """Return the line (from 1) on which the value at `path` begins."""
        node = yaml.compose(self.text, Loader=_LOADER)
        line = node.start_mark.line if node is not None else 0
        for step in path:
            child = None
            if isinstance(node, yaml.MappingNode):
                child = next((v for k, v in node.value if k.value == step), None)
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
                child = node.value[step] if step < len(node.value) else None
            if child is None:
                break
            node, line = child, child.start_mark.line
        return line + 1


def _load(text: str) -> Any:
    class Unique(_LOADER):  # type: ignore[misc]
        """A safe loader that refuses a repeated key instead of keeping the last value."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: set[Any] = set()
            for key, _ in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else None
                if name in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {name!r} is given twice", key.start_mark
                    )
                seen.add(name)
            return super().construct_mapping(node, deep)

    return yaml.load(text, Loader=Unique)  # noqa: S506 -- derives from the safe loader


def _values_beyond(value: Any, most: int) -> bool:
    """Whether the value contains more than `most` other values.

    Values that an alias repeats count each time. An alias that contains itself exceeds any number.
    """
    waiting = [value] if isinstance(value, dict | list) else []
    while waiting and most >= 0:
        found = waiting.pop()
        most -= len(found) + 1
        members = found.values() if type(found) is dict else found
        waiting += [m for m in members if type(m) is dict or type(m) is list]
    return most < 0


def _first_alias(text: str) -> int:
    tokens = yaml.scan(text, Loader=_LOADER)
    return next((t.start_mark.line for t in tokens if isinstance(t, yaml.AliasToken)), 0) + 1


def _strict_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return _load(text)


class Place:
    """A value in a document, and the path to it."""

    __slots__ = ("document", "path", "value")

    def __init__(self, document: Document, path: tuple[str | int, ...], value: Any) -> None:
        self.document = document
        self.path = path
        self.value = value

    def fail(self, reason: str) -> NoReturn:
        raise BatchFileError(reason, self.document.file, self.document.line_of(self.path))

    def has(self, key: str) -> bool:
        return isinstance(self.value, dict) and self.value.get(key) is not None

    def get(self, key: str) -> Place:
        """Return the member `key`. If it is missing, return a place that holds None."""
        value = self.value.get(key) if isinstance(self.value, dict) else None
        return Place(self.document, (*self.path, key), value)

    def need(self, key: str) -> Place:
        if not isinstance(self.value, dict):
            self.fail(f"{self._name()} must be a mapping with {key!r}, not {_kind(self.value)}")
        if self.value.get(key) is None:
            self.fail(f"{self._name()} lacks {key!r}")
        return self.get(key)

    def keys(self, *allowed: str) -> Place:
        """Raise BatchFileError if the mapping has a key that is not allowed. Return this place."""
        for key, place in self.members().items():
            if key not in allowed:
                hint = nearest(key, allowed)
                known = ", ".join(allowed)
                place.fail(f"{self._name()} has no key {key!r}; allowed: {known}{hint}")
        return self

    def members(self) -> dict[str, Place]:
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            self.fail(f"{self._name()} must be a mapping, not {_kind(self.value)}")
        return {str(k): Place(self.document, (*self.path, k), v) for k, v in self.value.items()}

    def mapping(self) -> Mapping[str, Any]:
        return {k: p.value for k, p in self.members().items()}

    def is_list(self) -> bool:
        return isinstance(self.value, list)

    def items(self) -> list[Place]:
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self.fail(f"{self._name()} must be a list, not {_kind(self.value)}")
        return [Place(self.document, (*self.path, i), v) for i, v in enumerate(self.value)]

    def text(self, default: str | None = None) -> str:
        if self.value is None and default is not None:
            return default
        if not isinstance(self.value, str):
            self.fail(f"{self._name()} must be text, not {_kind(self.value)}")
        return self.value

    def flag(self, default: bool | None = None) -> bool:
        if self.value is None and default is not None:
            return default
        if not isinstance(self.value, bool):
            self.fail(f"{self._name()} must be true or false, not {_kind(self.value)}")
        return self.value

    def whole(self, default: int | None = None) -> int:
        if self.value is None and default is not None:
            return default
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.fail(f"{self._name()} must be a whole number, not {_kind(self.value)}")
        self._bounded()
        return self.value

    def number(self, default: float | None = None) -> float:
        if self.value is None and default is not None:
            return default
        good = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        # An integer may be too large for math.isfinite.
        if not good or self.value != self.value or abs(self.value) == math.inf:
            self.fail(f"{self._name()} must be a number, not {_kind(self.value)}")
        self._bounded()
        return float(self.value)

    def _bounded(self) -> None:
        if abs(self.value) > MOST:
            self.fail(f"{self._name()} must be a number from -{MOST:g} to {MOST:g}")

    def texts(self) -> tuple[str, ...]:
        return tuple(p.text() for p in self.items())

    def _name(self) -> str:
        return ".".join(str(p) for p in self.path) or "the document"


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r}"[:80]
