"""Values of which a test knows that they are not None."""

from __future__ import annotations

from typing import TypeVar

from phalanx import get_runtime_context
from phalanx.model.jobs.gang_view import GangView
from phalanx.runtime.driver.engine import RuntimeEngine
from phalanx.runtime.driver.runtime import Runtime
from phalanx.runtime.engine.interface import current

T = TypeVar("T")


def present(value: T | None) -> T:
    """Return the value; fail if it is None."""
    assert value is not None
    return value


def own_gang() -> GangView:
    """The gang of the member that asks."""
    return present(get_runtime_context().gang)


def current_runtime() -> Runtime:
    """Return the runtime of this process, which must be that of Phalanx's own engine."""
    engine = current()
    assert isinstance(engine, RuntimeEngine)
    return engine.runtime
