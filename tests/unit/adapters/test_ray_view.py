"""Resources of Ray nodes under Phalanx's names, and the free amounts. Needs no Ray."""

from __future__ import annotations

import pytest

from phalanx.adapters.ray.scheduler.options import SchedulerOptions
from phalanx.adapters.ray.scheduler.view import Naming, merged
from phalanx.protocol.report_messages import NodeReport

SHOWN = {
    "CPU": 4.0,
    "GPU": 8.0,
    "phx_gpu": 2.0,
    "memory": 1e9,
    "object_store_memory": 1e8,
    "node:10.0.0.1": 1.0,
    "accelerator_type:A100": 1.0,
    "GPU_group_0_abc": 2.0,
    "license": 3.0,
}


@pytest.mark.parametrize(
    ("resource", "gpus", "others"),
    [("GPU", 8.0, {"phx_gpu": 2.0}), ("phx_gpu", 2.0, {})],
)
def test_devices_are_called_gpu_and_what_is_rays_own_is_left_out(
    resource: str, gpus: float, others: dict[str, float]
) -> None:
    ours = Naming(resource).ours(SHOWN)
    assert ours == {"CPU": 4.0, "GPU": gpus, "memory": 1e9, "license": 3.0, **others}


def test_a_bundle_is_reserved_under_rays_names() -> None:
    bundle = {"CPU": 1.0, "GPU": 2.0, "memory": 0.0}
    assert Naming("phx_gpu").rays(bundle) == {"CPU": 1.0, "phx_gpu": 2.0}


def test_what_ray_has_given_to_others_is_not_free() -> None:
    report = NodeReport(available={"CPU": 4.0, "GPU": 4.0}, total={"CPU": 4.0, "GPU": 4.0})
    assert merged(report, {"CPU": 1.0, "GPU": 4.0}).available == {"CPU": 1.0, "GPU": 4.0}
    assert merged(report, {"CPU": 9.0}).available == {"CPU": 4.0, "GPU": 0.0}
    assert merged(report, None) is report


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("ttl_s", 0.0, "ttl_s must be a time above 0 s, not 0.0"),
        ("reserve_s", float("inf"), "reserve_s must be a time above 0 s"),
        ("gpu_resource", "CPU", "gpu_resource must name a device resource, not 'CPU'"),
    ],
)
def test_options_that_cannot_be(field: str, value: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SchedulerOptions(**{field: value})  # type: ignore[arg-type]
