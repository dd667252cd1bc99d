"""Options about GPUs, and the fields of a job that they set."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.api.job import Job
from phalanx.cli.gpu_options import gpu_fields


@pytest.mark.parametrize(
    ("gpus", "of_memory", "needs"),
    [
        ("0", {}, {}),
        ("0.5", {}, {"GPU": 0.5}),
        ("2", {"memory": "1GiB"}, {"GPU": 2, "gpu_cards": 2, "gpu_memory": 2**30}),
        ("0", {"memory": "1GiB", "share": "mps", "compute": 0.5},
         {"GPU": 1, "gpu_cards": 1, "gpu_memory": 2**30, "gpu_mps": 1, "gpu_compute": 0.5}),
        ("mig-1g.10gb", {}, {"GPU": 1, "nvidia.com/mig-1g.10gb": 1}),
        ("mig-1g.10gb:2", {}, {"GPU": 2, "nvidia.com/mig-1g.10gb": 2}),
    ],
)  # fmt: skip
def test_options_as_needs(gpus: str, of_memory: dict[str, Any], needs: dict[str, float]) -> None:
    job = Job("true", num_cpus=0, **gpu_fields(gpus, **of_memory))
    assert job.spec().groups[0].template.needs == needs


@pytest.mark.parametrize("gpus", ["many", "mig-1g.10gb:x", "gpu:1", ""])
def test_what_is_no_number_and_no_profile_is_refused(gpus: str) -> None:
    with pytest.raises(ValueError, match="--gpus is a number of GPUs, or a profile"):
        gpu_fields(gpus)


@pytest.mark.parametrize("gpus", ["-1", "nan", "1.5"])
def test_a_job_refuses_numbers_that_are_no_amount(gpus: str) -> None:
    with pytest.raises(ValueError, match="num_gpus"):
        Job("true", **gpu_fields(gpus))
