"""Loads a tool of `tools/release`, which is not in a distribution package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[4]


def load(name: str) -> ModuleType:
    known = f"release_{name}"
    spec = importlib.util.spec_from_file_location(known, ROOT / "tools" / "release" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[known] = module
    spec.loader.exec_module(module)
    return module
