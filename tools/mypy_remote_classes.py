"""A mypy plugin for the tests: a class under `@phalanx.remote` has the names of an actor class.

Mypy gives a decorated class the type of the class itself. Without this plugin, `Counter.remote()`
would be reported in every test, or `attr-defined` would have to be switched off for tests.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import MDEF, SymbolTableNode, Var
from mypy.plugin import ClassDefContext, Plugin
from mypy.types import AnyType, TypeOfAny

DECORATOR = "phalanx.api.decorator.remote"
NAMES = ("remote", "options", "gang", "bind", "_remote")


def add_names(context: ClassDefContext) -> bool:
    """Declare the names of an actor class, as values of any type.

    Returns True: no second pass is needed.
    """
    info = context.cls.info
    for name in NAMES:
        if name not in info.names:
            variable = Var(name, AnyType(TypeOfAny.explicit))
            variable.info, variable.is_classvar = info, True
            info.names[name] = SymbolTableNode(MDEF, variable, plugin_generated=True)
    return True


class RemoteClasses(Plugin):
    def get_class_decorator_hook_2(self, fullname: str) -> Callable[[ClassDefContext], bool] | None:
        return add_names if fullname == DECORATOR else None


def plugin(version: str) -> type[Plugin]:
    return RemoteClasses
