"""Remote functions that are bound to the runtime: a template is made once, and filled in for each
call.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from phalanx.model.ids import INDEX_BITS, GangId, GroupId
from phalanx.model.options import DEFAULT_RETRIES, required_resources
from phalanx.model.rows.explanation import Explanation
from phalanx.model.signatures import count_of
from phalanx.objects.reference import ObjectRef
from phalanx.objects.serialization import CallArguments, are_plain, dumps_definition
from phalanx.objects.streams import ObjectRefGenerator, Stream
from phalanx.observe.task_journal import About
from phalanx.owner.tasks.gangs import OwnedGangs
from phalanx.owner.tasks.records import ClassKey, FunctionRecord, Template
from phalanx.owner.tasks.submission import Submission
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.node import ExplainTask
from phalanx.protocol.requests.request import Request
from phalanx.runtime.driver.arguments import pack_arguments, shareable
from phalanx.runtime.driver.job_settings import JobSettings
from phalanx.runtime.driver.reference_hooks import ReferenceHooks
from phalanx.runtime.driver.strategies import (
    encode_strategy,
    environment_of,
    strategy_of,
)
from phalanx.runtime.driver.values import Packed
from phalanx.runtime.engine import dialect, tracing
from phalanx.runtime.engine.definitions import FunctionDefinition
from phalanx.scheduler.placement.strategies import WHOLE_GROUP
from phalanx.worker import launch_hooks
from phalanx.worker.context import current, of_process


class BoundFunction:
    """A function with its options: `call(args, kwargs)` runs it as a task."""

    def __init__(
        self, submitter: Submitter, definition: FunctionDefinition, options: Mapping[str, Any]
    ) -> None:
        self._submitter = submitter
        self._definition = definition
        self._name = definition.name
        self._options = options
        self._template = submitter.template(definition, options)
        self._captured: dict[GroupId, Template] = {}
        """The templates for calls by tasks that pass their own placement group on, by placement
        group.
        """
        self._goes_in_bursts = self._template.goes_in_bursts

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        submitter = self._submitter
        tasks = submitter.tasks
        template = self._template
        context = current.get()
        parent = None
        if context is not None:
            parent = (context.owner, context.number)
        lease = of_process.actor if context is None else context.lease
        if lease is not None and lease.capture and lease.group is not None:
            template = self._in_group(lease.group)
        goes_in_bursts = self._goes_in_bursts
        if template is not self._template:
            goes_in_bursts = template.goes_in_bursts
        packed: CallArguments | None
        is_plain = goes_in_bursts and not kwargs and tracing.active is None
        if is_plain and (not args or are_plain(args)):
            packed = args
        else:
            payload, inputs, pins = pack_arguments(submitter.pack, self._name, args, kwargs)
            packed = shareable(payload, inputs, pins) if goes_in_bursts else None
        if packed is not None:
            with submitter.lock:
                ref = tasks.call(template, packed, parent)
            if tasks.machine.dirty:
                submitter.kick()
            return ref
        returns = template.returns
        stream = Stream(submitter.me) if returns < 0 else None
        task = tasks.new(template, payload, inputs, pins)
        with submitter.lock:
            tasks.submit(task, parent, stream)
        if tasks.machine.dirty:
            submitter.kick()
        refs = task.refs
        if returns in (1, -2):
            return refs[0]
        if stream is not None:
            return ObjectRefGenerator(stream, submitter.hooks)
        return None if returns == 0 else list(refs)

    def _in_group(self, group: GroupId) -> Template:
        """Return the template for calls that a running task makes, if the task lets its calls run
        in its own placement group, `group`.
        """
        found = self._captured.get(group)
        if found is None:
            found = self._submitter.template(self._definition, self._options, group)
            self._captured[group] = found
        return found


class Submitter:
    """Submits tasks, alone or in gangs, for any thread of this process."""

    def __init__(
        self,
        me: bytes,
        lock: AbstractContextManager[Any],
        tasks: Submission,
        gangs: OwnedGangs,
        pack: Callable[[Any], Packed],
        hooks: ReferenceHooks,
        job: JobSettings,
        kick: Callable[[], None],
        flush: Callable[[], None],
    ) -> None:
        """`kick` makes some thread send posted messages soon; `flush` sends them in the calling
        thread.
        """
        self.me = me
        self.lock = lock
        self.tasks = tasks
        self._gangs = gangs
        self.pack = pack
        self.hooks = hooks
        self._job = job
        self.kick = kick
        self._flush = flush

    def bind(self, definition: FunctionDefinition, options: Mapping[str, Any]) -> BoundFunction:
        """Return the function with these options, prepared for many calls."""
        return BoundFunction(self, definition, options)

    def template(
        self,
        definition: FunctionDefinition,
        options: Mapping[str, Any],
        group: GroupId | None = None,
    ) -> Template:
        """Return the common parts of all calls of a function with these options.

        `group`: the placement group of the calling task, if the task passes it on.
        """
        return _template(self._job, definition, options, group)

    def start_gang(
        self,
        definition: FunctionDefinition,
        options: Mapping[str, Any],
        group: GangId,
        members: int,
        min_members: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> list[ObjectRef[Any] | list[ObjectRef[Any]]]:
        """Submit a gang of tasks in the bundles of `group`. Returns a reference, or a list of
        references, for each member.
        """
        template = self.template(definition, options)
        payload, inputs, pins = pack_arguments(self.pack, definition.name, args, kwargs)
        templates = [
            msgspec.structs.replace(
                template,
                key=msgspec.structs.replace(
                    template.key, strategy=encode_strategy(in_gang(group, index)), once=True
                ),
            )
            for index in range(members)
        ]
        with self.lock:
            tasks = self._gangs.start(group, templates, min_members, payload, inputs, pins)
        self._flush()
        return [task.refs[0] if len(task.refs) == 1 else list(task.refs) for task in tasks]

    def why_pending(self, ref: ObjectRef[Any]) -> Request[Explanation] | None:
        """Return the request that asks why the task or gang behind a reference waits. Return None
        if no task of this process waits for the object.
        """
        with self.lock:
            group = self._gangs.group_of(ref)
            if group is not None:
                return Explain(group.hex())
            machine = self.tasks.machine
            task = machine.pending.get(ref._number >> INDEX_BITS)
            if task is None or ref._owner != self.me:
                return None
            return ExplainTask(machine.class_of(task.key).number, task.template.name)


def in_gang(group: GangId, index: int) -> dict[str, Any]:
    """Return the strategy of one member of a gang: it names the member's own bundle."""
    return {"group": group.hex(), "bundle": index, "capture": False}


def _template(
    job: JobSettings,
    definition: FunctionDefinition,
    options: Mapping[str, Any],
    group: GroupId | None,
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
    environment = environment_of(job, options)
    has_image = job.has_image(environment)
    strategy = strategy_of(options, resources, function.__qualname__, group, has_image=has_image)
    launch_hooks.launches(launch_hooks.of_tasks, function, resources, strategy)
    key = ClassKey(
        resources=tuple(sorted(resources.items())),
        environment=environment,
        strategy=encode_strategy(strategy),
        queue=options.get("queue") or job.queue,
        priority=job.priority if (chosen := options.get("priority")) is None else chosen,
        single=timeout_s is not None or record.max_calls > 0,
        each=strategy.get("name") == "SPREAD" or strategy.get("bundle") == WHOLE_GROUP,
        retriable=retries != 0,
    )
    return Template(
        function=record,
        key=key,
        name=options.get("name") or function.__name__,
        returns=count_of(returns),
        max_retries=_default_retries() if retries is None else retries,
        retry_exceptions=options.get("retry_exceptions") or False,
        timeout_s=timeout_s,
        backpressure=options.get("_generator_backpressure_num_objects") or -1,
        about=About(
            function=function.__name__,
            resources=key.resources,
            group=strategy.get("group", ""),
            labels=tuple(
                tuple((name, operator, tuple(values)) for name, operator, values in one)
                for one in strategy.get("labels", ())
            ),
            is_listed=options.get("enable_task_events") is not False,
        ),
    )


def _record(definition: FunctionDefinition, options: Mapping[str, Any]) -> FunctionRecord:
    function = definition.function
    data = dumps_definition(function, f"The remote function {definition.name}")
    max_calls = options.get("max_calls")
    if max_calls is None:
        # As in Ray, a worker that has used a GPU ends, because many libraries keep the GPU's
        # memory.
        max_calls = 1 if required_resources(options, default_cpus=1).get("GPU") else 0
    digest = hashlib.sha256(data + str(max_calls).encode()).digest()[:12]
    return FunctionRecord(digest, function.__name__, data, max_calls)


def _default_retries() -> int:
    """Return the number of retries of a task whose options give none. The program's dialect may set
    it.
    """
    spoken = dialect.current()
    retries = None if spoken is None else spoken.max_retries()
    return DEFAULT_RETRIES if retries is None else retries
