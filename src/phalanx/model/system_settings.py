"""Settings of a cluster's internals, under Ray's names: limits that few programs change.

The settings are given where a cluster starts, and apply to all its processes.
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
    """The largest size in bytes of a value that travels in messages; larger values are put into
    shared memory.
    """
    lineage_bytes: int = LINEAGE_BYTES
    """The largest number of bytes of its tasks' arguments that an owner keeps, so that it can
    compute lost results again.
    """
    makes_again: bool = True
    """Whether owners compute lost results again."""
    records_places: bool = False
    """Whether processes record the line of the program that created each object."""
    dead_actors: int = DEAD_ACTORS
    """The number of ended actors that the head remembers."""
    stream_items: int = STREAM_ITEMS
    """The largest number of items from the generator of a task or call; a generator with more items
    fails.
    """
    spread_threshold: float | None = None
    """A used fraction of a node, from 0 to 1. Above it, new tasks go to other nodes. None: they go
    to other nodes only when the node is full.
    """
    idle_lease_ms: int | None = None
    """Milliseconds for which a process keeps an idle worker; 0 to keep none. None stands for 300
    milliseconds, or less if other work may wait for the worker's resources.
    """
    memory_limit: float | None = None
    """The share of a machine's memory above which nodes end workers. The limit applies to nodes
    that are started with this setting.
    """


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
"""Ray's names of the settings that have an effect in Phalanx, with the fields of SystemSettings."""
_SHARES = ("spread_threshold", "memory_limit")


def read_system_settings(
    given: Mapping[str, Any] | None, variables: Mapping[str, str] | None = None
) -> SystemSettings:
    """Return settings from values by Ray's names, as in `_system_config`; settings that Phalanx
    does not have are ignored.

    A setting that `given` does not have is read from the environment variable `RAY_NAME`. Raises
    ValueError for a value that a setting cannot have.
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
        raise ValueError(f"The setting {name} must be {kind}, not {value!r}.")
    return value
