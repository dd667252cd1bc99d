"""Encodes the options that decide on which node, and in which environment, work runs.

The result has the form that the node reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from phalanx.errors import RuntimeEnvSetupError
from phalanx.model.environments import (
    IMAGE_FIELDS,
    TOOL_LABEL,
    TOOLS,
    TOOLS_FOR_WORKERS,
    given_tool,
)
from phalanx.model.nearest import nearest
from phalanx.model.options import named_strategy
from phalanx.runtime.driver.job_settings import JobSettings
from phalanx.runtime.engine import dialect
from phalanx.scheduler.placement.labels import NODE_LABEL, parse_selector
from phalanx.worker.context import placing_lease

_HAS_TOOL = (TOOL_LABEL, "In", list(TOOLS_FOR_WORKERS))
"""The condition that a node must meet to run work in an image."""


@runtime_checkable
class Strategy(Protocol):
    """A scheduling strategy object."""

    def to_wire(self, resources: Mapping[str, float], name: str) -> dict[str, Any]:
        """Return the strategy in the form that the node reads.

        Raises ValueError if the request of `name` cannot fit.
        """
        ...


def strategy_of(
    options: Mapping[str, Any],
    resources: Mapping[str, float],
    name: str,
    captured: bytes | None = None,
    *,
    has_image: bool = False,
) -> dict[str, Any]:
    """Return the strategy in the options of the function or class `name`.

    `captured`: the placement group of work that names no strategy. `has_image`: whether the work
    needs a node with a tool for containers.
    """
    strategy = named_strategy(options)
    wire: dict[str, Any] = {}
    if isinstance(strategy, Strategy):
        wire = strategy.to_wire(resources, name)
    elif strategy == "SPREAD":
        wire = {"name": strategy}
    elif strategy is not None and not isinstance(strategy, str):
        raise ValueError(f"scheduling_strategy must be a strategy, got {strategy!r}.")
    elif captured and strategy is None and options.get("placement_group", "default") == "default":
        wire = {"group": captured.hex(), "bundle": -1, "capture": True}
    selector = options.get("label_selector")
    if selector:
        fallback = [f["label_selector"] for f in options.get("fallback_strategy") or ()]
        wire["labels"] = [_conditions(one) for one in (selector, *fallback)]
        has_place = "group" in wire or "node_id" in wire
        if not has_place and not fallback:
            for key, operator, values in wire["labels"][0]:
                if (key, operator, len(values)) == (NODE_LABEL, "In", 1):
                    # the label names one node by its id
                    wire |= {"node_id": values[0], "soft": False}
    if has_image:
        wire["labels"] = [[*one, _HAS_TOOL] for one in wire.get("labels", [[]])]
    if 0 < (options.get("num_gpus") or 0) < 1 and not _limits_gpu_memory():
        wire["any_gpu_memory"] = True
    return wire


def _limits_gpu_memory() -> bool:
    spoken = dialect.current()
    return spoken is None or spoken.limits_gpu_memory


def capturing_group() -> bytes | None:
    """Return the placement group that the running task or actor passes on to the work that it
    submits.
    """
    lease = placing_lease()
    return lease.group if lease is not None and lease.capture else None


def _conditions(selector: Mapping[str, str]) -> list[tuple[str, str, list[str]]]:
    """Return a label selector in the form that the node reads. Raises ValueError for a malformed
    selector.
    """
    names = {"in": "In", "not in": "NotIn"}
    return [(c.key, names[c.operator], list(c.values)) for c in parse_selector(selector).conditions]


def encode_strategy(wire: Mapping[str, Any]) -> bytes:
    """Return a strategy as bytes. Equal strategies give equal bytes, because the bytes are part of
    the key of a scheduling class.
    """
    return msgspec.json.encode(wire, order="sorted") if wire else b""


_SUPPORTED = frozenset(
    {
        *("pip", "uv", *IMAGE_FIELDS),
        *("env_vars", "working_dir", "py_modules", "config", "excludes", "profile"),
        "worker_process_setup_hook",
    }
)


def environment_of(job: JobSettings, options: Mapping[str, Any]) -> bytes:
    """Return the key of the runtime environment that these options and the job's environment give
    together; b"" for no environment. Raises RuntimeEnvSetupError for a field that is not supported.
    """
    own = dict(options.get("runtime_env") or {})
    parent = job.environment
    if not own and not parent:
        return b""
    unknown = sorted(set(own) - _SUPPORTED)
    if unknown:
        raise RuntimeEnvSetupError(
            f"runtime_env field(s) {', '.join(unknown)} are not supported on this engine"
            f"{nearest(str(unknown[0]), _SUPPORTED) or '.'} Supported: "
            f"{', '.join(sorted(_SUPPORTED))}."
        )
    own = job.portable(own)
    variables = {**(parent.get("env_vars") or {}), **(own.get("env_vars") or {})}
    if given_tool(own):
        parent = {name: value for name, value in parent.items() if name not in TOOLS}
    merged = {**parent, **own, "env_vars": variables}
    merged.pop("worker_process_setup_hook", None)
    if not any(merged.values()):
        return b""
    return job.environment_key(merged)
