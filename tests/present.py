"""Values that a test knows not to be None."""

from __future__ import annotations

from typing import TypeVar

from phalanx import get_runtime_context
from phalanx.model.jobs.gang_view import GangView
from phalanx.runtime.driver.engine import RuntimeEngine
from phalanx.runtime.driver.runtime import Runtime
from phalanx.runtime.engine.interface import current

T = TypeVar("T")


def present(value: T | None) -> T:
    """The value itself; fails where there is none."""
    assert value is not None
    return value


def own_gang() -> GangView:
    """The gang of the member that asks."""
    return present(get_runtime_context().gang)


def current_runtime() -> Runtime:
    """The runtime of this process, which runs Phalanx's own engine."""
    engine = current()
    assert isinstance(engine, RuntimeEngine)
    return engine.runtime
