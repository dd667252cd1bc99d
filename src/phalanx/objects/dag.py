"""Graphs of calls that are bound now and run later: `f.bind(g.bind(1)).execute()`.

Each `execute` runs every call of the graph once, with new actors. Calls that do not need each
other's results run at the same time, as if the program had made them by `remote`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Callee(Protocol):
    """A remote function, an actor class or a method, with its options."""

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function, class or method."""
        ...


class DAGNode:
    """A node of a graph. Its value is known only while the graph is executed."""

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Run this call and all calls on which it depends. Returns what calling `remote` with the
        same arguments returns.

        `args` and `kwargs` become the values of the graph's InputNode.
        """
        return _Execution(args, kwargs).value(self)

    def experimental_compile(self, *args: Any, **kwargs: Any) -> Any:
        """Raise NotImplementedError: graphs are not compiled."""
        raise NotImplementedError("Phalanx has no compiled graphs: call execute().")

    def _make(self, execution: _Execution) -> Any:
        raise NotImplementedError


class _Execution:
    """One run of a graph: the values so far, by node."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self._values: dict[int, Any] = {}

    def value(self, bound: Any) -> Any:
        """Return the value of a bound argument, which is a node or a container with nodes."""
        if isinstance(bound, DAGNode):
            if id(bound) not in self._values:
                self._values[id(bound)] = bound._make(self)
            return self._values[id(bound)]
        if type(bound) in (list, tuple, set):
            return type(bound)(self.value(item) for item in bound)
        if type(bound) is dict:
            return {key: self.value(item) for key, item in bound.items()}
        return bound


class FunctionNode(DAGNode):
    """A call of a remote function."""

    def __init__(self, callee: Callee, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._callee = callee
        self._args = args
        self._kwargs = kwargs

    def _make(self, execution: _Execution) -> Any:
        return self._callee.remote(*execution.value(self._args), **execution.value(self._kwargs))


class ClassNode(FunctionNode):
    """An actor that the graph creates. Its calls, `node.method.bind(...)`, run in the order of
    binding.
    """

    _last: ClassMethodNode | None = None

    def __getattr__(self, name: str) -> BoundMethod:
        if name.startswith("_"):
            raise AttributeError(name)
        return BoundMethod(self, name, {})


class BoundMethod:
    """A method of an actor that the graph creates."""

    def __init__(self, actor: ClassNode, name: str, options: dict[str, Any]) -> None:
        self._actor = actor
        self._name = name
        self._options = options

    def options(self, **options: Any) -> BoundMethod:
        """Return the same method with these options."""
        return BoundMethod(self._actor, self._name, {**self._options, **options})

    def bind(self, /, *args: Any, **kwargs: Any) -> ClassMethodNode:
        """Return a call of the method. The call runs after the calls that were bound before."""
        actor = self._actor
        node = ClassMethodNode(actor, self._name, self._options, args, kwargs, actor._last)
        actor._last = node
        return node


class ClassMethodNode(DAGNode):
    """A call of a method of an actor that the graph creates."""

    def __init__(
        self,
        actor: ClassNode,
        name: str,
        options: dict[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        before: ClassMethodNode | None,
    ) -> None:
        self._actor = actor
        self._name = name
        self._options = options
        self._args = args
        self._kwargs = kwargs
        self._before = before

    def _make(self, execution: _Execution) -> Any:
        if self._before is not None:
            execution.value(self._before)
        method = getattr(execution.value(self._actor), self._name)
        callee = method.options(**self._options) if self._options else method
        return callee.remote(*execution.value(self._args), **execution.value(self._kwargs))


class InputNode(DAGNode):
    """The argument of `execute`: `with InputNode() as value: f.bind(value)`.

    Its items and attributes may be bound, too.
    """

    def __enter__(self) -> InputNode:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getitem__(self, key: int | str) -> InputAttributeNode:
        return InputAttributeNode(self, lambda value: value[key], key)

    def __getattr__(self, name: str) -> InputAttributeNode:
        if name.startswith("_"):
            raise AttributeError(name)
        return InputAttributeNode(self, lambda value: getattr(value, name), name)

    def _make(self, execution: _Execution) -> Any:
        if len(execution.args) == 1 and not execution.kwargs:
            return execution.args[0]
        raise TypeError(
            "execute() takes the one value of the graph's InputNode; for several values, bind "
            "node[0] or node.name."
        )


class InputAttributeNode(DAGNode):
    """A part of the argument of `execute`: an item or an attribute. If `execute` gets several
    arguments, the part is one of these arguments.
    """

    def __init__(self, whole: InputNode, part_of: Callable[[Any], Any], key: int | str) -> None:
        self._whole = whole
        self._part_of = part_of
        self._key = key

    def _make(self, execution: _Execution) -> Any:
        if len(execution.args) == 1 and not execution.kwargs:
            return self._part_of(execution.value(self._whole))
        key = self._key
        return execution.args[key] if isinstance(key, int) else execution.kwargs[key]


class MultiOutputNode(DAGNode):
    """A node whose value is the list of several nodes' values."""

    def __init__(self, args: Any) -> None:
        self._outputs = list(args)

    def _make(self, execution: _Execution) -> Any:
        return execution.value(self._outputs)
