"""The public names of the package: each is imported when it is first used, and type checkers know
it.
"""

from __future__ import annotations

import ast
import inspect
import pickle
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import phalanx
from phalanx import util


def _for_type_checkers(package: ModuleType) -> dict[str, str]:
    """Return the names that the package imports for type checkers only, with the module of each."""
    (block,) = (
        node
        for node in ast.parse(inspect.getsource(package)).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    found: dict[str, str] = {}
    for statement in block.body:
        if isinstance(statement, ast.ImportFrom) and statement.module != package.__name__:
            found |= {one.name: str(statement.module) for one in statement.names}
    return found


@pytest.mark.parametrize("package", [phalanx, util])
def test_a_type_checker_is_told_what_is_imported(package: Any) -> None:
    said = {name: f"{package.__name__}.{where}" for name, where in package._WHERE.items()}
    assert _for_type_checkers(package) == said
    assert said.keys() <= set(package.__all__)


@pytest.mark.parametrize("name", phalanx.__all__)
def test_every_public_name_is_there(name: str) -> None:
    getattr(phalanx, name)
    assert name in vars(phalanx), "it is not looked for again"


def test_names_are_told_before_they_are_asked_for() -> None:
    program = (
        "import phalanx, sys; print(*dir(phalanx)); "
        "print(*(name for name in sys.modules if name.startswith('phalanx')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    names, loaded = (line.split() for line in done.stdout.splitlines())
    assert set(phalanx.__all__) <= set(names)
    assert set(loaded) == {"phalanx", "phalanx.moved"}


def test_modules_are_found_as_attributes() -> None:
    assert phalanx.errors.PhalanxError is phalanx.exceptions.RayError
    assert phalanx.cloudpickle.loads is pickle.loads


@pytest.mark.parametrize("name", ["no_such_thing", "__main__", "__wrapped__", "json"])
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'phalanx' has no attribute '{name}'"):
        getattr(phalanx, name)


def test_a_module_that_lacks_something_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "phalanx.api.cluster", None)
    monkeypatch.delitem(vars(phalanx), "timeline", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"phalanx\.api\.cluster"):
        phalanx.timeline
