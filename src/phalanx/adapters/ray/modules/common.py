"""`ray._common.utils` and `ray._private.utils`: small functions that programs use."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from phalanx.adapters.ray.modules.constants import (
    RESOURCE_CONSTRAINT_PREFIX,
    env_bool,
    env_float,
    env_integer,
)
from phalanx.runtime.os.detection import cpu_count, memory_bytes
from phalanx.runtime.os.memory_room import fullest_memory

INT32_MAX = (1 << 31) - 1


def get_or_create_event_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop, or else the thread's event loop. A thread without an event
    loop gets a new event loop.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        pass
    try:
        loop = asyncio.get_event_loop_policy().get_event_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
    return loop


def hex_to_binary(text: str) -> bytes:
    """Return the bytes of hex digits."""
    return bytes.fromhex(text)


def binary_to_hex(data: bytes) -> str:
    """Return the hex digits of bytes."""
    return data.hex()


def decode(text: str | bytes | None, allow_none: bool = False, encode_type: str = "utf-8") -> str:
    """Return the text of bytes or text. Raises ValueError for anything else."""
    if isinstance(text, bytes):
        return text.decode(encode_type)
    if isinstance(text, str):
        return text
    if text is None and allow_none:
        return ""
    raise ValueError(f"expected bytes or str, not {type(text)}")


def get_system_memory() -> int:
    """Return the bytes of memory that this process may use."""
    return memory_bytes()


def get_used_memory() -> int:
    """Return the used bytes of the memory that this process may use."""
    return fullest_memory().used_bytes


def get_num_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return cpu_count()


def get_ray_doc_version() -> str:
    """Return the version in the documentation's address."""
    return "latest"


def reset_ray_address(*_: object) -> None:
    """Do nothing: Phalanx keeps no file with the address of the last cluster."""


def run_background_task(coroutine: Any) -> asyncio.Task[Any]:
    """Start a coroutine in the background. The caller need not keep a reference to its task."""
    task = asyncio.get_running_loop().create_task(coroutine)
    _background.add(task)
    task.add_done_callback(_background.discard)
    return task


_background: set[asyncio.Task[Any]] = set()


def import_attr(path: str) -> Any:
    """Import `package.module.name` or `package.module:name`."""
    import importlib

    module, _, name = path.replace(":", ".").rpartition(".")
    return getattr(importlib.import_module(module), name)


load_class = import_attr


def get_function_args(function: Callable[..., Any]) -> list[str]:
    """Return the names of the function's parameters."""
    return list(inspect.signature(function).parameters)


def get_default_system_temp_dir() -> str:
    """Return the directory for temporary files."""
    return os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"


def try_to_create_directory(path: str) -> None:
    """Create the directory and its parents where they do not exist."""
    Path(path).expanduser().mkdir(parents=True, exist_ok=True)


def get_call_location(back: int = 1) -> str:
    """Return FILE:LINE of a caller."""
    import sys

    frame = sys._getframe(back + 1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


__all__ = [
    "INT32_MAX",
    "RESOURCE_CONSTRAINT_PREFIX",
    "binary_to_hex",
    "decode",
    "env_bool",
    "env_float",
    "env_integer",
    "get_call_location",
    "get_default_system_temp_dir",
    "get_function_args",
    "get_num_cpus",
    "get_or_create_event_loop",
    "get_ray_doc_version",
    "get_system_memory",
    "get_used_memory",
    "hex_to_binary",
    "import_attr",
    "load_class",
    "reset_ray_address",
    "run_background_task",
    "try_to_create_directory",
]
