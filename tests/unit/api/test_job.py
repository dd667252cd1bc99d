"""The fields of a job are checked when it is made, one by one."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import pytest

from phalanx import Job

REFUSED: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = {
    "no command": (("",), {}, ValueError, "command='': it is a text for a shell or a list"),
    "no words": (([],), {}, ValueError, r"command=\[\]: it is a text for a shell or a list"),
    "no member": (("true",), {"members": 0}, ValueError, "members=0: it is a whole number of at l"),
    "half a member": (("true",), {"members": 1.5}, TypeError, "members=1.5: it is a whole number"),
    "too few": (("true",), {"members": 2, "min_members": 3}, ValueError, "at most members=2"),
    "no name": (
        ("true",),
        {"name": "not/a/name"},
        ValueError,
        "'default/not/a/name': .* not a valid name",
    ),
    "retries": (("true",), {"max_retries": -2}, ValueError, "max_retries=-2: .* at least -1"),
    "a priority in words": (("true",), {"priority": "high"}, TypeError, "priority='high'"),
    "an endless grace": (("true",), {"grace_s": float("inf")}, ValueError, "grace_s=inf"),
    "a negative limit": (("true",), {"time_limit_s": -1}, ValueError, "time_limit_s=-1"),
    "a list of variables": (("true",), {"env": ["A=1"]}, TypeError, "env=.*: it is a mapping"),
    "half a GPU too many": (("true",), {"num_gpus": 1.5}, ValueError, "Job: .*num_gpus"),
    "an unknown field": (("true",), {"cpus": 1}, TypeError, "cpus"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_names_its_field(name: str) -> None:
    args, fields, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        Job(*args, **fields)


def test_what_is_left_out_is_filled_in() -> None:
    job = Job("python train.py --lr 0.1")
    assert job.name is not None and job.name.startswith("python-")
    assert job.working_dir == os.getcwd()
    assert job.uid == f"default/{job.name}"
    assert job.name != Job("python train.py --lr 0.1").name
    with pytest.raises(dataclasses.FrozenInstanceError):
        job.members = 2  # type: ignore[misc]


def test_names_of_many_jobs_of_one_command_differ() -> None:
    names = [Job("true").name for _ in range(10_000)]
    assert len(set(names)) == len(names)


def test_it_becomes_a_gang_of_equal_members() -> None:
    job = Job(
        ["echo", "$HOME"],
        name="echo",
        members=3,
        min_members=2,
        num_gpus=1,
        max_retries=2,
        queue="lab",
        priority=7,
    )
    spec = job.spec()
    assert (spec.name, spec.queue, spec.priority, spec.max_retry) == ("echo", "lab", 7, 2)
    (group,) = spec.groups
    assert (group.replicas, group.min_available) == (3, 2)
    (process,) = group.template.processes
    assert process.argv == ("echo", "$$HOME"), "no variable of a manifest"
    assert process.needs == {"CPU": 1.0, "GPU": 1.0}
    spec = Job("true").spec()
    assert (spec.queue, spec.priority, spec.min_available) == ("default", 0, 1)
