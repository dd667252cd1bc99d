"""For all tests: `init()` starts a runtime of its own, whatever cluster runs on this machine, and
programs can be interrupted, also where the tests were started in the background."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from tests.effort import register_profiles
from tests.warm import warm_starts

register_profiles()

os.environ["PHALANX_ADDRESS"] = "local"
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cold", action="store_true", help="start every process by a fresh interpreter"
    )


@pytest.fixture(scope="session", autouse=True)
def starts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Daemons and nodes come from a warm parent (see `tests.warm`), unless `--cold` is given."""
    if request.config.getoption("cold"):
        yield
        return
    with warm_starts():
        yield
