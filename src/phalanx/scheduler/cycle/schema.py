"""The JSON Schema of the scheduler's configuration, made from the arguments that plugins and
actions accept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.scheduler.cycle.accepted import (
    DURATION,
    FLAG,
    FOREIGN,
    NUMBER,
    ONLY_ONE,
    QUANTITY,
    TEXT,
    WHOLE,
    Accepted,
    Kind,
)
from phalanx.scheduler.cycle.config import ACTIONS, SWITCHES, Known

DRAFT = "http://json-schema.org/draft-07/schema#"
_SCALAR = ["string", "number", "boolean"]
"""YAML's scalar types. Each is accepted for every kind of value, because configurations for Volcano
quote some values and not others.
"""
_TYPES: dict[Kind, Any] = {
    NUMBER: ["number", "string"],
    WHOLE: ["integer", "string"],
    FLAG: ["boolean", "string", "integer"],
    ONLY_ONE: ["boolean", "string", "integer"],
    TEXT: "string",
    DURATION: "string",
    QUANTITY: ["string", "number"],
}


def configuration_schema(plugins: Known) -> dict[str, Any]:
    """Return the JSON Schema of a configuration in Volcano's format, with these plugins."""
    switches = {
        f"enable{switch[0].upper()}{switch[1:]}": {"type": "boolean"} for switch in sorted(SWITCHES)
    }
    plugin = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"enum": sorted(plugins)}, "arguments": {"type": "object"}},
        "patternProperties": {"^enabled?[A-Z]": {"type": "boolean"}},
        "additionalProperties": False,
        "allOf": [_of(name, plugins[name]) for name in sorted(plugins)],
    }
    plugin["properties"] |= switches  # type: ignore[operator]
    tier = {
        "type": "object",
        "required": ["plugins"],
        "properties": {"plugins": {"type": "array", "items": plugin}},
        "additionalProperties": False,
    }
    action = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"enum": sorted(ACTIONS)}, "arguments": {"type": "object"}},
        "additionalProperties": False,
        "allOf": [_of(name, accepted) for name, accepted in sorted(ACTIONS.items())],
    }
    return {
        "$schema": DRAFT,
        "title": "Configuration of the scheduler of Phalanx",
        "type": "object",
        "required": ["actions", "tiers"],
        "properties": {
            "actions": {
                "type": "string",
                "description": f"Separated by commas: {', '.join(ACTIONS)}",
            },
            "tiers": {"type": "array", "items": tier},
            "configurations": {"type": "array", "items": action},
            "metrics": {"description": "Has no meaning here."},
        },
        "additionalProperties": False,
    }


def _of(name: str, accepted: Accepted | None) -> dict[str, Any]:
    """Return the schema of one entry's arguments. If the plugin declares none, any arguments are
    allowed.
    """
    arguments = {"type": ["object", "null"]} if accepted is None else _members(accepted)
    return {
        "if": {"properties": {"name": {"const": name}}},
        "then": {"properties": {"arguments": arguments}},
    }


def _members(accepted: Accepted) -> dict[str, Any]:
    exact = {key: _value(kind) for key, kind in accepted.items() if not key.endswith("*")}
    prefixes = {
        f"^{key[:-1].replace('.', '[.]')}": _value(kind)
        for key, kind in accepted.items()
        if key.endswith("*")
    }
    schema = {"type": ["object", "null"], "properties": exact, "additionalProperties": False}
    return schema | {"patternProperties": prefixes} if prefixes else schema


def _value(kind: Kind | Accepted) -> dict[str, Any]:
    if isinstance(kind, Mapping):
        if "[]" in kind:
            return {"type": "array", "items": _value(kind["[]"])}
        return _members(kind)
    if kind is FOREIGN:
        return {"description": "Has no meaning here."}
    return {"type": _TYPES.get(kind, _SCALAR), "description": kind.says}
