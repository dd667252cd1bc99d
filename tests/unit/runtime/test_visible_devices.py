"""What a task's devices are called in the task."""

from __future__ import annotations

import os

import pytest

from phalanx.runtime.engine.runtime_context import visible_ids
from phalanx.runtime.os.visible_devices import CUDA, of_command
from phalanx.runtime.worker.devices import DeviceEnvironment


@pytest.mark.parametrize(
    ("preset", "numbers", "ids"),
    [
        (None, [1], [1]),
        (None, [0, 1], [0, 1]),
        ("4,7", [1], [7]),
        ("GPU-6a0f,GPU-77c1", [0], ["GPU-6a0f"]),
        ("GPU-6a0f,GPU-77c1", [0, 1], ["GPU-6a0f", "GPU-77c1"]),
        ("GPU-6a0f", [], []),
        ("", [0], [0]),
    ],
)
def test_ids_are_those_that_the_node_was_shown(monkeypatch, preset, numbers, ids):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", preset or "")  # so that it is put back in any case
    if preset is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    DeviceEnvironment().show({"GPU": numbers}, 1)
    assert visible_ids("GPU", {"GPU": numbers}) == ids


@pytest.mark.parametrize(
    ("shown", "held", "sees"),
    [
        (None, "1", "1"),
        ("", "0", "0"),
        ("4,7", "1", "7"),
        ("GPU-6a0f, GPU-77c1", "1,0", "GPU-77c1,GPU-6a0f"),
        ("4,7", "", ""),
        ("4", "GPU-6a0f", "GPU-6a0f"),
    ],
)
def test_commands_see_devices_by_the_names_that_the_node_was_shown(shown, held, sees):
    assert of_command({CUDA: held, "A": "b"}, shown) == {CUDA: sees, "A": "b"}
    assert of_command({"A": "b"}, shown) == {"A": "b"}


@pytest.fixture
def shown(monkeypatch):
    """What the variable is after work that holds these devices has begun."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def shown(preset, numbers, **variables):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        if preset is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", preset)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        DeviceEnvironment().show({"GPU": numbers}, 1)
        return os.environ.get("CUDA_VISIBLE_DEVICES")

    return shown


@pytest.mark.parametrize("preset", [None, "0,1,2"])
def test_the_variable_is_left_alone_where_rays_variable_says_so(shown, preset):
    assert shown(preset, [1], RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES="1") == preset


@pytest.mark.parametrize(("numbers", "sees"), [([], ""), ([1], "1")])
def test_work_without_devices_sees_none_where_rays_variable_says_so(shown, numbers, sees):
    assert shown(None, numbers, RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="1") == sees


def test_threads_follow_the_cpus_of_each_lease(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.delenv("OMP_NUM_THREADS")
    environment = DeviceEnvironment()
    seen = []
    for cpus in (2, 1, 0.25, 4):
        environment.show_cpus(cpus)
        seen.append(os.environ["OMP_NUM_THREADS"])
    assert seen == ["2", "1", "1", "4"]
