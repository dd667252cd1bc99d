"""How a task's devices are named inside the task."""

from __future__ import annotations

import os

import pytest

from phalanx.model.accelerators import VISIBLE
from phalanx.runtime.engine.runtime_context import visible_ids
from phalanx.runtime.os.visible_devices import (
    CUDA,
    check_devices,
    device_limits,
    named_devices,
    of_command,
    shown_devices,
)
from phalanx.runtime.worker.devices import DeviceEnvironment


@pytest.fixture(autouse=True)
def variables_put_back(monkeypatch):
    """Restore the environment variables after the test. Work without devices may change all of
    them, which later tests must not see.
    """
    for name in (*VISIBLE.values(), "HIP_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


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
    DeviceEnvironment(shown_devices(os.environ)).show({"GPU": numbers}, 1)
    assert visible_ids("GPU", {"GPU": numbers}) == ids


@pytest.mark.parametrize(
    ("shown", "held", "sees"),
    [
        (None, "1", "1"),
        ("", "0", ""),
        ("NoDevFiles", "0", ""),
        ("4,7", "1", "7"),
        ("4,7", "0,1,2,3", "4,7"),
        ("GPU-6a0f, GPU-77c1", "1,0", "GPU-77c1,GPU-6a0f"),
        ("4,7", "", ""),
        ("4", "GPU-6a0f", "GPU-6a0f"),
    ],
)
def test_commands_see_devices_by_the_names_that_the_node_was_shown(shown, held, sees):
    node = {} if shown is None else {CUDA: shown}
    assert of_command({CUDA: held, "A": "b"}, node) == {CUDA: sees, "A": "b"}
    assert of_command({"A": "b"}, node) == {"A": "b"}


@pytest.mark.parametrize(
    ("node", "held", "sees"),
    [
        ({"HIP_VISIBLE_DEVICES": "4,7"}, {CUDA: "1"}, {CUDA: "7", "HIP_VISIBLE_DEVICES": "7"}),
        ({"HIP_VISIBLE_DEVICES": "4,7"}, {CUDA: ""}, {CUDA: "", "HIP_VISIBLE_DEVICES": ""}),
        ({"ROCR_VISIBLE_DEVICES": "4,7"}, {CUDA: "1"}, {CUDA: "1"}),  # counts within the two
        (
            {"ASCEND_RT_VISIBLE_DEVICES": "6,2"},
            {"ASCEND_RT_VISIBLE_DEVICES": "0"},
            {"ASCEND_RT_VISIBLE_DEVICES": "6"},
        ),
        (
            {"NEURON_RT_VISIBLE_CORES": "4-6,9"},
            {"NEURON_RT_VISIBLE_CORES": "2,3"},
            {"NEURON_RT_VISIBLE_CORES": "6,9"},
        ),
    ],
)
def test_commands_see_devices_of_other_makers_by_those_names(node, held, sees):
    assert of_command(held, node) == sees


@pytest.mark.parametrize(
    ("variable", "shown"),
    [
        (CUDA, "3,5"),
        (CUDA, ""),
        (CUDA, "NoDevFiles"),
        (CUDA, "3"),
        (CUDA, "0, 1 ,-1,2"),
        (CUDA, "GPU-6a0f"),
        (CUDA, "MIG-6a0f"),
        (CUDA, "MIG-GPU-6a0f/1/0,MIG-GPU-6a0f/2/0"),
        ("NEURON_RT_VISIBLE_CORES", "4-6,9"),
        ("ASCEND_RT_VISIBLE_DEVICES", "6,2"),
    ],
)
def test_no_device_has_two_numbers(variable, shown):
    named = [named_devices(shown, [number], variable) for number in range(8)]
    devices = [name for name in named if name]
    assert len(devices) == len(set(devices))
    assert named_devices(shown, range(8), variable) == ",".join(devices)


@pytest.mark.parametrize(
    ("variables", "most"),
    [
        ({}, None),
        ({CUDA: "3,5"}, 2),
        ({CUDA: ""}, 0),
        ({CUDA: "NoDevFiles"}, 0),
        ({CUDA: "none"}, 0),
        ({CUDA: "void"}, 0),
        ({CUDA: "uuid1,uuid2"}, 2),  # as Ray counts them
        ({CUDA: "gpu0, gpu1,-1,gpu2"}, 2),
        ({CUDA: "uuid1,none,uuid2"}, 1),
        ({CUDA: "-1"}, 0),
        ({CUDA: "2,-1,3"}, 1),
        ({CUDA: " 2 , 3 "}, 2),
        ({CUDA: "GPU-6a0f,GPU-77c1"}, 2),
        ({CUDA: "MIG-6a0f,MIG-77c1,MIG-90"}, 3),
        ({CUDA: "MIG-GPU-6a0f/1/0,MIG-GPU-6a0f/2/0"}, 2),
        ({"HIP_VISIBLE_DEVICES": "1"}, 1),
        ({"HIP_VISIBLE_DEVICES": "1,2", CUDA: "1, 2"}, 2),
        ({"ROCR_VISIBLE_DEVICES": "1,2,3"}, 3),
        ({"ROCR_VISIBLE_DEVICES": "5,6", CUDA: "0"}, 1),
    ],
)
def test_a_node_has_no_more_gpus_than_it_was_shown(variables, most):
    assert device_limits(variables).get("GPU") == most
    check_devices({"GPU": 8 if most is None else most}, variables)
    if most is not None:
        with pytest.raises(ValueError, match=rf"{most + 1} of GPU: .* shows it {most}\."):
            check_devices({"GPU": most + 1}, variables)


@pytest.mark.parametrize("resource", [name for name in VISIBLE if name != "GPU"])
def test_nor_more_devices_of_other_makers(resource):
    variables = {VISIBLE[resource]: "3,5"}
    check_devices({resource: 2}, variables)
    assert device_limits(variables) == {resource: 2}
    with pytest.raises(ValueError, match=f"{VISIBLE[resource]}=3,5 shows it 2"):
        check_devices({resource: 3}, variables)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({CUDA: "3,3"}, "twice: 3"),
        ({CUDA: "3,5,03"}, "twice: 3"),
        ({CUDA: "GPU-6a0f,GPU-6A0F"}, "twice: gpu-6a0f"),
        ({CUDA: "GPU-6a0f12,GPU-77,GPU-6a"}, "twice: gpu-6a0f12"),
        ({CUDA: "MIG-6a,MIG-6a"}, "twice: mig-6a"),
        ({CUDA: "0,GPU-6a0f"}, "more than one form"),
        ({CUDA: "GPU-6a0f,MIG-77c1"}, "more than one form"),
        ({"NEURON_RT_VISIBLE_CORES": "0-3,2"}, "twice: 2"),
        ({CUDA: "1,2", "HIP_VISIBLE_DEVICES": "2,1"}, "show different devices"),
    ],
)
def test_a_list_that_may_have_a_device_twice_is_refused(variables, said):
    with pytest.raises(ValueError, match=said):
        check_devices({"GPU": 1, "neuron_cores": 1}, variables)
    check_devices({"CPU": 4, "GPU": 0}, variables)  # nothing of it is handed out


@pytest.mark.parametrize(
    ("held", "shown", "ids"),
    [
        ([0], "3,5", [3]),
        ([1], "3,5", [5]),
        ([0, 1], "3,5", [3, 5]),
        ([1], "5", [5]),
        ([1], "", [1]),
    ],
)
def test_ids_count_within_a_list_that_is_left_alone(monkeypatch, held, shown, ids):
    monkeypatch.setenv("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv(CUDA, shown)
    assert visible_ids("GPU", {"GPU": held}) == ids


def test_amds_variable_shows_the_same_devices(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv(CUDA, "")
    monkeypatch.delenv(CUDA)
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "4,7")
    environment = DeviceEnvironment(shown_devices(os.environ))
    environment.show({"GPU": [1]}, 1)
    assert (os.environ[CUDA], os.environ["HIP_VISIBLE_DEVICES"]) == ("7", "7")
    environment.show({}, 1)
    assert (os.environ.get(CUDA), os.environ["HIP_VISIBLE_DEVICES"]) == (None, "4,7")


@pytest.fixture
def shown(monkeypatch):
    """Return a function that begins work with these devices and returns the variable's value
    there.
    """
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def shown(preset, numbers, **variables):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        if preset is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", preset)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        DeviceEnvironment(shown_devices(os.environ)).show({"GPU": numbers}, 1)
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
    environment = DeviceEnvironment(shown_devices(os.environ))
    seen = []
    for cpus in (2, 1, 0.25, 4):
        environment.show_cpus(cpus)
        seen.append(os.environ["OMP_NUM_THREADS"])
    assert seen == ["2", "1", "1", "4"]
