"""The runtime context, under Ray's name of the module."""

from __future__ import annotations

from phalanx.api.runtime_context import get_runtime_context
from phalanx.runtime.engine.runtime_context import RuntimeContext

__all__ = ["RuntimeContext", "get_runtime_context"]
