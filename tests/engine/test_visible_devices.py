"""What a task's devices are called in the task."""

from __future__ import annotations

import pytest

from phalanx.engines.embedded.worker.devices import DeviceEnvironment
from phalanx.engines.runtime_context import visible_ids


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
