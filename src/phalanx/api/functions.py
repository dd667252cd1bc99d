"""Remote functions, which `@phalanx.remote` makes from functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

from phalanx.api.call_types import Remote
from phalanx.api.gangs import DEFAULT_GRACE_S, GangedFunction, GangOptions
from phalanx.api.labels import check_labels
from phalanx.api.session import check_queue, engine_or_start
from phalanx.model.options import check_place, check_task_options
from phalanx.objects.dag import FunctionNode
from phalanx.runtime.engine import interface
from phalanx.runtime.engine.definitions import INVOCATION_DECORATOR, FunctionDefinition
from phalanx.runtime.engine.interface import Call, Engine

P = ParamSpec("P")
R = TypeVar("R")


class RemoteFunction(Generic[P, R]):
    """A function whose calls run as tasks: `f.remote(...)` returns a reference to the result.

    Example:
        @phalanx.remote
        def square(x: int) -> int:
            return x * x

        assert phalanx.get(square.remote(4)) == 16
    """

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        if inspect.iscoroutinefunction(function):
            raise ValueError(
                "'async def' should not be used for remote tasks. Use a plain function that calls "
                "asyncio.run, or an async actor."
            )
        check_task_options(options)
        check_labels(options)
        check_place(options)
        _check_returns(function, options)
        self._definition = FunctionDefinition(function)
        self._options = options
        self._bound: Call | None = None
        self._engine: Engine | None = None
        functools.update_wrapper(self, function)
        decorate = getattr(function, INVOCATION_DECORATOR, None)
        if decorate is not None:
            self.remote = _decorated(decorate, self.remote)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            "Remote functions cannot be called directly. Instead of running "
            f"'{self._definition.name}()', try '{self._definition.name}.remote()'."
        )

    def _submit(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the function as a task. Returns a reference, a list of references, or a generator.

        Raises TypeError when the arguments do not fit the function, and QueueUnavailableError when
        the options name a queue that takes no work.
        """
        engine = interface._current
        if engine is None:
            engine = engine_or_start()
        call = self._bound
        if call is None or self._engine is not engine:
            check_queue(engine, self._options)
            call = engine.bind_function(self._definition, self._options)
            self._bound, self._engine = call, engine
        definition = self._definition
        if kwargs or len(args) != definition.exact:
            definition.arity.check(definition.name, args, kwargs)
        return call(args, kwargs)

    remote: Remote[P, R] = _submit

    @overload
    def options(self, *, num_returns: int | str, **options: Any) -> OptionedFunction[P, Any]: ...
    @overload
    def options(self, **options: Any) -> OptionedFunction[P, R]: ...
    def options(self, **options: Any) -> OptionedFunction[Any, Any]:
        """Return the same function with other options, which apply to the calls made through the
        returned function.

        Raises ValueError or TypeError for an option or a value that is not allowed.

        Example:
            ref = square.options(num_cpus=2, max_retries=0).remote(4)
        """
        check_task_options(options, in_options=True)
        check_labels(options)
        check_place({**self._options, **options})
        _check_returns(self._definition.function, options)
        return OptionedFunction(self, options)

    def _remote(self, args: Sequence[Any] | None = None, kwargs: Any = None, **options: Any) -> Any:
        """Call the function with options, in Ray's older way, which some programs still use."""
        target = self.options(**options) if options else self
        return target.remote(*(args or ()), **(kwargs or {}))

    def gang(
        self,
        members: int,
        *,
        min_members: int | None = None,
        queue: str | None = None,
        priority: int | None = None,
        topology: str | None = None,
        ports: int = 1,
        grace_s: float = DEFAULT_GRACE_S,
    ) -> GangedFunction:
        """Return a function whose `remote` starts tasks as a gang: all of them or none.

        `min_members` (default: all) is the number of members that must be placed before any starts.
        `topology` "node" (or "nvlink") places all members on one node; "rack" places them on nodes
        with the same value of the label `rack`. `ports` is the number of ports that are kept free
        on every node of the gang. `grace_s` is the time in seconds between SIGTERM and the end when
        the gang is preempted. Raises ValueError or TypeError for a value that is not allowed.

        Example:
            refs = train.options(num_gpus=1).gang(4, topology="node").remote("config.toml")
            losses = phalanx.get(refs)
        """
        gang = GangOptions(
            members=members,
            min_members=min_members,
            queue=queue,
            priority=priority,
            topology=topology,
            ports=ports,
            grace_s=grace_s,
        )
        return GangedFunction(self._definition, self._options, gang)

    def bind(self, /, *args: Any, **kwargs: Any) -> FunctionNode:
        """Return the node of a graph of calls that calls this function when the graph is executed
        (see `objects.dag`).
        """
        return FunctionNode(self, args, kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self._definition.function, "options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["function"], state["options"])  # type: ignore[misc]

    def __reduce__(self) -> Any:
        return (_rebuild, (self._definition.function, self._options))


def _check_returns(function: Callable[..., Any], options: dict[str, Any]) -> None:
    returns = options.get("num_returns")
    if returns in ("streaming", "dynamic") and not inspect.isgeneratorfunction(function):
        raise ValueError(
            f"num_returns={returns!r} can only be used with generator functions, and "
            f"{function.__qualname__} does not yield."
        )


def _rebuild(function: Callable[..., Any], options: dict[str, Any]) -> RemoteFunction[Any, Any]:
    return RemoteFunction(function, options)


def _decorated(
    decorate: Callable[[Callable[..., Any]], Callable[..., Any]], remote: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrap `remote` with the program's own decorator. The decorator takes a function of (args,
    kwargs), and returns such a function.
    """
    invoke = decorate(lambda args, kwargs: remote(*args, **kwargs))

    def call(*args: Any, **kwargs: Any) -> Any:
        return invoke(args, kwargs)

    return call


class OptionedFunction(Generic[P, R]):
    """A remote function with other options, as returned by `RemoteFunction.options`."""

    def __init__(self, function: RemoteFunction[P, R], options: dict[str, Any]) -> None:
        self._remote_function = function
        self._options = {**function._options, **options}
        self._bound: Call | None = None
        self._engine: Engine | None = None
        decorate = getattr(function._definition.function, INVOCATION_DECORATOR, None)
        if decorate is not None:
            self.remote = _decorated(decorate, self.remote)

    def _submit(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the function as a task with these options."""
        engine = engine_or_start()
        definition = self._remote_function._definition
        call = self._bound
        if call is None or self._engine is not engine:
            check_queue(engine, self._options)
            call = engine.bind_function(definition, self._options)
            self._bound, self._engine = call, engine
        definition.arity.check(definition.name, args, kwargs)
        return call(args, kwargs)

    remote: Remote[P, R] = _submit

    def gang(self, members: int, **options: Any) -> GangedFunction:
        """Return a function whose `remote` starts a gang, with the options of
        `RemoteFunction.gang`."""
        gang = GangOptions(members=members, **options)
        return GangedFunction(self._remote_function._definition, self._options, gang)

    def bind(self, /, *args: Any, **kwargs: Any) -> FunctionNode:
        """Return the node of a graph of calls that calls this function when the graph is executed
        (see `objects.dag`).
        """
        return FunctionNode(self, args, kwargs)
