"""These tests need the extra `ray`; without it there are none."""

from __future__ import annotations

import importlib.util

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Ray 2.49 leaves files open that it opens for the processes which it starts."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed file .*/dev/null:ResourceWarning")


if importlib.util.find_spec("ray") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from .cluster import phx, session  # noqa: F401  (fixtures)
