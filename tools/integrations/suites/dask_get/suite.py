"""Has Dask's own tests compute by our scheduler, unless they name another."""

from __future__ import annotations

import dask
import pytest

import phalanx
from phalanx.integrations.dask import enable


def pytest_configure(config: pytest.Config) -> None:
    """Before any test."""
    phalanx.init("local", num_cpus=4)
    enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """The session ends with the tests."""
    dask.config.set(scheduler=None)
    phalanx.shutdown()
