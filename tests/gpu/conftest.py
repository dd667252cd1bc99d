"""Fixtures for a machine with a real GPU: what `nvidia-smi` says of the GPU, and programs that use
it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gpu.measure_shares import no_gpu
from tests.system.cli.conftest import Machine

PROGRAM = str(Path(__file__).with_name("program.py"))


@pytest.fixture(scope="session", autouse=True)
def gpu() -> None:
    """Skip the test if there is no GPU."""
    if trouble := no_gpu():
        pytest.skip(trouble)


@pytest.fixture
def said() -> Callable[..., list[str]]:
    """Return a function that asks `nvidia-smi` for these fields of the first device."""

    def said(*names: str) -> list[str]:
        command = ["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits"]
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return [one.strip() for one in found.stdout.splitlines()[0].split(",")]

    return said


@pytest.fixture
def use() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Yield a function that starts a program which takes this many MiB of the first device."""
    begun: list[subprocess.Popen[str]] = []

    def use(mibs: int, seconds: float = 0.0) -> subprocess.Popen[str]:
        command = [sys.executable, PROGRAM, str(mibs), str(seconds)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready")
        return process

    yield use
    for process in begun:
        process.kill()
        process.communicate()


@pytest.fixture
def machine() -> Iterator[Any]:
    """Yield a machine with one user."""
    machine = Machine()
    try:
        yield machine
    finally:
        machine.end()
