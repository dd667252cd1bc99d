"""Lists the parts of `src` that no product code reaches: modules, functions, classes, methods,
constants.

The walk begins at the entry points: the console script, the modules that programs import, and the
`python -m` modules. If code that is reached names a definition, the definition is reached as well.
A definition that only tests name is not reached. `x.run` reaches every method `run` of a reached
class, so the list may be too short. But no product code uses a definition on the list.

    python tools/unused.py        ends with 1 when it finds a name that is not in EXCEPTIONS
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
PACKAGE = "phalanx"
BESIDE = {"phalanx_benchmarks": ROOT / "benchmarks", "phalanx_research": ROOT / "research"}
"""Packages that use the core: the names of the core that they use count as used."""
DISTRIBUTIONS = [ROOT, *BESIDE.values()]

PUBLIC = (
    "phalanx.actor",
    *(
        f"phalanx.adapters.{host}"
        for host in (
            *("cells", "dagster", "dask", "hydra", "jax", "jupyter", "lightning", "mpi"),
            *("mpi_agent", "parsl", "prefect", "snakemake", "submitit", "tensorflow", "torchx"),
        )
    ),
    "phalanx.adapters.ray.jobs",
    "phalanx.adapters.ray.path",
    "phalanx.adapters.slurm.commands.main",
    "phalanx.cli",
    "phalanx.cluster_utils",
    "phalanx.compat",
    "phalanx.exceptions",
    "phalanx_research.traces.frames",
    "phalanx.runtime_context",
    "phalanx.runtime_env",
    "phalanx.util",
)
"""Packages and modules that programs import, in addition to the names of `phalanx` itself."""

IN_RAYS_NAMES = "phalanx.adapters.ray.modules"
"""The package of stand-ins for Ray's private modules, whose names with an underscore are Ray's,
too.
"""

RETURNED = (
    "api.gangs.Gang",
    "api.session.RuntimeHandle",
    "runtime.engine.runtime_context.RuntimeContext",
    "model.ids.BaseID",
    "objects.dag.DAGNode",
    "objects.handle.ActorHandle",
)
"""Classes whose objects programs receive. Programs may call their public methods, so these count as
used.
"""

REGISTRIES = {
    "phalanx.scheduler.cycle.registry": "phalanx.scheduler.plugins",
    "phalanx.scheduler.cycle.cycle": "phalanx.scheduler.actions",
}
"""Modules that import other modules by names in a table, each with the package of those other
modules.
"""

EXCEPTIONS: dict[str, str] = {
    "phalanx.api.call_types.ClassCallable": "an annotation names it, for type checkers",
    "phalanx.api.call_types.ManyMethodDecorator": "an annotation names it, for type checkers",
    "phalanx.api.call_types.Method": "an annotation names it, for type checkers",
    "phalanx.api.call_types.MethodDecorator": "an annotation names it, for type checkers",
    "phalanx.api.call_types.MethodOfActor": "an annotation names it, for type checkers",
    "phalanx.api.decorator.ManyDecorator": "an annotation names it, for type checkers",
    "phalanx.api.decorator.RemoteDecorator": "an annotation names it, for type checkers",
    "phalanx.runtime.os.debugging._Debugger.do_EOF": "pdb calls it by its name",
    "phalanx.runtime.os.debugging._Debugger.do_continue": "pdb calls it by its name",
    "phalanx.runtime.os.debugging._Debugger.do_quit": "pdb calls it by its name",
    "phalanx.runtime.os.debugging._Debugger._hang_up": "a part of do_quit",
    "phalanx.adapters.ray.jobs.server._Connection.do_DELETE": "http.server calls it by its name",
    "phalanx.adapters.ray.jobs.server._Connection.do_GET": "http.server calls it by its name",
    "phalanx.adapters.ray.jobs.server._Connection.do_POST": "http.server calls it by its name",
    "phalanx.adapters.ray.jobs.server._Connection.do_PUT": "http.server calls it by its name",
    "phalanx.adapters.ray.jobs.server._Connection.log_message": "http.server calls it",
    "phalanx.scheduler.cycle.kept.KeptCluster.snapshot_now": "tests compare columns with it",
    "phalanx.scheduler.cycle.kept.KeptCluster._task_now": "a part of snapshot_now",
    "phalanx.node.single_node.SingleNodeMembership.has_head": "tests see by it when it is made",
    "phalanx.util.executor.Executor._max_workers": "Dask reads it of every executor",
    "phalanx.util.placement_group._valid_resource_shape": "Ray's Train imports it from there",
}
"""Qualified names that stay although no product code reaches them, each with the reason."""

CALLED_BY_RAYS_PROGRAMS = frozenset(
    {
        "_actor_id",
        "_check_connected",
        "_generator_ref",
        "_get_local_state",
        "_ray_actor_id",
        "_remote",
    }
)
"""Private names of Ray that programs written for Ray use."""

CALLED_BY_PYTHON = frozenset(
    {"connection_lost", "connection_made", "create_module", "data_received", "exec_module"}
    | {"find_class", "reducer_override", "writable"}
)
"""Methods that the standard library calls: of protocols, importers, picklers and files."""

SHOWN = f"{PACKAGE}.dashboard."
SHOWN_BY_TEMPLATES = frozenset(
    name
    for template in SRC.glob("phalanx/*/templates/*.html")
    for name in re.findall(r"\.([a-z_]+)", template.read_text())
)
"""Names that the templates of pages use. The data of the pages may have attributes of these names.
"""

CALLED_BY_NOTEBOOKS = frozenset({"_repr_html_"})
CALLED_BY_STARLETTE = frozenset({"file_response"})

CALLED_BY_HOSTS = frozenset(
    {"_handle_signals", "_valid_parameters", "_submit_command", "_make_submission_file_text"}
    | {"_make_submission_command", "_get_job_id_from_submission_command"}
    | {"_submit_dryrun", "_run_opts", "_cancel_existing"}
)
"""Methods that adapters override in classes of submitit and TorchX, which call them."""

CALLED = (
    CALLED_BY_PYTHON
    | CALLED_BY_RAYS_PROGRAMS
    | CALLED_BY_NOTEBOOKS
    | CALLED_BY_STARLETTE
    | CALLED_BY_HOSTS
)

INERT = frozenset(
    {
        "abstractmethod", "cache", "cached_property", "classmethod", "contextmanager", "dataclass",
        "lru_cache", "overload", "property", "runtime_checkable", "staticmethod", "wraps",
    }
)  # fmt: skip
"""Decorators that do not let other code call the function. Any other decorator does, so its
function counts as called.
"""


@dataclass(eq=False)
class Definition:
    """A module's own statements (`name` is empty), a function, a class, or a method."""

    module: str
    name: str
    line: int
    code: list[ast.AST] = field(default_factory=list)
    """Code that runs, or is named, when the definition is reached."""
    members: dict[str, Definition] = field(default_factory=dict)
    """The functions and classes of a module, or the methods of a class, by name."""
    called: list[Definition] = field(default_factory=list)
    """Members that are called without being named: by a decorator, or by Python itself."""

    @property
    def qualified(self) -> str:
        """The definition's name, preceded by its module's."""
        return f"{self.module}.{self.name}" if self.name else self.module


class Program:
    """All modules, divided into definitions."""

    def __init__(self, *sources: tuple[Path, str]) -> None:
        """Read the modules. `sources`: pairs of a folder and the package in it."""
        self.modules: dict[str, Definition] = {}
        self.imports: dict[str, dict[str, set[tuple[str, str]]]] = {}
        """By module and by name in the module: pairs (module, name there) that the name stands
        for. The second name is empty for a whole module.

        Imports in functions count, too. So one name may stand for several things.
        """
        self.files: dict[str, str] = {}
        files = [(src, path) for src, name in sources for path in src.glob(f"{name}/**/*.py")]
        for src, path in sorted(files):
            parts = path.relative_to(src).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            tree = ast.parse(path.read_text(encoding="utf-8"))
            self.files[name] = str(path.relative_to(src.parent))
            known = self.imports[name] = {}
            for word, source in _imports(tree):
                known.setdefault(word, set()).add(source)
            self.modules[name] = Definition(name, "", 1)
            self._split(self.modules[name], self.modules[name], tree.body)

    def _split(self, module: Definition, owner: Definition, body: list[ast.stmt]) -> None:
        """Divide a body into code that runs with its owner and separate definitions."""
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                made = self._add(module, owner, node.name, node.lineno)
                made.code = [node]
                owner.code += node.decorator_list
                is_called = any(_last_name(one) not in INERT for one in node.decorator_list)
                is_shown = f"{module.module}.".startswith(SHOWN) and node.name in SHOWN_BY_TEMPLATES
                if is_called or is_shown or _is_dunder(node.name) or node.name in CALLED:
                    owner.called.append(made)
            elif isinstance(node, ast.ClassDef):
                made = self._add(module, owner, node.name, node.lineno)
                made.code = [*node.bases, *(word.value for word in node.keywords)]
                made.code += node.decorator_list
                self._split(module, made, node.body)
            elif isinstance(node, ast.If | ast.Try | ast.With):
                inner = [one for one in ast.walk(node) if isinstance(one, ast.stmt) and one != node]
                defined = [n for n in inner if isinstance(n, ast.FunctionDef | ast.ClassDef)]
                self._split(module, owner, defined)  # type: ignore[arg-type]
                owner.code.append(node)
            else:
                owner.code.append(node)

    def _add(self, module: Definition, owner: Definition, name: str, line: int) -> Definition:
        inside = f"{owner.name}." if owner.name else ""
        made = owner.members[name] = Definition(module.module, inside + name, line)
        return made

    def all(self) -> Iterator[Definition]:
        """Yield every definition, owners before their members."""
        waiting = list(self.modules.values())
        while waiting:
            found = waiting.pop()
            yield found
            waiting += found.members.values()


class Walk:
    """Follows every name, starting from the entry points."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.reached: set[Definition] = set()
        self._waiting: list[Definition] = []
        self._named: set[tuple[str, str]] = set()
        """The pairs (module, name in the module) that were followed."""
        self._dotted: set[str] = set()
        """The names that were seen after a dot so far."""
        self._owners: list[Definition] = []
        """The owners of members that a dot may mean: reached classes, and modules named in a
        string.
        """

    def run(self) -> None:
        """Begin at the entry points, and continue until nothing new is found."""
        self._publish(PACKAGE)
        for module, name in entry_points():
            self._enter(module, name)
        for found in self._program.all():
            if found.qualified.removeprefix(f"{PACKAGE}.") in RETURNED:
                self._publish_methods(found)
            elif found.module.startswith(IN_RAYS_NAMES):
                self._reach(found)
        for name, module in self._program.modules.items():
            if any(name == one or name.startswith(f"{one}.") for one in PUBLIC):
                self._publish(name)
            elif _runs_as_main(module):
                self._reach(module)
        while self._waiting:
            found = self._waiting.pop()
            for part in found.code:
                for node in ast.walk(part):
                    self._follow(found.module, node)

    def _enter(self, module: str, name: str) -> None:
        """Reach an entry point; without a name, everything that its module offers."""
        if not self._module(module):
            return
        if name:
            self._name(module, name)
        else:
            self._publish(module)

    def _publish(self, name: str) -> None:
        """Reach the public names of a module that programs may use, and the public methods of its
        classes. In IN_RAYS_NAMES, names with an underscore count, too.
        """
        module = self._program.modules[name]
        self._reach(module)
        for word in (*module.members, *self._program.imports[name]):
            if not word.startswith("_") or name.startswith(IN_RAYS_NAMES):
                self._name(name, word)
                for found in self._meant(name, word):
                    self._publish_methods(found)

    def _publish_methods(self, found: Definition) -> None:
        self._reach(found)
        for word, method in found.members.items():
            if not word.startswith("_"):
                self._reach(method)

    def _meant(self, module: str, name: str) -> list[Definition]:
        """Return the classes and functions that a name in a module stands for."""
        if module not in self._program.modules:
            return []
        own = self._program.modules[module].members.get(name)
        if own is not None:
            return [own]
        sources = self._program.imports[module].get(name, set()) - {(module, name)}
        return [one for source, word in sources if word for one in self._meant(source, word)]

    def _reach(self, found: Definition) -> None:
        if found in self.reached:
            return
        self.reached.add(found)
        self._waiting.append(found)
        self._module(found.module)
        for member in found.called:
            self._reach(member)
        if not found.name:
            self._module(found.module.rpartition(".")[0])
            package = REGISTRIES.get(found.module)
            for name in self._program.modules if package else ():
                if name.startswith(f"{package}."):
                    self._publish(name)
        elif found.members:
            self._own(found)

    def _own(self, owner: Definition) -> None:
        self._owners.append(owner)
        for word in self._dotted & owner.members.keys():
            self._reach(owner.members[word])

    def _module(self, name: str) -> bool:
        module = self._program.modules.get(name)
        if module is not None:
            self._reach(module)
        return module is not None

    def _follow(self, module: str, node: ast.AST) -> None:
        match node:
            case ast.Name(id=name):
                self._name(module, name)
            case ast.Attribute(value=ast.Name(id=left), attr=name):
                sources = self._program.imports[module].get(left, ())
                for source, word in sources:
                    whole = f"{source}.{word}" if word else source
                    if whole in self._program.modules:
                        self._name(whole, name)
                self._dot(name)
            case ast.Attribute(attr=name):
                self._dot(name)
            case ast.ImportFrom(module=str(source)):
                for alias in node.names:
                    self._module(f"{source}.{alias.name}") or self._module(source)
            case ast.Import():
                for alias in node.names:
                    self._module(alias.name)
            case ast.Constant(value=str(text)):
                self._follow_text(module, text)

    def _follow_text(self, module: str, text: str) -> None:
        """Follow a text that may be a module's name, `module:name`, or an annotation."""
        if self._module(text):
            self._own(self._program.modules[text])
        elif text.isidentifier():
            self._name(module, text)
            self._dot(text)
        elif text.count(":") == 1:
            self._enter(*text.split(":"))

    def _name(self, module: str, name: str) -> None:
        if (module, name) in self._named:
            return
        self._named.add((module, name))
        found = self._program.modules[module].members.get(name)
        if found is not None:
            self._reach(found)
        for source, word in self._program.imports[module].get(name, ()):
            is_module = self._module(f"{source}.{word}" if word else source)
            if not is_module and self._module(source):
                self._name(source, word)

    def _dot(self, name: str) -> None:
        if name not in self._dotted:
            self._dotted.add(name)
            for one in list(self._owners):
                if name in one.members:
                    self._reach(one.members[name])


def entry_points() -> Iterator[tuple[str, str]]:
    """Yield (module, name) of each entry point and command of the distributions. The name is empty
    for a whole module.
    """
    for distribution in DISTRIBUTIONS:
        project = tomllib.loads((distribution / "pyproject.toml").read_text())["project"]
        tables = [project.get("scripts", {}), *project.get("entry-points", {}).values()]
        for table in tables:
            for target in table.values():
                module, _, name = target.partition(":")
                yield module, name


def unused(*sources: tuple[Path, str]) -> dict[str, str]:
    """Return the definitions that are not reached, by qualified name, with their file and line.
    Definitions inside such a definition are left out.
    """
    program = Program(*(sources or [(SRC, PACKAGE), *((at, name) for name, at in BESIDE.items())]))
    walk = Walk(program)
    walk.run()
    found: dict[str, str] = {}
    for one in program.all():
        owner = one.qualified.rpartition(".")[0]
        is_new = one not in walk.reached and owner not in found
        is_doc = all(isinstance(part, ast.Expr) for part in one.code)
        is_empty = not one.name and not one.members and is_doc
        if is_new and not is_empty:
            found[one.qualified] = f"{program.files[one.module]}:{one.line}"
    return found


def unnamed(*folders: Path) -> dict[str, str]:
    """Return unused constants of modules, by qualified name, with their file and line. A constant
    is unused if its name appears nowhere else in the packages.

    Constants of modules that programs import, and of stand-ins for Ray's modules, are left out,
    because they may be read from outside.
    """
    texts = {
        path: (path.read_text(encoding="utf-8"), src)
        for src in folders or (SRC, *BESIDE.values())
        for path in sorted(src.rglob("*.py"))
    }
    entries = set(entry_points())
    counts = Counter(word for text, _ in texts.values() for word in re.findall(r"\w+", text))
    found = {}
    for path, (text, src) in texts.items():
        module = ".".join(path.relative_to(src).with_suffix("").parts).removesuffix(".__init__")
        if any(f"{module}.".startswith(f"{one}.") for one in (*PUBLIC, IN_RAYS_NAMES)):
            continue
        for node in ast.parse(text).body:
            targets = node.targets if isinstance(node, ast.Assign) else ()
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            for target in targets:
                name = target.id if isinstance(target, ast.Name) else "__"
                is_entry = (module, name) in entries
                if counts[name] == 1 and not is_entry and not _is_dunder(name):
                    found[f"{module}.{name}"] = f"{path.relative_to(src.parent)}:{node.lineno}"
    return found


def _imports(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, (node.module, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                yield alias.asname or first, (alias.name if alias.asname else first, "")


def _last_name(decorator: ast.expr) -> str:
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    return decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _runs_as_main(module: Definition) -> bool:
    nodes = (node for part in module.code for node in ast.walk(part))
    return any(isinstance(node, ast.Constant) and node.value == "__main__" for node in nodes)


def main() -> int:
    """Print what is unused, and exceptions that are no longer needed."""
    found = unused() | unnamed()
    strange = {name: where for name, where in found.items() if name not in EXCEPTIONS}
    for name, where in sorted(strange.items(), key=lambda pair: pair[1]):
        print(f"{where}: {name}: no product code uses it")
    needless = sorted(EXCEPTIONS.keys() - found.keys())
    for name in needless:
        print(f"tools/unused.py: EXCEPTIONS names {name}, which is used or no longer exists")
    return 1 if strange or needless else 0


if __name__ == "__main__":
    sys.exit(main())
