"""Where the calling code runs: its job, node, worker, task, actor and resources."""

from __future__ import annotations

from phalanx.api.session import engine_or_start
from phalanx.runtime.engine.runtime_context import RuntimeContext


def get_runtime_context() -> RuntimeContext:
    """Where the calling code runs."""
    context: RuntimeContext = engine_or_start().runtime_context()
    return context


def get_gpu_ids() -> list[int] | list[str]:
    """The numbers of the GPUs that the calling task or actor may use."""
    return engine_or_start().gpu_ids()
