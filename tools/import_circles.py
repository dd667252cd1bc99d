"""Finds modules that import each other in a circle, and imports of higher rooms.

import-linter reads only `import` statements. This program also reads the module names that are
given as text to `import_module` and `__import__`, if they begin with a package of this repository.
Imports below `if TYPE_CHECKING:` count, because a reader has to follow them as well.

    python tools/import_circles.py      ends with 1 when there is a circle, or an import that climbs
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "phalanx": ROOT / "src",
    "phalanx_benchmarks": ROOT / "benchmarks",
    "phalanx_research": ROOT / "research",
}
BY_NAME = ("import_module", "__import__")
MAY_CLIMB = {
    ("phalanx", "phalanx.moved"): "it names where moved modules are today",
}


def imports_by_name(source: str) -> Iterator[str]:
    """Yield the modules that a file imports by a text, such as `import_module("phalanx.x")`.

    If a part of the text is computed, as in `import_module(f"phalanx.x.{name}")`, yield the package
    before that part: `phalanx.x`.
    """
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        called = node.func
        name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
        given = node.args[0]
        if name not in BY_NAME:
            continue
        if isinstance(given, ast.JoinedStr) and given.values:
            given = given.values[0]
        text = given.value if isinstance(given, ast.Constant) else None
        if isinstance(text, str) and text.split(".")[0] in PACKAGES:
            yield text.rstrip(".")


def graph() -> dict[str, set[str]]:
    """Return the modules that each module imports."""
    found = grimp.build_graph(*PACKAGES, cache_dir=None)
    edges = {
        module: set(found.find_modules_directly_imported_by(module)) for module in found.modules
    }
    for package, folder in PACKAGES.items():
        for path in (folder / package).rglob("*.py"):
            module = ".".join(path.relative_to(folder).with_suffix("").parts)
            module = module.removesuffix(".__init__")
            for named in imports_by_name(path.read_text(encoding="utf-8")):
                while named not in edges and "." in named:
                    named = named.rpartition(".")[0]
                # every module imports its own packages anyway
                is_own_package = module.startswith(f"{named}.")
                if named in edges and module in edges and not is_own_package:
                    edges[module].add(named)
    return edges


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return each set of two or more modules that all reach each other by imports (Tarjan's
    algorithm).
    """
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    waiting: set[str] = set()
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        waiting.add(module)
        for other in sorted(edges[module]):
            if other not in order:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in waiting:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            circle = []
            while not circle or circle[-1] != module:
                circle.append(stack.pop())
                waiting.discard(circle[-1])
            if len(circle) > 1:
                found.append(sorted(circle))

    sys.setrecursionlimit(20_000)
    for module in sorted(edges):
        if module not in order:
            visit(module)
    return found


def climbing(edges: dict[str, set[str]]) -> list[str]:
    """Return a sentence for each import of a module in a higher room. The rooms are the layers in
    pyproject.toml.
    """
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["id"] == "layers")
    floor = {
        room.strip(): -index
        for index, line in enumerate(layers)
        for room in line.replace(":", "|").split("|")
    }

    def room(module: str) -> int | None:
        parts = module.split(".")
        return floor.get(parts[1]) if parts[0] == "phalanx" and len(parts) > 1 else None

    return [
        f"{module} imports {other}, which is in a room above"
        for module, others in sorted(edges.items())
        for other in sorted(others)
        if (own := room(module)) is not None
        and (its := room(other)) is not None
        and its > own
        and (module, other) not in MAY_CLIMB
    ]


def main() -> int:
    """Print all findings; return 1 when there are any."""
    edges = graph()
    found = [f"circle: {' '.join(circle)}" for circle in circles(edges)]
    found += climbing(edges)
    print("\n".join(found) or f"{len(edges)} modules, no circle, and no import climbs")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
