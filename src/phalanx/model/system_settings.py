"""What a cluster is told about its own working: limits that few programs touch, Ray's settings.

They are given where a cluster starts, by Ray's names, and every process of it goes by them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

INLINE_BYTES = 100 * 1024
LINEAGE_BYTES = 1 << 30
DEAD_ACTORS = 10_000
STREAM_ITEMS = 100_000_000


class SystemSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one cluster."""

    inline_bytes: int = INLINE_BYTES
    """Values up to this size travel in messages; larger ones live in shared memory."""
    lineage_bytes: int = LINEAGE_BYTES
    """How much of its tasks' arguments an owner keeps, to make lost results again."""
    makes_again: bool = True
    """Whether lost results are made again."""
    records_places: bool = False
    """Whether processes note where in the program objects were made."""
    dead_actors: int = DEAD_ACTORS
    """So many actors that have ended the head still knows."""
    stream_items: int = STREAM_ITEMS
    """A task or call whose generator gives more items than these fails."""
    spread_threshold: float | None = None
    """Tasks go elsewhere once so much of a node is used, from 0 to 1; None: once it is full."""
    idle_lease_ms: int | None = None
    """So many milliseconds a process keeps a worker that has nothing to do; 0: none. None: 300,
    and less where somebody else may wait for what it holds."""
    memory_limit: float | None = None
    """The share of memory beyond which workers are ended, on the nodes that are started with it."""


DEFAULT_SETTINGS = SystemSettings()

_RAYS: Mapping[str, str] = {
    "max_direct_call_object_size": "inline_bytes",
    "max_lineage_bytes": "lineage_bytes",
    "lineage_pinning_enabled": "makes_again",
    "record_ref_creation_sites": "records_places",
    "maximum_gcs_destroyed_actor_cached_count": "dead_actors",
    "max_num_generator_returns": "stream_items",
    "scheduler_spread_threshold": "spread_threshold",
    "memory_usage_threshold": "memory_limit",
    "worker_lease_timeout_milliseconds": "idle_lease_ms",
}
"""The names of Ray's settings that mean something here."""
_SHARES = ("spread_threshold", "memory_limit")


def read_system_settings(
    given: Mapping[str, Any] | None, variables: Mapping[str, str] | None = None
) -> SystemSettings:
    """Settings by Ray's names, as `_system_config` has them; others tune what is not here, and do
    nothing. `variables`: of the environment, where `RAY_NAME` stands for a setting that is not
    given. Raises ValueError for a value that a setting cannot have.
    """
    found: dict[str, Any] = {}
    for name, field in _RAYS.items():
        if name in (given or {}):
            found[field] = _checked(name, field, (given or {})[name])
        elif (text := (variables or {}).get(f"RAY_{name}")) is not None:
            found[field] = _checked(f"RAY_{name}", field, _parsed(text))
    return SystemSettings(**found)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text.lower())
    except ValueError:
        return text


def _checked(name: str, field: str, value: Any) -> Any:
    kind = "a share from 0 to 1" if field in _SHARES else "a whole number of at least 0"
    if field in ("makes_again", "records_places"):
        if value in (True, False):
            return bool(value)
        kind, is_fine = "true or false", False
    elif field in _SHARES:
        is_fine = isinstance(value, int | float) and 0 <= value <= 1
    else:
        is_fine = isinstance(value, int) and value >= 0
    if not is_fine:
        raise ValueError(f"The setting {name} is {kind}, not {value!r}.")
    return value
