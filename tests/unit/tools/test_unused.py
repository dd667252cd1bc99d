"""`tools/unused.py` lists names that product code does not use in any way, and nothing else."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]

PACKAGE = {
    "__init__.py": "from phalanx.api import start",
    "api.py": """
        from __future__ import annotations
        import functools
        from typing import TYPE_CHECKING
        from phalanx import named, table
        from phalanx.shapes import Square
        if TYPE_CHECKING:
            from phalanx.only_typed import Typed

        def start(what: Typed) -> None:
            from phalanx.late import late
            late(table.MAKERS["circle"](), named.used(), Square().area())

        def forgotten():
            return start
        """,
    "late.py": "def late(*given):\n    print(*given)\ndef later():\n    late()",
    "named.py": "def used(): ...\ndef unused(): ...",
    "table.py": "def circle(): ...\ndef line(): ...\nMAKERS = {'circle': circle}",
    "shapes.py": """
        class Square:
            def __len__(self):
                return self._side()
            def _side(self):
                return 1
            @property
            def area(self): ...
            def turn(self): ...
        class Cube:
            def turn(self): ...
        """,
    "only_typed.py": "class Typed: ...",
    "only_tested.py": "def tested(): ...",
    "main.py": "from phalanx.named import used\nif __name__ == '__main__':\n    used()",
}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("unused", ROOT / "tools" / "unused.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["unused"] = module
    spec.loader.exec_module(module)
    vars(module).update(PUBLIC=(), RETURNED=(), REGISTRIES={})
    return module


def test_what_is_found(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "phalanx").mkdir()
    for name, text in PACKAGE.items():
        (tmp_path / "phalanx" / name).write_text(textwrap.dedent(text))
    assert sorted(tool.unused((tmp_path, "phalanx"))) == [
        "phalanx.api.forgotten",
        "phalanx.late.later",
        "phalanx.named.unused",
        "phalanx.only_tested",
        "phalanx.shapes.Cube",
        "phalanx.shapes.Square.turn",
        "phalanx.table.line",
    ]


def test_constants_that_nothing_names(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "phalanx").mkdir()
    (tmp_path / "phalanx" / "one.py").write_text("LIMIT = 1\nWORD: str = 'x'\n__all__ = ['y']\n")
    (tmp_path / "phalanx" / "two.py").write_text("from phalanx.one import LIMIT\nprint(LIMIT)\n")
    assert list(tool.unnamed(tmp_path)) == ["phalanx.one.WORD"]
