"""These tests need the extra `ray`; without it there are none."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("ray") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from .cluster import phx, session  # noqa: F401  (fixtures)
