"""A runtime of two CPUs that the tests of this package share."""

from __future__ import annotations

import pytest

import phalanx


@pytest.fixture(scope="package")
def runtime():
    """The package, running with 2 CPUs."""
    phalanx.shutdown()
    phalanx.init(num_cpus=2)
    yield phalanx
    phalanx.shutdown()


@pytest.fixture
def get(runtime):
    """`get` that fails instead of hanging."""
    return lambda refs: runtime.get(refs, timeout=30)
