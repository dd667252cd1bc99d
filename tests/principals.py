"""Principals for tests."""

from __future__ import annotations

from phalanx.model.principals import UNIX, Principal

OWNER = Principal(UNIX, "ana", "ana", is_owner=True)
"""The account that runs the cluster."""
