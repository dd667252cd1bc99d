"""The runtime context of code that Ray runs."""

from __future__ import annotations

from typing import Any

import ray

from phalanx.adapters.ray.engine import gang_member
from phalanx.model.jobs.gang_view import GangView


class RayContext:
    """Ray's runtime context, with additional facts that only Phalanx knows."""

    def __init__(self) -> None:
        self._native = ray.get_runtime_context()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    @property
    def gang(self) -> GangView | None:
        """The gang of which the current task or actor is a member; None outside gangs."""
        return gang_member.view
