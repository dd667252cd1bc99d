"""Fixtures that delete files of objects without the engine's knowledge."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.present import current_runtime

import phalanx


@pytest.fixture(scope="module")
def session():
    """A runtime that the tests here share."""
    phalanx.shutdown()
    phalanx.init(num_cpus=2, log_to_driver=False)
    yield current_runtime()
    phalanx.shutdown()


@pytest.fixture
def get(session):
    return lambda refs: phalanx.get(refs, timeout=120)


@pytest.fixture
def lose(session):
    """Return a function that deletes the files of these objects, or of all objects if none are
    named.
    """

    def lose(*refs):
        for ref in refs:
            phalanx.wait([ref], timeout=120)
            ref._cached = None
        names = [ref._value.data.decode() for ref in refs] or os.listdir(session.session.shared)
        for name in names:
            path = Path(session.session.shared, name)
            path.unlink(missing_ok=not refs)  # what nobody holds any more goes by itself

    return lose


@pytest.fixture
def runs(tmp_path):
    """Return (a function for tasks to call, a function that returns how often they called it)."""
    path = str(tmp_path / "runs")

    def ran():
        with open(path, "a") as file:
            file.write(".")

    def count():
        return os.path.getsize(path) if os.path.exists(path) else 0

    return ran, count
