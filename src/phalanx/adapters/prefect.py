"""A task runner for Prefect. Each of Prefect's task runs becomes a task of Phalanx.

    @flow(task_runner=PhalanxTaskRunner(remote_args={"num_cpus": 2}))

Results are passed from task run to task run through the object store. A task run that needs other
task runs waits for them without occupying a worker.
"""

from __future__ import annotations

import asyncio
import platform
import uuid
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from prefect.client.orchestration import get_client
from prefect.context import serialize_context
from prefect.futures import PrefectConcurrentFuture, PrefectFuture
from prefect.settings import PREFECT_API_URL
from prefect.states import Crashed
from prefect.task_engine import run_task_async, run_task_sync
from prefect.task_runners import TaskRunner
from prefect.utilities.annotations import BaseAnnotation, quote
from prefect.utilities.collections import visit_collection
from prefect.utilities.engine import collect_task_run_inputs_sync

import phalanx

_options: ContextVar[Mapping[str, Any]] = ContextVar("phalanx_options_of_prefect_tasks")


@contextmanager
def remote_options(**options: Any) -> Generator[None, None, None]:
    """Set options, such as `num_gpus=1`, for the tasks submitted inside the block. Options of outer
    blocks apply, too.
    """
    token = _options.set({**_options.get({}), **options})
    try:
        yield
    finally:
        _options.reset(token)


class PhalanxFuture(PrefectConcurrentFuture):
    """The future of a task run; `ref` is the reference to its final state."""

    def __init__(self, task_run_id: uuid.UUID, ref: phalanx.ObjectRef[Any]) -> None:
        state: Future[Any] = Future()
        ref.future().add_done_callback(lambda ended: state.set_result(_state_of(ended)))
        super().__init__(task_run_id=task_run_id, wrapped_future=state)
        self.ref = ref


class PhalanxTaskRunner(TaskRunner):
    """Prefect's TaskRunner, which makes each task run a task of Phalanx.

    `remote_args` are options of all tasks. `init` has the arguments of `phalanx.init`, which the
    runner calls unless the program has called it. A session that the runner started ends with the
    flow.
    """

    def __init__(
        self, remote_args: Mapping[str, Any] | None = None, init: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self.remote_args = dict(remote_args or {})
        self.init = dict(init or {})
        self._has_started_session = False
        self._server: _Server | None = None

    def duplicate(self) -> PhalanxTaskRunner:
        """Return a runner with the same options."""
        return type(self)(self.remote_args, self.init)

    def __enter__(self) -> PhalanxTaskRunner:
        super().__enter__()
        if not phalanx.is_initialized():
            phalanx.init(**self.init)
            self._has_started_session = True
        return self

    def __exit__(self, *error: Any) -> None:
        if self._has_started_session:
            phalanx.shutdown()
            self._has_started_session = False
        super().__exit__(*error)

    def submit(
        self,
        task: Any,
        parameters: dict[str, Any],
        wait_for: Iterable[PrefectFuture[Any]] | None = None,
        dependencies: dict[str, set[Any]] | None = None,
    ) -> PhalanxFuture:
        """Start a run of Prefect's `task` as a task of Phalanx. Raises RuntimeError outside the
        runner's `with` block.
        """
        if not self._started:
            raise RuntimeError("Task runner is not started")
        task_run_id = uuid.uuid4()
        inputs = {name: collect_task_run_inputs_sync(value) for name, value in parameters.items()}
        about = {"task": task, "task_run_id": task_run_id, "task_inputs": inputs}
        needed: list[phalanx.ObjectRef[Any]] = []
        arguments = {
            "task": task,
            "task_run_id": task_run_id,
            "parameters": _packed(parameters, needed),
            "wait_for": None if wait_for is None else _packed(list(wait_for), needed),
            "dependencies": dependencies if dependencies is not None else inputs,
            "context": serialize_context(asset_ctx_kwargs={**about, "copy_to_child_ctx": True}),
        }
        if self._server is None and not PREFECT_API_URL.value():
            url = str(get_client(sync_client=True).api_url).rstrip("/")
            self._server = _Server(platform.node(), url)
        options = {"name": task.name, **self.remote_args, **_options.get({})}
        ref = _run.options(**options).remote(arguments, self._server, *needed)
        return PhalanxFuture(task_run_id, ref)


class _Server(NamedTuple):
    """The temporary Prefect server of a flow whose program names no server."""

    machine: str
    url: str


class _Needed:
    """A placeholder in arguments for the state of another task run. `place` is that run's index in
    the list of needed runs.
    """

    def __init__(self, place: int) -> None:
        self.place = place


class _Annotated:
    """A placeholder for an annotation, such as `allow_failure(...)`. Without the placeholder,
    Prefect's own pickle of an annotation would wrap the value a second time.
    """

    def __init__(self, kind: type[BaseAnnotation], value: Any) -> None:
        self.kind = kind
        self.value = value


def _packed(value: Any, needed: list[phalanx.ObjectRef[Any]]) -> Any:
    """Return `value` with a placeholder for each future of this runner. The references of these
    futures are appended to `needed`.
    """

    def exchange(part: Any) -> Any:
        if isinstance(part, BaseAnnotation):
            inner = part.unwrap()
            return _Annotated(
                type(part), inner if isinstance(part, quote) else _packed(inner, needed)
            )
        if not isinstance(part, PhalanxFuture):
            return part
        needed.append(part.ref)
        return _Needed(len(needed) - 1)

    return visit_collection(value, visit_fn=exchange, return_data=True)


def _unpacked(value: Any, states: tuple[Any, ...]) -> Any:
    """Return the packed value with the states of the needed task runs in place of the
    placeholders.
    """

    def exchange(part: Any) -> Any:
        if isinstance(part, _Annotated):
            return part.kind(_unpacked(part.value, states))
        return states[part.place] if isinstance(part, _Needed) else part

    return visit_collection(value, visit_fn=exchange, return_data=True)


@phalanx.remote
def _run(arguments: dict[str, Any], server: _Server | None, *states: Any) -> Any:
    """Run one of Prefect's task runs in a worker. Returns its final state.

    If a worker cannot reach the flow's server, Prefect starts another server in the worker.
    """
    if server is not None and server.machine == platform.node():
        # only the settings that are set
        settings = arguments["context"]["settings_context"]["settings"]
        settings.setdefault("api", {})["url"] = server.url
    for name in ("parameters", "wait_for"):
        arguments[name] = _unpacked(arguments[name], states)
    if arguments["task"].isasync:
        return asyncio.run(run_task_async(**arguments, return_type="state"))
    return run_task_sync(**arguments, return_type="state")


def _state_of(ended: Future[Any]) -> Any:
    """Return the final state of a task run; Crashed if its worker died before it reported a
    state.
    """
    error = ended.exception()
    return ended.result() if error is None else Crashed(message=f"{type(error).__name__}: {error}")
