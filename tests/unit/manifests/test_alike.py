"""A job that equals an earlier valid one in most fields is not checked again as a whole, but its
own faults are still reported.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from phalanx.manifests import check
from phalanx.manifests.check import object_faults
from phalanx.model.jobs.spec import JobSpec, Policy, Port, Process, TaskGroup, Template

PROCESS = Process(command=("train",), args=("--lr",), env=(("A", "b"),), requests=(("CPU", 1.0),))
GROUP = TaskGroup(name="worker", template=Template(processes=(PROCESS,)))
JOB = JobSpec(name="first", groups=(GROUP,))


def with_process(**changes: Any) -> JobSpec:
    template = replace(GROUP.template, processes=(replace(PROCESS, **changes),))
    return replace(JOB, groups=(replace(GROUP, template=template),))


def test_another_name_and_other_words_need_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    assert object_faults("Job", JOB) == []
    monkeypatch.setattr(check, "object_errors", lambda data: pytest.fail("it was read"))
    other = with_process(command=("eval", "$(A)"), args=("-x", "\n"), env=(("A", ""),))
    assert object_faults("Job", replace(other, name="second")) == []
    assert object_faults("Job", with_process(working_dir="/data")) == []


@pytest.mark.parametrize(
    "bad",
    [
        replace(JOB, name="no name"),
        replace(JOB, name="x" * 60),
        replace(JOB, min_available=2),
        replace(JOB, groups=(GROUP, GROUP)),
        replace(JOB, groups=()),
        replace(JOB, policies=(Policy(action="Dance", events=("PodFailed",)),)),
        replace(JOB, plugins=(("none-such", ()),)),
        with_process(command=(), args=()),
        with_process(env=(("A=B", "b"),)),
        with_process(requests=(("CPU", 2.0),), limits=(("CPU", 1.0),)),
        with_process(ports=(Port(number=0),)),
        with_process(image="--privileged"),
    ],
    ids=repr,
)
def test_whatever_else_is_wrong_is_said(bad: JobSpec) -> None:
    assert object_faults("Job", JOB) == []
    assert object_faults("Job", bad)
    assert object_faults("Job", JOB) == []


def test_a_job_of_many_bytes_is_read_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "LIKENESS_BYTES", 10)
    assert object_faults("Job", JOB) == []
    monkeypatch.setattr(check, "object_errors", lambda data: [])
    assert object_faults("Job", with_process(env=(("A=B", "b"),))) == [], "it was read again"
