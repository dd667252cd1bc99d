"""Sample attempts for tests."""

from __future__ import annotations

from typing import Any

from phalanx.model.attempts import Attempt, Used


def attempt(**fields: Any) -> Attempt:
    """Return an attempt that ran for an hour from ten o'clock on the first day, on two CPUs."""
    usual: dict[str, Any] = {
        "job": "train", "namespace": "default", "member": "worker-0", "attempt": 1, "user": "ann",
        "queue": "lab", "command": "python train.py", "state": "Completed", "exit_code": 0,
        "node": "n1", "cpus": 2.0, "memory": 1000.0, "gpus": 0.0, "submitted": 35_000.0,
        "started": 36_000.0, "ended": 39_600.0,
    }  # fmt: skip
    return Attempt(**{**usual, **fields})


def used(**fields: Any) -> Used:
    """Return the usage of such an attempt: half of one CPU, and half of its memory."""
    usual: dict[str, Any] = {
        "ran_s": 3600.0, "cpu_s": 1800.0, "memory_max": 500.0, "memory_mean": 400.0, "samples": 720,
    }  # fmt: skip
    return Used(**{**usual, **fields})
