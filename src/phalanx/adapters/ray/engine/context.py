"""Where code runs that Ray runs."""

from __future__ import annotations

from typing import Any

import ray

from phalanx.adapters.ray.engine import gang_member
from phalanx.model.jobs.gang_view import GangView


class RayContext:
    """Ray's runtime context, and what Phalanx knows beside it."""

    def __init__(self) -> None:
        self._native = ray.get_runtime_context()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    @property
    def gang(self) -> GangView | None:
        """The gang that the task or actor is a member of; None outside gangs."""
        return gang_member.view
