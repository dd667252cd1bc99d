"""Makes joblib's own tests of backends run on Phalanx's backend, as one of the backends with
processes.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

import phalanx

TESTS = "joblib.test.test_parallel"
OF_PROCESSES = 'PROCESS_BACKENDS = ["multiprocessing", "loky"]'


def pytest_configure(config: pytest.Config) -> None:
    """Register the backend before the tests list all backends.

    joblib's tests have the backends with processes in a literal list, which is replaced here.
    """
    phalanx.init("local", num_cpus=4)
    os.environ["PHALANX_ADDRESS"] = f"pid:{os.getpid()}"  # for programs that the tests start
    spec = importlib.util.find_spec(TESTS)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text()
    if OF_PROCESSES not in source:
        raise pytest.UsageError(f"{TESTS} names its backends of processes in another way now")
    ours = OF_PROCESSES.replace("]", ', "phalanx"]')
    sys.modules[TESTS] = module = importlib.util.module_from_spec(spec)
    exec(compile(source.replace(OF_PROCESSES, ours), spec.origin, "exec"), module.__dict__)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the session after the tests."""
    phalanx.shutdown()
