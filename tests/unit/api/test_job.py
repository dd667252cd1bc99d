"""Each field of a job is checked when the job is made."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from phalanx import Job
from phalanx.manifests.check import object_faults

REFUSED: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = {
    "no command": (("",), {}, ValueError, "command='': it must be a text for a shell or a list"),
    "no words": (([],), {}, ValueError, r"command=\[\]: it must be a text for a shell or a list"),
    "no member": (
        ("true",),
        {"members": 0},
        ValueError,
        "members=0: it must be a whole number of at l",
    ),
    "half a member": (
        ("true",),
        {"members": 1.5},
        TypeError,
        "members=1.5: it must be a whole number",
    ),
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
    "a list of variables": (("true",), {"env": ["A=1"]}, TypeError, "env=.*: it must be a mapping"),
    "half a GPU too many": (("true",), {"num_gpus": 1.5}, ValueError, "Job: .*num_gpus"),
    "no program": (
        (["", "a"],),
        {},
        ValueError,
        r"command=\['', 'a'\]: it must be a text for a shell",
    ),
    "a blank command": ((" \n",), {}, ValueError, r"command=' \\n': it must be a text for a shell"),
    "a blank program": (([" ", "a"],), {}, ValueError, "of which the first names a program"),
    "no time at all": (
        ("true",),
        {"time_limit_s": 0},
        ValueError,
        "time_limit_s=0: it must be a number",
    ),
    "less memory than it holds": (
        ("true",),
        {"memory": "2GiB", "memory_limit": "1GiB"},
        ValueError,
        "memory=2147483648 is above memory_limit=1073741824",
    ),
    "more GPU memory than there is": (("true",), {"gpu_memory": 1e15}, ValueError, "gpu_memory"),
    "a begin before there were clocks": (
        ("true",),
        {"begin": datetime(1960, 1, 1)},
        ValueError,
        r"begin=datetime.datetime\(.*\): begin must be one moment, up to the year 9999",
    ),
    "a signal centuries before the end": (
        ("true",),
        {"signal": "USR1@9999999999"},
        ValueError,
        "signal='USR1@9999999999': signal must be one of",
    ),
    "saves at no time": (
        ("true",),
        {"movable": "yes"},
        ValueError,
        "movable='yes': it must be 'true'",
    ),
    "a reservation of two lines": (
        ("true",),
        {"reservation": "a\nb"},
        ValueError,
        "must be a name",
    ),
    "a numbered directory": (("true",), {"working_dir": 5}, TypeError, "working_dir=5: .* a path"),
    "a number as a variable": (("true",), {"env": {"A": 1}}, TypeError, "from text to text"),
    "a variable without a name": (("true",), {"env": {"": "x"}}, ValueError, "are not empty"),
    "a variable with an equals sign": (
        ("true",),
        {"runtime_env": {"env_vars": {"A=B": "x"}}},
        TypeError,
        "whose names are not empty and have no '='",
    ),
    "no such plugin": (("true",), {"plugins": {"x": []}}, ValueError, "there is no job plugin 'x'"),
    "a plugin's port in words": (
        ("true",),
        {"plugins": {"pytorch": ["--port=x"]}},
        ValueError,
        "port must be a port's number, not 'x'",
    ),
    "a plugin without its master": (
        ("true",),
        {"plugins": {"mpi": ["--master=x"]}},
        ValueError,
        "the mpi plugin's master is task 'x'",
    ),
    "a plugin without a list": (("true",), {"plugins": {"svc": None}}, TypeError, "lists of texts"),
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


@pytest.mark.parametrize(
    ("command", "begin"),
    [("'", "job-"), (["it's"], "job-"), ("# x", "job-"), (["echo", ""], "echo-"), ("a b", "a-")],
)
def test_a_job_gets_a_name_from_any_command(command: str | list[str], begin: str) -> None:
    assert str(Job(command).name).startswith(begin)


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


NUMBERS = (
    -2, -1, 0, 1, 2, 0.5, 1.5, 1e-5, 1e9, 9e14, 1e15, 1e18, 1e300, float("inf"), float("nan"),
    2**31 - 1, 2**31, 2**64, 10**30, True, "1", "1GiB", "0", "99999TiB", "x", "",
)  # fmt: skip
TEXTS: tuple[object, ...] = (
    "", " ", "a", "A", "x" * 70, "x" * 254, "a b", "a/b", "\u00e9", "a\nb", "a\0b", "..", "-a",
    "$(X)", "$$", "\udcff", 5, b"x", [],
)  # fmt: skip
MOMENTS = (
    "now", "now+1h", "now+99999999999d", "2027-01-31", "1900-01-01", "9999-12-31T23:59:59", "x", "",
    datetime(1970, 1, 2), datetime(1960, 1, 1), datetime(9999, 12, 31),
)  # fmt: skip
EDGES: dict[str, Sequence[Any]] = {
    **dict.fromkeys(
        (
            "members",
            "min_members",
            "priority",
            "num_cpus",
            "num_gpus",
            "gpu_memory",
            "gpu_memory_limit",
            "gpu_compute",
            "memory",
            "memory_limit",
            "max_retries",
            "grace_s",
            "time_limit_s",
            "ttl_s",
        ),
        NUMBERS,
    ),
    **dict.fromkeys(("name", "namespace", "queue", "reservation", "working_dir"), TEXTS),
    **dict.fromkeys(("begin", "deadline"), MOMENTS),
    "gpu_share": ("time", "mps", "TIME"),
    "movable": ("true", "10m", "yes", "", 5),
    "time": ("0", "1", "90s", "1-12:00", "infinite", timedelta(0), timedelta(days=999_999_999), 90),
    "signal": ("USR1", "USR1@0", "USR1@9999999999", "B:TERM@60", "KILL", "0", 5),
    "requeue": (
        {},
        {"max": -1},
        {"max": 2**31},
        {"reasons": ["x"]},
        {"reasons": []},
        {"exitCodes": [0]},
        {"exitCodes": [256]},
        {"exitCodes": [75, 75]},
        {"reasons": None},
    ),
    "after": ("afterok:prep", "", "afterok:", "afterany:default/j", "after:x+99999999999", 5),
    "array": ("0-99%10", "5-1", "0-99999999999", "1,1", "0-9%0", "0-9:3%99999999999", "", 5),
    "licenses": ("matlab:2", "matlab:0", "x y:1", {"a": 1.5}, {"": 1}, {"a": 2**40}, {5: 1}, ""),
    "resources": (
        {},
        {"CPU": 1},
        {"a": -1},
        {"a": 1e-5},
        {"a": 1e18},
        {"": 1},
        {"a b": 1},
        {"a\0b": 1},
        {"a": "1"},
        {5: 1},
        {"pods": 1},
        {"nvidia.com/gpu": 1},
        {"gpu_memory": 5},
    ),
    "env": ({}, {"A": "b"}, {"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": 1}, {5: "x"}, {"A": None}),
    "plugins": (
        {},
        {"pytorch": []},
        {"x": []},
        {"mpi": ["--master=x"]},
        {"mpi": ["--master=worker"]},
        {"ray": []},
        {"pytorch": ["--port=0"]},
        {"pytorch": ["--port=x"]},
        {"env": None},
        {5: []},
    ),
    "runtime_env": (
        {},
        {"env_vars": {"": "x"}},
        {"env_vars": {"A=B": "x"}},
        {"image_uri": "a b"},
        {"container": {}},
        {"pip": []},
        {"config": {"setup_timeout_seconds": -5}},
    ),
}
TOGETHER: Sequence[Mapping[str, Any]] = (
    {"memory": "2GiB", "memory_limit": "1GiB"},
    {"gpu_memory": "1GiB", "gpu_memory_limit": "1MiB"},
    {"gpu_memory": "1GiB", "gpu_share": "mps", "gpu_compute": 0.5},
    {"begin": "now+2h", "deadline": "now+1h"},
    {"name": "a" * 54, "members": 1000},
    {"array": "0-9", "members": 2, "after": "aftercorr:x"},
)


@pytest.mark.parametrize(
    "fields",
    [{name: value} for name, values in EDGES.items() for value in values] + list(TOGETHER),
    ids=lambda fields: ascii(fields)[:60],
)
def test_the_head_accepts_each_job_that_can_be_made(fields: Mapping[str, Any]) -> None:
    try:
        job = Job("true", **fields)
    except (ValueError, TypeError):
        return
    assert object_faults("Job", job.spec()) == []
