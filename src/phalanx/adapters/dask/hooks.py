"""Hooks that are called around the tasks of a computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dask._task_spec import GraphNode

Hook = Callable[..., Any]


class Hooks(NamedTuple):
    """The hooks of a computation, several functions of each kind.

    Hooks that run in workers are pickled. If a hook raises an error, its task or the computation
    fails.
    """

    presubmit: Sequence[Hook] = ()
    """Functions called with (node, key, inputs) before a task is submitted.

    The first result that is not None replaces the node's result, and no task runs.
    """
    postsubmit: Sequence[Hook] = ()
    """Functions called with (node, key, inputs, ref) after the node's task was submitted."""
    pretask: Sequence[Hook | None] = ()
    """Functions called in the worker with (key, values of the node's inputs) before the node
    runs.
    """
    posttask: Sequence[Hook | None] = ()
    """Functions called in the worker with (key, result, answer) after the node has run. `answer` is
    the result of the hook with the same index in `pretask`.
    """
    postsubmit_all: Sequence[Hook] = ()
    """Functions called with (references, graph) when all tasks were submitted. The references are
    in nested tuples, as the requested keys are in nested lists.
    """
    finish: Sequence[Hook] = ()
    """Functions called with (result) at the end of the computation."""

    def in_worker(self) -> Hooks | None:
        """Return the hooks that run in workers; None without such hooks."""
        if not any(self.pretask) and not any(self.posttask):
            return None
        return Hooks(pretask=self.pretask, posttask=self.posttask)

    def in_place_of(self, node: GraphNode, key: Any, inputs: Mapping[Any, Any]) -> Any:
        """Return a replacement of the node's result; None if its task has to run."""
        answers = [hook(node, key, inputs) for hook in self.presubmit]
        return next((answer for answer in answers if answer is not None), None)

    def after_submit(self, node: GraphNode, key: Any, inputs: Mapping[Any, Any], ref: Any) -> None:
        """Call the hooks for a task that was submitted."""
        for hook in self.postsubmit:
            hook(node, key, inputs, ref)

    def run(self, node: GraphNode, values: Mapping[Any, Any]) -> Any:
        """Run a node in the worker, with its hooks, and return its result."""
        inputs = list(values.values())
        states = [None if hook is None else hook(node.key, inputs) for hook in self.pretask]
        result = node(values)
        for hook, state in zip(self.posttask, states, strict=True):
            if hook is not None:
                hook(node.key, result, state)
        return result

    def submitted(self, refs: Any, graph: Any) -> None:
        """Call the hooks after all tasks were submitted."""
        for hook in self.postsubmit_all:
            hook(refs, graph)

    def finished(self, result: Any) -> None:
        """Call the hooks for the result that the caller gets."""
        for hook in self.finish:
            hook(result)
