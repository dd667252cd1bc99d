"""These tests need the extra `ray`. Without it none are collected."""

from __future__ import annotations

import importlib.util

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Ignore warnings about files that Ray 2.49 opens for the processes that it starts, and leaves
    open.
    """
    config.addinivalue_line("filterwarnings", "ignore:unclosed file .*/dev/null:ResourceWarning")


if importlib.util.find_spec("ray") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from .cluster import phx, session  # noqa: F401  (fixtures)
