"""Settings for all tests: `init()` starts a new runtime even if a cluster runs on this machine,
nodes find no container tool, and programs can be interrupted even if the tests were started in the
background.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest
from tests.effort import register_profiles
from tests.warm import forget_ended_parent, warm_starts

register_profiles()

os.environ["PHALANX_ADDRESS"] = "local"
os.environ["PHALANX_CONTAINER_TOOL"] = "none"
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARING = ("contract", "regressions")
"""Packages whose modules share one runtime, which a fixture of the package ends."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cold", action="store_true", help="start every process by a fresh interpreter"
    )


@pytest.fixture(scope="session", autouse=True)
def starts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let daemons and nodes be forked from a warm parent (see `tests.warm`), unless `--cold` is
    given.
    """
    if request.config.getoption("cold"):
        yield
        return
    with warm_starts():
        yield


@pytest.fixture(scope="module", autouse=True)
def ends_no_foreign_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a module of tests that ends the warm parent. A fork server does that if it runs in the
    tests' process, because it ends all children that it does not know.
    """
    yield
    if forget_ended_parent():
        pytest.fail(f"{request.path.name} ended the process from which tests start others")


@pytest.fixture(scope="module", autouse=True)
def ends_its_runtime(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a module of tests that leaves its runtime running."""
    yield
    phalanx = sys.modules.get("phalanx")
    if phalanx is None or not phalanx.is_initialized():
        return
    if request.path.parent.name in SHARING:
        return
    phalanx.shutdown()
    pytest.fail(f"{request.path.name} left its runtime running")
