"""The runtime context: the job, node, worker, task, actor and resources of the calling code."""

from __future__ import annotations

from phalanx.api.session import engine_or_start
from phalanx.runtime.engine.runtime_context import RuntimeContext


def get_runtime_context() -> RuntimeContext:
    """Return the runtime context of the calling code: its job, node, worker, task and actor.

    Example:
        node = phalanx.get_runtime_context().get_node_id()
    """
    context: RuntimeContext = engine_or_start().runtime_context()
    return context


def get_gpu_ids() -> list[int] | list[str]:
    """Return the numbers of the GPUs that the calling task or actor may use.

    Example:
        @phalanx.remote(num_gpus=1)
        def devices() -> list[int] | list[str]:
            return phalanx.get_gpu_ids()
    """
    return engine_or_start().gpu_ids()
