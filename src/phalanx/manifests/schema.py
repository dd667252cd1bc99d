"""The JSON Schema of manifests for editors, derived from the calls of the reader.

The reader reads each kind from a stand-in for its fields. The stand-in records the type for which
the reader asks: a text, a number, a list of mappings and so on. So the schema has exactly the
fields that the reader knows, and no second list of fields is needed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, TypeVar

from phalanx.manifests.document import Text
from phalanx.manifests.fields import Fields, Path
from phalanx.manifests.findings import Report
from phalanx.manifests.plugins import OPTIONS
from phalanx.manifests.quantities import HOUSE
from phalanx.manifests.reading import GROUPS, read_object

T = TypeVar("T")
DRAFT = "http://json-schema.org/draft-07/schema#"
_ANY: dict[str, Any] = {}
_LOOSE = {"type": ["string", "number", "boolean"]}
"""The types that the schema allows for a text: without quotes, YAML may read the text as a number
or a flag.
"""
_AMOUNT = {"type": ["string", "number"]}


class _Mapping:
    """The part of the schema for one mapping of a manifest: the fields for which the reader has
    asked, with their types.
    """

    def __init__(self) -> None:
        self.properties: dict[str, Any] = {}
        self.is_open = False
        """Whether the reader iterated over the mapping, so that it may have any keys."""

    def add(self, key: str, kind: Any) -> None:
        """Record that the reader asked for `key` with the type `kind`.

        If the reader asks several times, the first type is kept, except that any type replaces
        `_ANY`.
        """
        found = self.properties.get(key, _ANY)
        if found == _ANY:
            self.properties[key] = kind
        elif isinstance(found, _Mapping):
            found.is_open = found.is_open or kind != _ANY

    def below(self, key: str, as_list: bool) -> _Mapping:
        """Return the mapping at `key` or, with `as_list`, the mapping of each item of the list at
        `key`.
        """
        found = self.properties.get(key)
        inner = found[0] if isinstance(found, list) and found else found
        if not isinstance(inner, _Mapping):
            inner = _Mapping()
            inner.is_open = found is not None and found != _ANY
            self.properties[key] = [inner] if as_list else inner
        return inner

    def schema(self) -> dict[str, Any]:
        """Return the mapping as JSON Schema."""
        return {
            "type": "object",
            "properties": {key: _schema(kind) for key, kind in sorted(self.properties.items())},
            "additionalProperties": self.is_open,
        }


def _schema(kind: Any) -> dict[str, Any]:
    if isinstance(kind, list):
        return {"type": "array", "items": kind[0].schema()}
    found: dict[str, Any] = kind.schema() if isinstance(kind, _Mapping) else kind
    return found


class _Names(dict[str, Any]):
    """The keys of a mapping that is recorded for the schema. If the reader iterates over them, the
    schema allows any key.
    """

    def __init__(self, mapping: _Mapping, is_given: bool) -> None:
        super().__init__()
        self._mapping = mapping
        self._is_given = is_given

    def __iter__(self) -> Iterator[str]:
        self._mapping.is_open = True
        return iter(())

    def keys(self) -> Any:
        self._mapping.is_open = True
        return super().keys()

    def __contains__(self, key: object) -> bool:
        return self._is_given


class _Asked(Fields):
    """A stand-in for Fields, which records the reader's calls. `is_given`: whether it claims that
    each field is given.
    """

    def __init__(
        self, mapping: _Mapping, is_given: bool, said: dict[str, str], path: Path = ()
    ) -> None:
        super().__init__(Text({}, None), path, {}, Report())
        self._mapping = mapping
        self._is_given = is_given
        self._said = said
        self.known = _Names(mapping, is_given)

    # A stand-in has no real values, so nothing in it is wrong or unknown.

    def error(self, key: str | Path, code: str, reason: str) -> None: ...

    def warn(self, key: str | Path, code: str, reason: str) -> None: ...

    def unused(self, key: str, why: str) -> None:
        """Record the field as one without effect in Phalanx."""
        self._mapping.add(key, {"description": f"Has no meaning here: {why}"})

    def warn_unknown(self) -> None: ...

    def has(self, key: str) -> bool:
        """Return `is_given`, whatever the key."""
        return self._is_given

    def raw(self, key: str) -> Any:
        """Record a field of any type."""
        self._mapping.add(key, _ANY)
        return None

    def text(self, key: str, default: str = "") -> str:
        """Record a text."""
        self._mapping.add(key, {"type": "string"})
        return self._said.get(key, default)

    def choice(self, key: str, allowed: tuple[T, ...], default: T) -> T:
        """Record a field with these allowed values."""
        self._mapping.add(key, {"enum": list(allowed)})
        return default

    def optional_whole(self, key: str) -> int | None:
        """Record a whole number."""
        self._mapping.add(key, {"type": "integer"})
        return None

    def flag(self, key: str, default: bool = False) -> bool:
        """Record a flag."""
        self._mapping.add(key, {"type": "boolean"})
        return default

    def loose_text(self, key: str) -> str:
        """Record a text that may be written without quotes."""
        self._mapping.add(key, _LOOSE)
        return ""

    def texts(self, key: str) -> tuple[str, ...]:
        """Record a list of texts."""
        self._mapping.add(key, {"type": "array", "items": _LOOSE})
        return ()

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """Record a mapping of texts."""
        self._mapping.add(key, {"type": "object", "additionalProperties": _LOOSE})
        return ()

    def amounts(self, key: str, names: dict[str, str] = HOUSE) -> tuple[tuple[str, float], ...]:
        """Record a mapping of amounts."""
        self._mapping.add(key, {"type": "object", "additionalProperties": _AMOUNT})
        return ()

    def fields(self, key: str) -> Fields:
        """Record a mapping, and return its fields."""
        inner = self._mapping.below(key, as_list=False)
        return _Asked(inner, self._is_given, {}, (*self.path, key))

    def items(self, key: str) -> list[Fields]:
        """Record a list of mappings, and return the fields of one item."""
        inner = self._mapping.below(key, as_list=True)
        return [_Asked(inner, self._is_given, {}, (*self.path, key, 0))]


def manifest_schema() -> dict[str, Any]:
    """Return the JSON Schema of a document of a manifest file."""
    kinds = {"enum": sorted(GROUPS)}
    return {
        "$schema": DRAFT,
        "title": "Manifests that Phalanx reads",
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": kinds},
        "allOf": [
            {"if": {"properties": {"kind": {"const": kind}}}, "then": _of_kind(kind)}
            for kind in sorted(GROUPS)
        ],
    }


def _of_kind(kind: str) -> dict[str, Any]:
    top = _Mapping()
    said = {"kind": kind, "apiVersion": GROUPS[kind][0]}
    for is_given in (False, True):
        # The stand-in says that a field is given although it has no value, so a reader may fail.
        with contextlib.suppress(TypeError, AttributeError, KeyError, IndexError, ValueError):
            read_object(_Asked(top, is_given, said))
    schema = top.schema()
    _name_plugins(schema)
    return schema


def _name_plugins(schema: dict[str, Any]) -> None:
    """Allow only known plugins as the plugins of a job."""
    for key, inner in schema.get("properties", {}).items():
        if key == "plugins":
            arguments = {"type": "array", "items": _LOOSE}
            inner["properties"] = dict.fromkeys(sorted(OPTIONS), arguments)
            inner["additionalProperties"] = False
        elif isinstance(inner, dict):
            _name_plugins(inner)
