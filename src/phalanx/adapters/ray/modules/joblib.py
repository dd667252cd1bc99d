"""`ray.util.joblib.ray_backend`: joblib's backend under Ray's name."""

from __future__ import annotations

from phalanx.util.joblib.backend import PhalanxBackend as RayBackend

__all__ = ["RayBackend"]
