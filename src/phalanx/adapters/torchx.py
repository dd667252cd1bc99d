"""TorchX's scheduler `phalanx`: an application becomes a job of Phalanx, with a group for each of
its roles.

    torchx run --scheduler phalanx -cfg queue=lab dist.ddp -j 2x4 --script train.py

A role's command runs in the directory that its image names, if it exists, and otherwise in the
directory from which the application is submitted. No container is started.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from torchx.schedulers.api import (
    DescribeAppResponse,
    ListAppResponse,
    Scheduler,
    Stream,
    filter_regex,
)
from torchx.schedulers.ids import make_unique
from torchx.specs.api import (
    NONE,
    AppDef,
    AppDryRunInfo,
    AppState,
    ReplicaStatus,
    Role,
    RoleStatus,
    macros,
    runopts,
)

import phalanx
from phalanx.errors import JobCommandError, JobNotFoundError
from phalanx.model.jobs import states as st

STATES: Mapping[str, AppState] = {
    st.PENDING: AppState.PENDING,
    st.PREPARING: AppState.PENDING,
    st.RUNNING: AppState.RUNNING,
    st.RESTARTING: AppState.PENDING,
    st.COMPLETING: AppState.RUNNING,
    st.COMPLETED: AppState.SUCCEEDED,
    st.SUCCEEDED: AppState.SUCCEEDED,
    st.TERMINATING: AppState.CANCELLED,
    st.TERMINATED: AppState.CANCELLED,
    st.ABORTED: AppState.PENDING,
    st.ABORTING: AppState.PENDING,
    st.WAITING: AppState.PENDING,
    st.ENDED: AppState.CANCELLED,
}
"""TorchX's state for each state of jobs and members. All other states mean failed."""
LOOK_EVERY_S = 0.5
INDEX = "$(VC_TASK_INDEX)"
"""The placeholder for a member's index in commands and variables."""
_INDEX_HERE = "\0VC_TASK_INDEX\0"
"""Stands for INDEX in a role's text while `_literal` doubles the dollar signs of that text."""


def manifest(app: AppDef, name: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of an application's job. `chosen`: TorchX's `-cfg`."""
    tasks = [_task(role, name) for role in app.roles]
    spec: dict[str, Any] = {
        "tasks": tasks,
        "minAvailable": sum(task["minAvailable"] for task in tasks),
        "maxRetry": max((role.max_retries for role in app.roles), default=0),
        "policies": [{"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}],
    }
    spec |= {key: chosen[key] for key in ("queue", "time") if chosen.get(key)}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": spec,
    }


def _task(given: Role, name: str) -> dict[str, Any]:
    values = macros.Values(
        img_root=given.image, app_id=name, replica_id=_INDEX_HERE, rank0_env="MASTER_ADDR"
    )
    role = values.apply(given)
    needs: dict[str, Any] = {}
    if role.resource.cpu > 0:
        needs["cpu"] = role.resource.cpu
    if role.resource.memMB > 0:
        needs["memory"] = f"{role.resource.memMB}M"
    if role.resource.gpu > 0:
        needs["nvidia.com/gpu"] = role.resource.gpu
    container = {
        "name": "main",
        "command": [_literal(word) for word in (role.entrypoint, *role.args)],
        "env": [{"name": key, "value": _literal(value)} for key, value in role.env.items()],
        "workingDir": str(Path(role.image if Path(role.image).is_dir() else ".").absolute()),
        "resources": {"requests": needs},
    }
    return {
        "name": _label(role.name),
        "replicas": role.num_replicas,
        "minAvailable": role.min_replicas or role.num_replicas,
        "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
    }


def _literal(text: str) -> str:
    """Return a text in the form of manifests, in which `$` is written `$$`. So all words of a role
    reach the command unchanged, except for TorchX's own macros.
    """
    return text.replace("$", "$$").replace(_INDEX_HERE, INDEX)


def _label(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:30].strip("-") or "role"


class PhalanxScheduler(Scheduler[Mapping[str, Any]]):
    """Submits applications as jobs, and asks about them."""

    def __init__(self, session_name: str) -> None:
        super().__init__("phalanx", session_name)

    def _run_opts(self) -> runopts:
        options = runopts()
        options.add("queue", type_=str, help="the queue of the job")
        options.add("time", type_=str, help="the time limit of the job, such as 2h30m")
        return options

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, Any]) -> AppDryRunInfo[dict[str, Any]]:
        request = manifest(app, make_unique(_label(app.name)), cfg)
        return AppDryRunInfo(request, lambda shown: str(yaml.safe_dump(shown, sort_keys=False)))

    def schedule(self, dryrun_info: AppDryRunInfo[dict[str, Any]]) -> str:
        """Submit the application; return the job's name."""
        _connect()
        return phalanx.submit(dryrun_info.request).name

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Return the states of the application and its members; None for an unknown job."""
        _connect()
        try:
            found = phalanx.JobHandle(app_id).describe()
        except JobNotFoundError:
            return None
        roles: dict[str, RoleStatus] = {}
        for member in found.members:
            name, _, index = member.name.rpartition("-")
            status = roles.setdefault(name, RoleStatus(role=name, replicas=[]))
            state = STATES.get(member.state, AppState.FAILED)
            status.replicas.append(
                ReplicaStatus(
                    id=int(index),
                    state=state,
                    role=name,
                    hostname=member.node or "",
                    structured_error_msg=member.reason if state == AppState.FAILED else NONE,
                )
            )
        return DescribeAppResponse(
            app_id=app_id,
            state=STATES.get(found.state, AppState.FAILED),
            num_restarts=found.retries,
            msg=found.reason,
            roles=[
                Role(name=name, image="", num_replicas=len(status.replicas))
                for name, status in roles.items()
            ],
            roles_statuses=list(roles.values()),
        )

    def list(self) -> list[ListAppResponse]:
        """Return all jobs of the cluster."""
        _connect()
        return [
            ListAppResponse(app_id=row.name, state=STATES.get(row.state, AppState.FAILED))
            for row in phalanx.jobs()
        ]

    def _cancel_existing(self, app_id: str) -> None:
        _connect()
        try:
            phalanx.JobHandle(app_id).cancel()
        except JobCommandError:
            return  # the job is already over

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
    ) -> Iterable[str]:
        """Yield a member's output; standard output and errors are mixed. Raises ValueError if a
        single stream is requested.
        """
        if streams not in (None, Stream.COMBINED):
            raise ValueError("phalanx keeps both streams as one: streams must be COMBINED or None.")
        _connect()
        lines = _printed(phalanx.JobHandle(app_id), f"{_label(role_name)}-{k}", should_tail)
        return filter_regex(regex, lines) if regex else lines


def _printed(job: phalanx.JobHandle, member: str, should_tail: bool) -> Iterator[str]:
    """Yield the lines of a member's output. With `should_tail`, also yield later lines as they are
    printed.
    """
    shown = 0
    while True:
        is_over = job.state in st.FINISHED
        try:
            text = job.logs(member)
        except JobNotFoundError:  # the member has not started
            text = ""
        whole = len(text) if is_over or not should_tail else text.rfind("\n") + 1
        yield from text[shown:whole].splitlines(keepends=True)
        shown = whole
        if is_over or not should_tail:
            return
        time.sleep(LOOK_EVERY_S)


def _connect() -> None:
    if not phalanx.is_initialized():
        phalanx.init(log_to_driver=False)


def create_scheduler(session_name: str, **_: object) -> PhalanxScheduler:
    """Return the scheduler, for TorchX's entry point."""
    return PhalanxScheduler(session_name)
