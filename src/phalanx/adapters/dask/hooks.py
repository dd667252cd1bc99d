"""What may be called around the tasks of a computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dask._task_spec import GraphNode

Hook = Callable[..., Any]


class Hooks(NamedTuple):
    """Functions of each kind; those in workers travel by pickle. An error in one fails the work."""

    presubmit: Sequence[Hook] = ()
    """(node, key, inputs): what they return stands for the node's result, and no task runs; the
    first that is not None counts."""
    postsubmit: Sequence[Hook] = ()
    """(node, key, inputs, ref)."""
    pretask: Sequence[Hook | None] = ()
    """In the worker: (key, values of its inputs)."""
    posttask: Sequence[Hook | None] = ()
    """In the worker: (key, result, what the one at the same place in `pretask` returned)."""
    postsubmit_all: Sequence[Hook] = ()
    """(references, in nested tuples as the keys are; the graph)."""
    finish: Sequence[Hook] = ()
    """(result)."""

    def in_worker(self) -> Hooks | None:
        """Those that go with tasks; None: none does."""
        if not any(self.pretask) and not any(self.posttask):
            return None
        return Hooks(pretask=self.pretask, posttask=self.posttask)

    def in_place_of(self, node: GraphNode, key: Any, inputs: Mapping[Any, Any]) -> Any:
        """What is to stand for the node's result; None where its task has to run."""
        answers = [hook(node, key, inputs) for hook in self.presubmit]
        return next((answer for answer in answers if answer is not None), None)

    def after_submit(self, node: GraphNode, key: Any, inputs: Mapping[Any, Any], ref: Any) -> None:
        """Its task was started."""
        for hook in self.postsubmit:
            hook(node, key, inputs, ref)

    def run(self, node: GraphNode, values: Mapping[Any, Any]) -> Any:
        """In the worker: the node's result."""
        inputs = list(values.values())
        states = [None if hook is None else hook(node.key, inputs) for hook in self.pretask]
        result = node(values)
        for hook, state in zip(self.posttask, states, strict=True):
            if hook is not None:
                hook(node.key, result, state)
        return result

    def submitted(self, refs: Any, graph: Any) -> None:
        """All tasks were started, and are done."""
        for hook in self.postsubmit_all:
            hook(refs, graph)

    def finished(self, result: Any) -> None:
        """The caller gets this."""
        for hook in self.finish:
            hook(result)
