"""The rows of a long queue are made from columns, and are equal to those made from whole jobs."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.unit.adapters.test_slurm_tables import job_info
from tests.unit.dashboard.world import node

from phalanx.adapters.slurm.commands import queue_rows
from phalanx.adapters.slurm.commands import rows as whole
from phalanx.adapters.slurm.commands.queue_rows import (
    READS,
    Queue,
    can_be_quick,
    quick_rows,
)
from phalanx.adapters.slurm.marks import NOTE
from phalanx.adapters.slurm.queue_columns import SQUEUE_LETTERS
from phalanx.model.jobs import states as st
from phalanx.model.rows.explanation import ExpectedStart
from phalanx.model.rows.plan import Basis
from phalanx.protocol.requests.gangs import GetRules
from phalanx.protocol.requests.jobs import CODE, HOSTS, JobColumns, ListJobColumns
from phalanx.protocol.requests.news import ListWaiting, WaitInfo

LIVE = sorted(set(st.JOB) - set(st.FINISHED))
FIELDS = [*READS, "id", "array", "index", "name", "submit"]
START = ExpectedStart(at_s=5e8, in_s=1.0, after_tasks=0, basis=Basis(by_limit=1), is_promised=False)
NOTES = ("name", "user", "account", "cpus", "apart", "memory", "mem-per-cpu", "gpus", "nice", "qos")


def _maybe(values: Any) -> Any:
    return some.none() | values


class Head:
    """Answers requests from the given jobs. All of them are on two nodes that share an address."""

    hosts = ("10.0.0.1", "10.0.0.2", "10.0.0.1")
    codes: ClassVar = {"free 1 more CPU": "free", "no node has the label": "labels"}

    def __init__(self, jobs: list[Any]) -> None:
        self.jobs = [
            msgspec.structs.replace(job, name=str(number)) for number, job in enumerate(jobs, 11)
        ]

    def ask(self, _: str | None, request: Any) -> Any:
        if isinstance(request, ListJobColumns):
            chosen = [
                job
                for job in self.jobs
                if job.state in (request.states or st.JOB)
                and job.name in (request.names or [job.name])
            ]
            of_each = {
                HOSTS: lambda job: self.hosts,
                CODE: lambda job: self.codes.get(job.reason, ""),
            }
            columns = [
                [of_each[one](job) if one in of_each else job[one] for job in chosen]
                for one in request.fields
            ]
            columns += [[job.annotations.get(n) for job in chosen] for n in request.annotations]
            return JobColumns(msgspec.to_builtins(columns), [])
        if isinstance(request, GetRules):
            return SimpleNamespace(plugins=[])
        if isinstance(request, ListWaiting):
            return [WaitInfo("a/b", one, 1, None, code) for one, code in self.codes.items()]
        return [node(1, total={"CPU": 2.0})]

    def places(self, job: Any) -> tuple[str, str]:
        return "10.0.0.1,10.0.0.2", str(len(self.hosts))


jobs = some.lists(
    some.builds(
        lambda notes, **fields: job_info(
            **fields, name="", namespace="default", kind="batch", annotations=notes,
        ),
        notes=some.dictionaries(
            some.sampled_from([f"{NOTE}{one}" for one in NOTES]), some.sampled_from(["2", "3"]),
            max_size=4,
        ),
        queue=some.sampled_from(["default", "lab"]),
        state=some.sampled_from(LIVE),
        reason=some.sampled_from(["", *Head.codes, "it waits until 3 has ended", "Licenses"]),
        user=some.sampled_from(["", "ada"]),
        replicas=some.integers(1, 3),
        priority=some.integers(-1, 9),
        position=_maybe(some.integers(1, 4)),
        submitted=some.sampled_from([4e8, 4e8 + 1]),
        started=_maybe(some.just(4.5e8)),
        time_limit_s=_maybe(some.sampled_from([60.0, 90000.0])),
        ran_s=some.sampled_from([0.0, 61.5]),
        ends=_maybe(some.just(6e8)),
        begins=_maybe(some.sampled_from([1.0, 9e9])),
        is_held=some.booleans(),
        restarts=some.integers(0, 1),
        after=some.sampled_from(["", "afterok:default/3"]),
        expected_start=_maybe(some.just(START)),
        reservation=some.sampled_from(["", "r"]),
        licenses=some.sampled_from([{}, {"matlab": 2}]),
    ),
    max_size=8,
)  # fmt: skip


@pytest.fixture(scope="module")
def patched():
    with pytest.MonkeyPatch.context() as patch:
        for module in (queue_rows, whole):
            patch.setattr(module, "ask", lambda *asked: patched_head[-1].ask(*asked))
            patch.setattr(module, "address", lambda: None)
        patch.setattr(time, "time", lambda: 5e8)
        patch.setattr(whole.Shown, "places", lambda _, job: patched_head[-1].places(job))
        yield


patched_head: list[Head] = []


@given(jobs, some.lists(some.sampled_from(FIELDS), unique=True, min_size=1))
def test_rows_from_columns_are_those_of_whole_jobs(patched, drawn, fields) -> None:
    head = Head(drawn)
    patched_head[:] = [head]
    found = quick_rows(fields, Queue([], set(), LIVE, None, False))
    shown = whole.Shown(fields)
    assert found is not None
    assert found.rows == [shown.row(job) for job in head.jobs]


@pytest.mark.parametrize(
    ("queue", "ids", "is_known"),
    [
        (Queue(["12"], set(), LIVE, None, False), ["12"], True),
        (Queue(["12.batch", "13_4"], set(), [st.RUNNING], None, False), ["12"], True),
        (Queue(["14"], set(), LIVE, None, False), [], True),
        (Queue(["99"], set(), LIVE, None, False), [], False),
        (Queue([], {"b"}, LIVE, None, False), ["12"], True),
        (Queue([], {"none"}, LIVE, None, False), [], False),
        (Queue([], set(), LIVE, lambda job: job.queue == "lab", False), ["13"], True),
    ],
)
def test_jobs_that_options_choose(patched, queue, ids, is_known) -> None:
    patched_head[:] = [Head([
        job_info(state=st.PENDING, queue="default", annotations={f"{NOTE}name": "a"}),
        job_info(state=st.RUNNING, queue="default", annotations={f"{NOTE}name": "b"}),
        job_info(state=st.PENDING, queue="lab", annotations={}),
        job_info(state=st.COMPLETED, queue="default", annotations={}),
    ])]  # fmt: skip
    found = quick_rows(["id", "name"], queue)
    assert found is not None
    assert ([row["id"] for row in found.rows], found.is_known) == (ids, is_known)


@pytest.mark.parametrize(
    ("fields", "states", "is_quick"),
    [
        (["id", "where", "priority"], LIVE, True),
        (["id", "shares"], LIVE, True),
        (["id", "stdout"], LIVE, False),
        (["id", "where"], [*LIVE, st.FAILED], False),
    ],
)
def test_what_needs_a_jobs_members_is_not_made_from_columns(fields, states, is_quick) -> None:
    assert can_be_quick(fields, states) is is_quick


def test_the_usual_formats_are_made_from_columns() -> None:
    letters = "iPjutMDRTlSQpNCaFAVEr"
    assert can_be_quick([SQUEUE_LETTERS[one].field for one in letters], LIVE)
