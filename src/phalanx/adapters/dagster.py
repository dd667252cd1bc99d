"""Dagster's executor that runs steps as tasks.

    @job(executor_def=phalanx_executor.configured({"init": {"address": "auto"}}))

Steps run in workers that have already imported Dagster. Workers on other machines must be able to
reach Dagster's storage and IO managers, as with Dagster's other executors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dagster import DagsterEvent, DagsterInstance, Field, Noneable, Permissive, executor
from dagster._cli.api import _execute_step_command_body
from dagster._core.definitions.executor_definition import multiple_process_executor_requirements
from dagster._core.execution.retries import RetryMode, get_retries_config
from dagster._core.execution.tags import get_tag_concurrency_limits_config
from dagster._core.executor.step_delegating import (
    CheckStepHealthResult,
    StepDelegatingExecutor,
    StepHandler,
    StepHandlerContext,
)
from dagster._grpc.types import ExecuteStepArgs
from dagster._serdes import deserialize_value, serialize_value

import phalanx

TAG = "phalanx/remote_args"
"""The tag of an op or asset that holds the options of its task, as a dictionary or as JSON."""

LOOK_EVERY_S = 0.2


class PhalanxStepHandler(StepHandler):
    """Starts, watches and ends the steps of a run as tasks."""

    def __init__(self, init: Mapping[str, Any], remote_args: Mapping[str, Any]) -> None:
        super().__init__()
        self._init = init
        self._remote_args = remote_args
        self._running: dict[str, phalanx.ObjectRef[None]] = {}

    @property
    def name(self) -> str:
        """The handler's name in Dagster's log."""
        return "PhalanxStepHandler"

    def launch_step(self, step_handler_context: StepHandlerContext) -> Iterator[DagsterEvent]:
        """Start a step as a task. Raises ValueError and TypeError for invalid options."""
        if not phalanx.is_initialized():
            phalanx.init(**self._init)
        key = _key(step_handler_context)
        own = json.loads(step_handler_context.step_tags[key].get(TAG, "{}"))
        task = _step.options(name=key, **{**self._remote_args, **own})
        self._running[key] = task.remote(serialize_value(step_handler_context.execute_step_args))
        yield from ()

    def check_step_health(self, step_handler_context: StepHandlerContext) -> CheckStepHealthResult:
        """Return the health of a step. A step is unhealthy if its task failed, for example because
        its worker died.
        """
        ref = self._running.get(_key(step_handler_context))
        if ref is None:
            return CheckStepHealthResult.unhealthy("this process did not start the step")
        ended, _ = phalanx.wait([ref], timeout=0)
        try:
            phalanx.get(ended)
        except Exception as error:
            return CheckStepHealthResult.unhealthy(f"{type(error).__name__}: {error}")
        return CheckStepHealthResult.healthy()

    def terminate_step(self, step_handler_context: StepHandlerContext) -> Iterator[DagsterEvent]:
        """Cancel a step: a running step is interrupted, and a waiting step never starts."""
        ref = self._running.get(_key(step_handler_context))
        if ref is not None:
            phalanx.cancel(ref)
        yield from ()


@executor(
    name="phalanx",
    config_schema={
        "init": Field(Permissive(), default_value={}, description="Arguments of phalanx.init."),
        "remote_args": Field(
            Permissive(), default_value={}, description="Options of all tasks, such as num_cpus."
        ),
        "max_concurrent": Field(
            Noneable(int),
            default_value=None,
            description="Steps that run at once; None: as many as the cluster has room for.",
        ),
        "tag_concurrency_limits": get_tag_concurrency_limits_config(),
        "retries": get_retries_config(),
    },
    requirements=multiple_process_executor_requirements(),
)
def phalanx_executor(init_context: Any) -> StepDelegatingExecutor:
    """Return an executor that runs steps as tasks. A step's tag `phalanx/remote_args` sets options
    of the step's task.
    """
    given = init_context.executor_config
    return StepDelegatingExecutor(
        PhalanxStepHandler(given["init"], given["remote_args"]),
        retries=RetryMode.from_config(given["retries"]),
        sleep_seconds=LOOK_EVERY_S,
        check_step_health_interval_seconds=1,
        max_concurrent=given["max_concurrent"],
        tag_concurrency_limits=given.get("tag_concurrency_limits"),
    )


@phalanx.remote(max_retries=0)
def _step(serialized: str) -> None:
    """Run a step in a worker. Its events go to Dagster's event log."""
    args = deserialize_value(serialized, ExecuteStepArgs)
    with DagsterInstance.from_ref(args.instance_ref) as instance:
        run = instance.get_run_by_id(args.run_id)
        for _ in _execute_step_command_body(args, instance, run):
            pass


def _key(context: StepHandlerContext) -> str:
    [key] = context.execute_step_args.step_keys_to_execute
    return str(key)
