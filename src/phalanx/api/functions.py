"""Remote functions: what `@phalanx.remote` makes of a function."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Generator
from typing import Any, Generic, ParamSpec, TypeVar, overload

from phalanx.api.arguments import arity_of, pack_arguments
from phalanx.api.gangs import DEFAULT_GRACE_S, GangedFunction, GangOptions
from phalanx.api.placement import encode_strategy, environment_of, strategy_of
from phalanx.api.session import engine_or_start
from phalanx.engines.embedded import engine as engines
from phalanx.engines.embedded.engine import EmbeddedEngine
from phalanx.model.options import check_task_options, required_resources
from phalanx.objects.reference import ObjectRef
from phalanx.objects.serialization import blame, dumps_definition
from phalanx.objects.streams import ObjectRefGenerator, Stream
from phalanx.owner.tasks import ClassKey, FunctionRecord, Template
from phalanx.worker.context import current

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

DEFAULT_RETRIES = 3
_COUNTS: dict[Any, int] = {"streaming": -1, "dynamic": -2}


class RemoteFunction(Generic[P, R]):
    """A function whose calls run as tasks: `f.remote(...)` gives a reference to the result."""

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        if inspect.iscoroutinefunction(function):
            raise ValueError(
                "'async def' should not be used for remote tasks. Use a plain function that calls "
                "asyncio.run, or an async actor."
            )
        check_task_options(options)
        _check_returns(function, options)
        self._function = function
        self._options = options
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._arity = arity_of(function)
        self._record: FunctionRecord | None = None
        self._template: Template | None = None
        self._template_engine: EmbeddedEngine | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"Remote functions cannot be called directly. Instead of running '{self._name}()', "
            f"try '{self._name}.remote()'."
        )

    # Arguments may be references to values too, which P cannot say: the last form takes them.
    @overload
    def remote(  # type: ignore[overload-overlap]  # a generator is a result like any other, too
        self: RemoteFunction[P, Generator[T, Any, Any]], *args: Any, **kwargs: Any
    ) -> ObjectRefGenerator[T]: ...
    @overload
    def remote(self, *args: P.args, **kwargs: P.kwargs) -> ObjectRef[R]: ...
    @overload
    def remote(self, *args: Any, **kwargs: Any) -> ObjectRef[R]: ...
    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function as a task; one reference, a list of them, or a generator of them."""
        engine = engines._current
        if engine is None:
            engine = engine_or_start()
        template = self._template
        if template is None or self._template_engine is not engine:
            template = self._resolve(engine, self._options)
            self._template, self._template_engine = template, engine
        return self._submit(engine, template, args, kwargs)

    def options(self, **options: Any) -> OptionedFunction:
        """The same function with other options for the calls made through what this returns."""
        check_task_options(options, in_options=True)
        _check_returns(self._function, options)
        return OptionedFunction(self, options)

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
        """A gang of this function's tasks: `f.gang(4).remote(...)` starts all of them or none.

        `min_members` (default: all) must have places for any to start. `topology` "node" (or
        "nvlink") puts all on one node, "rack" on nodes with one value of the label `rack`.
        `ports`: so many are free on every node of the gang. `grace_s`: seconds between SIGTERM
        and the end when it is preempted.
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
        return GangedFunction(self, self._options, gang)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Not there: task graphs are built by passing references."""
        raise NotImplementedError(
            "bind() belongs to compiled graphs, which Phalanx does not have: pass the references "
            "that remote() returns to the next call instead."
        )

    def _submit(
        self,
        engine: EmbeddedEngine,
        template: Template,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        self._arity.check(self._name, args, kwargs)
        runtime = engine.runtime
        payload, inputs, pins = pack_arguments(runtime, self._name, args, kwargs)
        context = current.get()
        parent = None if context is None else (context.owner, context.number)
        returns = template.returns
        if returns == 1:
            return runtime.tasks.submit(template, payload, inputs, pins, parent)[0]
        stream = None
        if returns < 0:
            stream = Stream(runtime, runtime.process_id)
        refs = runtime.tasks.submit(template, payload, inputs, pins, parent, stream)
        if returns == -1:
            assert stream is not None
            return ObjectRefGenerator(stream)
        if returns == -2:
            return refs[0]
        return None if returns == 0 else refs

    def _resolve(self, engine: EmbeddedEngine, options: dict[str, Any]) -> Template:
        record = self._record
        if record is None:
            record = self._define(options)
        resources = required_resources(options, default_cpus=1)
        returns: Any = options.get("num_returns")
        if returns is None:
            returns = "streaming" if inspect.isgeneratorfunction(self._function) else 1
        count = _COUNTS.get(returns, returns)
        retries = options.get("max_retries")
        timeout_s = options.get("timeout_s")
        strategy = strategy_of(options, resources)
        key = ClassKey(
            resources=tuple(sorted(resources.items())),
            environment=environment_of(engine, options),
            strategy=encode_strategy(strategy),
            queue=options.get("queue") or engine.queue,
            priority=engine.priority if (chosen := options.get("priority")) is None else chosen,
            single=timeout_s is not None or record.max_calls > 0,
            each=strategy.get("name") == "SPREAD",
        )
        return Template(
            function=record,
            key=key,
            name=options.get("name") or self._function.__name__,
            returns=count,
            max_retries=DEFAULT_RETRIES if retries is None else retries,
            retry_exceptions=options.get("retry_exceptions") or False,
            timeout_s=timeout_s,
            backpressure=options.get("_generator_backpressure_num_objects") or -1,
        )

    def _define(self, options: dict[str, Any]) -> FunctionRecord:
        try:
            data = dumps_definition(self._function)
        except Exception as error:
            raise TypeError(
                f"The remote function {self._name} cannot be sent to workers: "
                f"{blame(self._function, error)}"
            ) from error
        max_calls = options.get("max_calls")
        if max_calls is None:
            # As Ray: a worker that used a GPU ends, since many libraries keep its memory.
            max_calls = 1 if options.get("num_gpus") else 0
        digest = hashlib.sha256(data + str(max_calls).encode()).digest()[:12]
        self._record = FunctionRecord(digest, self._function.__name__, data, max_calls)
        return self._record

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self._function, "options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["function"], state["options"])  # type: ignore[misc]

    def __reduce__(self) -> Any:
        return (_rebuild, (self._function, self._options))


def _check_returns(function: Callable[..., Any], options: dict[str, Any]) -> None:
    returns = options.get("num_returns")
    if returns in ("streaming", "dynamic") and not inspect.isgeneratorfunction(function):
        raise ValueError(
            f"num_returns={returns!r} needs a generator function, and {function.__qualname__} "
            "does not yield."
        )


def _rebuild(function: Callable[..., Any], options: dict[str, Any]) -> RemoteFunction[Any, Any]:
    return RemoteFunction(function, options)


class OptionedFunction:
    """A remote function with options of its own."""

    def __init__(self, function: RemoteFunction[Any, Any], options: dict[str, Any]) -> None:
        self._remote_function = function
        self._options = {**function._options, **options}
        self._template: Template | None = None
        self._engine: EmbeddedEngine | None = None

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function as a task with these options."""
        engine = engine_or_start()
        template = self._template
        if template is None or self._engine is not engine:
            template = self._remote_function._resolve(engine, self._options)
            self._template, self._engine = template, engine
        return self._remote_function._submit(engine, template, args, kwargs)

    def gang(self, members: int, **options: Any) -> GangedFunction:
        """See RemoteFunction.gang."""
        gang = GangOptions(members=members, **options)
        return GangedFunction(self._remote_function, self._options, gang)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """See RemoteFunction.bind."""
        return self._remote_function.bind(*args, **kwargs)
