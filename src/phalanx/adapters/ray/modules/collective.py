"""The module `torch_gloo_collective_group` of Ray's collective operations, over gloo."""

from __future__ import annotations

from phalanx.util.collective.gloo import GlooGroup as TorchGLOOGroup

__all__ = ["TorchGLOOGroup"]
