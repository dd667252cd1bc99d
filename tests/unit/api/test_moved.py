"""Modules can be imported under the names that they had before version 0.2."""

from __future__ import annotations

import importlib
import sys

import pytest

from phalanx.moved import MOVED, new_name


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("phalanx.batch.hooks", "phalanx.scheduler.cycle.hooks"),
        ("phalanx.batch.plugins.sjf", "phalanx.scheduler.plugins.sjf"),
        ("phalanx.integrations.dask", "phalanx.adapters.dask"),
        ("phalanx.scheduling.terms", "phalanx.scheduler.placement.terms"),
        ("phalanx.batches", None),
        ("phalanx.head", None),
    ],
)
def test_a_module_that_moved_has_a_new_name(old: str, new: str | None) -> None:
    assert new_name(old) == new


def test_the_old_name_gives_the_same_module_and_warns() -> None:
    sys.modules.pop("phalanx.policies.strategy", None)
    sys.modules.pop("phalanx.policies", None)
    with pytest.warns(DeprecationWarning, match=r"is called phalanx\.scheduler\.placement"):
        old = importlib.import_module("phalanx.policies.strategy")
    new = importlib.import_module("phalanx.scheduler.placement.strategy")
    assert old is new
    assert new.__spec__ is not None
    assert new.__spec__.name == new.__name__


@pytest.mark.parametrize("name", sorted(set(MOVED.values())))
def test_the_new_modules_exist(name: str) -> None:
    importlib.import_module(name)
