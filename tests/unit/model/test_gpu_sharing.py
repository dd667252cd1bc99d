"""Options about the sharing of GPUs: which can be combined, and how they are written in
manifests.
"""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.model.gpu_sharing import read_gpu_memory, sharing_amounts, with_foreign_terms
from phalanx.model.jobs.spec import Process, Template
from phalanx.model.options import check_task_options, required_resources

GIB = 2**30


@pytest.mark.parametrize(
    ("written", "size"),
    [("20GiB", 20 * GIB), ("20Gi", 20 * GIB), ("1.5 GiB", 3 * GIB // 2), ("20GB", 20 * 10**9),
     ("512MiB", 2**29), (1000, 1000), ("1000", 1000)],
)  # fmt: skip
def test_forms_of_memory(written: Any, size: int) -> None:
    assert read_gpu_memory(written) == size


@pytest.mark.parametrize("written", ["", "20 PiB", "-1", 0, -5, "many", True, None, "1e9", 2.0**60])
def test_other_forms_are_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="an amount of GPU memory is like 20GiB"):
        read_gpu_memory(written)


@pytest.mark.parametrize(
    ("options", "amounts"),
    [
        ({}, {}),
        ({"num_gpus": 2}, {"GPU": 2}),
        ({"num_gpus": 0.5, "gpu_share": "mps"}, {"GPU": 0.5, "gpu_mps": 1}),
        (
            {"num_gpus": 2, "gpu_memory": "20GiB"},
            {"GPU": 2, "gpu_cards": 2, "gpu_memory": 20 * GIB},
        ),
        (
            {"gpu_memory": "1GiB", "gpu_memory_limit": "2GiB"},
            {"GPU": 1, "gpu_cards": 1, "gpu_memory": GIB, "gpu_memory_limit": 2 * GIB},
        ),
        (
            {"gpu_memory": "1GiB", "gpu_share": "mps", "gpu_compute": 0.3},
            {"GPU": 1, "gpu_cards": 1, "gpu_memory": GIB, "gpu_mps": 1, "gpu_compute": 0.3},
        ),
    ],
)
def test_options_as_amounts(options: dict[str, Any], amounts: dict[str, float]) -> None:
    check_task_options(options)
    assert sharing_amounts(options) == amounts
    assert required_resources(options, default_cpus=0) == amounts


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"gpu_memory": "2GiB", "gpu_memory_limit": "1GiB"}, "is below gpu_memory='2GiB'"),
        ({"gpu_memory": "2GiB", "num_gpus": 0.5}, "both say how much of a GPU"),
        ({"gpu_share": "mps"}, "gpu_share needs a share of a GPU"),
        ({"gpu_share": "mps", "num_gpus": 2}, "whole GPUs are not shared"),
        ({"gpu_share": "mps", "num_gpus": 2, "gpu_memory": "1GiB"}, "is for one GPU"),
        ({"gpu_share": "mig", "num_gpus": 0.5}, "'time' or 'mps'"),
        ({"gpu_memory_limit": "1GiB", "num_gpus": 0.5}, "needs gpu_memory"),
        ({"gpu_memory": "1GiB", "gpu_compute": 0.3}, "needs gpu_share='mps'"),
        ({"gpu_memory": "1GiB", "gpu_share": "mps", "gpu_compute": 2}, "at most 1"),
        ({"resources": {"gpu_memory": 5}}, "use the option gpu_memory"),
        (
            {"resources": {"nvidia.com/mig-1g.10gb": 1}, "gpu_share": "mps"},
            "gpu_share does not go with nvidia.com/mig-1g.10gb: parts of split GPUs",
        ),
        (
            {"resources": {"nvidia.com/mig-1g.10gb": 1}, "gpu_memory": "1GiB"},
            "gpu_memory does not go with nvidia.com/mig-1g.10gb: parts of split GPUs",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_at_the_call(
    options: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        check_task_options(options)


@pytest.mark.parametrize(
    ("amounts", "annotations", "expected"),
    [
        (
            {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 1024},
            {},
            {"GPU": 2, "gpu_cards": 2, "gpu_memory": GIB},
        ),
        ({"volcano.sh/vgpu-memory": 512}, {}, {"GPU": 1, "gpu_cards": 1, "gpu_memory": 2**29}),
        ({"volcano.sh/vgpu-number": 2}, {}, {"GPU": 2}),
        ({"CPU": 1}, {"gpu-memory": "2048"}, {"CPU": 1, "GPU": 1, "gpu_cards": 1,
                                             "gpu_memory": 2 * GIB}),
        ({}, {"gpu-memory": "1024", "gpu-fraction-num-devices": "2"},
         {"GPU": 2, "gpu_cards": 2, "gpu_memory": GIB}),
        ({}, {"gpu-fraction": "0.5"}, {"GPU": 0.5}),
        ({"nvidia.com/mig-1g.10gb": 1}, {}, {"nvidia.com/mig-1g.10gb": 1, "GPU": 1}),
    ],
)  # fmt: skip
def test_terms_of_manifests(
    amounts: dict[str, float], annotations: dict[str, str], expected: dict[str, float]
) -> None:
    assert with_foreign_terms(amounts, annotations) == expected
    process = Process(limits=tuple(amounts.items()))
    template = Template(processes=(process,), annotations=tuple(annotations.items()))
    assert template.needs == expected


@pytest.mark.parametrize(
    ("amounts", "annotations", "why"),
    [
        (
            {"volcano.sh/vgpu-cores": 50, "volcano.sh/vgpu-number": 1},
            {},
            "is not supported here; ask for vol",
        ),
        ({"volcano.sh/vgpu-number": 0.5}, {}, "vgpu-number is a whole number, not 0.5"),
        ({}, {"gpu-memory": "much"}, "is a number above 0, not 'much'"),
        ({}, {"gpu-memory": "1", "gpu-fraction": "0.5"}, "both say"),
        (
            {},
            {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"},
            "gpu-fraction is a share of one GPU here, not of 2; for several GPUs ask for gpu-mem",
        ),
        ({}, {"gpu-fraction": "2"}, "gpu-fraction is a share below 1, not '2'; ask for whole GPUs"),
        ({}, {"gpu-fraction-num-devices": "2"}, "needs gpu-memory or gpu-fraction"),
        (
            {},
            {"gpu-memory": "1", "gpu-fraction-num-devices": "1.5"},
            "gpu-fraction-num-devices is a whole number, not 1.5",
        ),
        ({"GPU": 1}, {"gpu-memory": "1024"}, "do not go together"),
        ({"nvidia.com/mig-1g.10gb": 1, "GPU": 2}, {}, "other GPUs do not go with"),
        ({"nvidia.com/mig-1g.10gb": 1.5}, {}, "is a whole number of parts, not 1.5"),
        (
            {"nvidia.com/mig-1g.10gb": 1},
            {"gpu-memory": "1024"},
            "gpu_memory does not go with nvidia.com/mig-1g.10gb",
        ),
        (
            {"nvidia.com/mig-1g.10gb": 1},
            {"gpu-fraction": "0.5"},
            "other GPUs do not go with nvidia.com/mig-1g.10gb",
        ),
    ],
)
def test_terms_of_manifests_that_are_refused(
    amounts: dict[str, float], annotations: dict[str, str], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        with_foreign_terms(amounts, annotations)
