"""Remote functions bound to the embedded engine: a template made once, filled for each call."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.engines.definitions import FunctionDefinition
from phalanx.engines.embedded.client.arguments import pack_arguments
from phalanx.engines.embedded.client.strategies import (
    encode_strategy,
    environment_of,
    strategy_of,
)
from phalanx.model.options import DEFAULT_RETRIES, required_resources
from phalanx.model.signatures import count_of
from phalanx.objects.serialization import blame, dumps_definition
from phalanx.objects.streams import ObjectRefGenerator, Stream
from phalanx.owner.tasks.records import ClassKey, FunctionRecord, Template
from phalanx.worker.context import current

if TYPE_CHECKING:
    from phalanx.engines.embedded.engine import EmbeddedEngine


class BoundFunction:
    """A function with options: `call(args, kwargs)` runs it as a task."""

    def __init__(
        self, engine: EmbeddedEngine, definition: FunctionDefinition, options: Mapping[str, Any]
    ) -> None:
        self._runtime = engine.runtime
        self._name = definition.name
        self.template = _template(engine, definition, options)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        runtime = self._runtime
        template = self.template
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


def start_gang(
    engine: EmbeddedEngine,
    definition: FunctionDefinition,
    options: Mapping[str, Any],
    group: bytes,
    members: int,
    least: int,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> list[Any]:
    """See Engine."""
    runtime = engine.runtime
    template = _template(engine, definition, options)
    payload, inputs, pins = pack_arguments(runtime, definition.name, args, kwargs)
    templates = [
        msgspec.structs.replace(
            template,
            key=msgspec.structs.replace(
                template.key, strategy=encode_strategy(in_gang(group, index)), once=True
            ),
        )
        for index in range(members)
    ]
    refs = runtime.tasks.gangs.start(group, templates, least, payload, inputs, pins)
    runtime.flush()
    return refs


def in_gang(group: bytes, index: int) -> dict[str, Any]:
    """The strategy of one member of a gang: its own bundle."""
    return {"group": group.hex(), "bundle": index, "capture": False}


def _template(
    engine: EmbeddedEngine, definition: FunctionDefinition, options: Mapping[str, Any]
) -> Template:
    function = definition.function
    record: FunctionRecord | None = definition.record
    if record is None:
        record = definition.record = _record(definition, options)
    resources = required_resources(options, default_cpus=1)
    returns: Any = options.get("num_returns")
    if returns is None:
        returns = "streaming" if inspect.isgeneratorfunction(function) else 1
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
        name=options.get("name") or function.__name__,
        returns=count_of(returns),
        max_retries=DEFAULT_RETRIES if retries is None else retries,
        retry_exceptions=options.get("retry_exceptions") or False,
        timeout_s=timeout_s,
        backpressure=options.get("_generator_backpressure_num_objects") or -1,
    )


def _record(definition: FunctionDefinition, options: Mapping[str, Any]) -> FunctionRecord:
    function = definition.function
    try:
        data = dumps_definition(function)
    except Exception as error:
        raise TypeError(
            f"The remote function {definition.name} cannot be sent to workers: "
            f"{blame(function, error)}"
        ) from error
    max_calls = options.get("max_calls")
    if max_calls is None:
        # As Ray: a worker that used a GPU ends, since many libraries keep its memory.
        max_calls = 1 if options.get("num_gpus") else 0
    digest = hashlib.sha256(data + str(max_calls).encode()).digest()[:12]
    return FunctionRecord(digest, function.__name__, data, max_calls)
