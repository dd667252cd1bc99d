"""Errors of the command line name options, not the keywords of Python."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.api.job import Job
from phalanx.cli.option_names import OF_JOB, with_options

CASES: list[tuple[dict[str, Any], str]] = [
    ({"members": 0}, "--gang 0: it must be a whole number of at least 1."),
    ({"min_members": 3}, "--min 3: it must be at most --gang 1."),
    ({"memory_limit": -1.0}, "--memory -1.0: it must be a number from 0 to 9e+14."),
    ({"max_retries": -2}, "--retries -2: it must be a whole number of at least -1."),
    ({"num_cpus": 1e20}, "--cpus only accepts a number of at most 9e+14 (1e+20 was given)."),
    ({"num_gpus": 1.5}, "--gpus 1.5: it must be a share below 1, or a whole number."),
    ({"command": []}, "COMMAND []: it must be a text for a shell or a list of words"),
    ({"time": "soon"}, "--time 'soon': a length of time is like"),
    ({"grace_s": -1}, "--grace -1: it must be a number from 0 to"),
    ({"gpu_memory_limit": "1GiB"}, "--gpu-memory-limit needs a share of a GPU: give --gpu-memory "),
    ({"runtime_env": {"x": 1}}, "runtime_env has no field 'x' for a job: "),
    ({"name": "a/b"}, "'default/a/b': 'a/b' is not a valid name"),
]


@pytest.mark.parametrize(("given", "said"), CASES)
def test_an_error_of_a_job_names_options(given: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        Job(**{"command": "true", **given})
    assert with_options(str(refused.value), OF_JOB).startswith(said)


def test_all_keywords_are_fields_of_a_job() -> None:
    assert set(OF_JOB) <= set(Job.__dataclass_fields__)
