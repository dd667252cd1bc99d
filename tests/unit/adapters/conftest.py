"""Imports a module that changes the import system. This is done before tests of adapters begin."""

from __future__ import annotations

import contextlib
import importlib

# The backport takes the place of Python's own finder of distributions, in sys.meta_path. Tests that
# put sys.meta_path back would take it away, where a library imports it during such a test.
with contextlib.suppress(ImportError):
    importlib.import_module("importlib_metadata")
