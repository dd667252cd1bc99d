"""Has Dask's own tests compute by our scheduler, unless they name another."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

import dask
import pytest

import phalanx
from phalanx.adapters.dask import enable


def pytest_configure(config: pytest.Config) -> None:
    """Before any test."""
    phalanx.init("local", num_cpus=4)
    enable()
    for part in ("array", "bag", "dataframe"):
        checked = importlib.import_module(f"dask.{part}.utils").assert_eq
        checked.__defaults__ = _ours(checked.__defaults__)
        given = checked.__kwdefaults__ or {}
        checked.__kwdefaults__ = dict(zip(given, _ours(given.values()), strict=True))


def _ours(defaults: Iterable[object]) -> tuple[object, ...]:
    """Dask's assertions of what is equal compute by its synchronous scheduler, in this process."""
    return tuple("phalanx" if value == "sync" else value for value in defaults)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The session ends with the tests."""
    dask.config.set(scheduler=None)
    phalanx.shutdown()
