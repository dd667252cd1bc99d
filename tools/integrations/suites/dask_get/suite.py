"""Makes Dask's own tests compute on Phalanx's scheduler, unless they name another one."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

import dask
import pytest

import phalanx
from phalanx.adapters.dask import enable


def pytest_configure(config: pytest.Config) -> None:
    """Set the scheduler before any test."""
    phalanx.init("local", num_cpus=4)
    enable()
    for part in ("array", "bag", "dataframe"):
        checked = importlib.import_module(f"dask.{part}.utils").assert_eq
        checked.__defaults__ = _ours(checked.__defaults__)
        given = checked.__kwdefaults__ or {}
        checked.__kwdefaults__ = dict(zip(given, _ours(given.values()), strict=True))


def _ours(defaults: Iterable[object]) -> tuple[object, ...]:
    """Return default arguments of a Dask function in which Phalanx's scheduler takes the place of
    Dask's synchronous one.
    """
    return tuple("phalanx" if value == "sync" else value for value in defaults)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the session after the tests."""
    dask.config.set(scheduler=None)
    phalanx.shutdown()
