"""`import ray` gives the engine under test, with the private helpers that tests import.

RAY_CONF_ENGINE=phalanx  ray and ray.* are what phalanx.compat.ray gives; test helpers come
                         from shim/, and what is not offered is a stub.
RAY_CONF_ENGINE=ray      ray is Ray; only the test helpers (FORCED) come from shim/.

A stub stands for a name the engine lacks: it can be imported, subclassed, caught, and it
raises NotImplementedError when a test calls it. So one missing name costs the tests that
use it, not their whole file. Missing names are written to RAY_CONF_MISSING.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
SHIM = os.path.join(HERE, "shim")
PROGRAMS = os.environ.get("RAY_CONF_PROGRAMS", "")  # Ray's ray/experimental
SHUFFLE = "ray.experimental.shuffle"  # a program on Ray's public interface
SOURCES = os.environ.get("RAY_CONF_SOURCES", "")  # Ray's python/ray, for tests of its libraries

# module -> file in shim/, for every engine
FORCED = {
    "ray._common.test_utils": "test_utils.py",
    "ray._private.test_utils": "private_test_utils.py",
    "ray.tests": "tests.py",
    "ray.tests.conftest": "conftest.py",
    "ray.tests.client_test_utils": "client_test_utils.py",
}
if SOURCES:
    FORCED["ray.rllib"] = "rllib.py"
if os.environ.get("RAY_CONF_ENGINE", "phalanx") == "phalanx":
    FORCED["ray.util.state.state_cli"] = "state_cli.py"
_noted = set()


def note_missing(name):
    path = os.environ.get("RAY_CONF_MISSING")
    if path and name not in _noted:
        _noted.add(name)
        try:
            with open(path, "a") as out:
                out.write(name + "\n")
        except OSError:
            pass


def _importing_tests():
    """Return True while a test file's own top-level code runs."""
    folder = os.environ.get("RAY_TESTS_DIR", "")
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "<module>" and os.path.dirname(code.co_filename) == folder:
            return True
        frame = frame.f_back
    return False


def _imported_by_tests():
    """Return True if the import in progress stands in a test file itself."""
    frame = sys._getframe(1)
    while frame is not None and (
        "importlib" in frame.f_code.co_filename or frame.f_code.co_filename == __file__
    ):
        frame = frame.f_back
    folder = os.environ.get("RAY_TESTS_DIR", "")
    return frame is not None and os.path.dirname(frame.f_code.co_filename) == folder


class StubMeta(type):
    def __getattr__(cls, name):
        if name.startswith(("__", "_pytest")):
            raise AttributeError(name)
        return make_stub("{}.{}".format(cls.__dict__.get("conf_name", cls.__name__), name))

    def __call__(cls, *args, **kwargs):
        if _importing_tests():
            return cls
        raise NotImplementedError(
            "{}: not provided by the engine".format(getattr(cls, "conf_name", cls.__name__))
        )

    def __bool__(cls):
        return False

    def __iter__(cls):
        return iter(())


def make_stub(name):
    return StubMeta(
        name.rpartition(".")[2] or "Stub",
        (Exception,),
        {"conf_name": name, "__module__": "conf_alias"},
    )


def stub_getattr(module_name):
    """Return a `__getattr__` for a module, which returns a stub for every public name."""

    def __getattr__(name):
        if name.startswith("__") or name in ("pytestmark", "pytest_plugins"):
            raise AttributeError(f"{module_name}.{name}")
        stub = make_stub(f"{module_name}.{name}")
        setattr(sys.modules[module_name], name, stub)
        return stub

    __getattr__.answers_all = True
    return __getattr__


class Loader(importlib.abc.Loader):
    def __init__(self, make):
        self.make = make

    def create_module(self, spec):
        module = self.make(spec.name)
        self.kept = getattr(module, "__spec__", None), getattr(module, "__loader__", None)
        return module

    def exec_module(self, module):
        spec, loader = self.kept
        if spec is not None:  # a module under another name of its own: leave it unchanged
            module.__spec__ = spec
            module.__loader__ = loader
        run = module.__dict__.pop("__conf_exec__", None)
        if run:
            run(module)


def _from_file(name, filename):
    """Return a module called `name` with the text of shim/`filename`."""
    path = os.path.join(SHIM, filename)
    module = types.ModuleType(name)
    module.__file__ = path
    if filename == "tests.py":
        module.__path__ = [os.environ.get("RAY_TESTS_DIR", SHIM)]
    else:
        module.__path__ = []

    def run(mod):
        mod.__dict__["__getattr__"] = stub_getattr(name)
        with open(path) as src:
            exec(compile(src.read(), path, "exec"), mod.__dict__)

    module.__dict__["__conf_exec__"] = run
    return module


def _stub_module(name):
    note_missing("module " + name)
    module = types.ModuleType(name)
    module.__path__ = []
    module.__dict__["__getattr__"] = stub_getattr(name)
    return module


def _is_module(name):
    """Import the module of this name, and return whether it exists."""
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return not getattr(sys.modules[name].__dict__.get("__getattr__"), "answers_all", False)


def _of_sources(name):
    """Return the import spec of the test file, or of the folder of tests, with this name in Ray's
    python/ray. Return None if there is none.
    """
    path = os.path.join(SOURCES, *name.split(".")[1:])
    if os.path.isdir(path):
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [path]
        return spec
    if os.path.isfile(path + ".py"):
        return importlib.util.spec_from_file_location(name, path + ".py")
    return None


class Finder(importlib.abc.MetaPathFinder):
    def __init__(self, engine):
        self.engine = engine
        self.busy = set()

    def find_spec(self, name, path=None, target=None):
        if name != "ray" and not name.startswith("ray."):
            return None
        if name in self.busy:
            return None
        if name in FORCED:
            return self.spec(name, lambda n: _from_file(n, FORCED[n]))
        if name.startswith("ray.tests."):  # a test file that another one or a worker imports
            return importlib.machinery.PathFinder.find_spec(
                name, [os.environ.get("RAY_TESTS_DIR", ""), *(path or ())]
            )
        if name == SHUFFLE and PROGRAMS:
            return importlib.util.spec_from_file_location(
                name, os.path.join(PROGRAMS, "shuffle.py")
            )
        if SOURCES and ".tests" in name:  # a library's test file, likewise
            return _of_sources(name)
        if self.engine == "ray":
            return None
        compat = importlib.import_module("phalanx.compat.ray")
        compat.install()
        self.busy.add(name)
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            if SOURCES and not _imported_by_tests():  # a library may continue without a module
                raise
            return self.spec(name, _stub_module)
        finally:
            self.busy.discard(name)
        if name == "ray":
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                # Reached as attributes, also in workers.
                for helper in FORCED.keys() - {"ray.rllib", "ray.util.state.state_cli"}:
                    importlib.import_module(helper)
                self.fill()

            spec.loader.exec_module = exec_module
        return spec

    def spec(self, name, make):
        return importlib.machinery.ModuleSpec(name, Loader(make), is_package=True)

    def fill(self):
        """Add stubs for the names that this test file imports and the engine lacks."""
        names = json.loads(os.environ.get("RAY_CONF_NAMES") or "{}")
        for module_name, wanted in names.items():
            if module_name in FORCED or module_name.startswith("ray.tests"):
                continue
            try:
                module = importlib.import_module(module_name)
            except Exception as error:
                print(f"conformance: import {module_name} failed: {error!r}", file=sys.stderr)
                continue
            if getattr(module.__dict__.get("__getattr__"), "answers_all", False):
                continue
            for name in wanted:
                if hasattr(module, name) or _is_module(f"{module_name}.{name}"):
                    continue
                full = f"{module_name}.{name}"
                if full in FORCED:
                    continue
                if full == SHUFFLE and PROGRAMS:
                    setattr(module, name, importlib.import_module(full))
                    continue
                note_missing(full)
                setattr(module, name, make_stub(full))


class KeepFirst(list):
    """A sys.meta_path on which this finder stays first, whatever an engine inserts."""

    def insert(self, index, finder):
        super().insert(1 if index == 0 and self and isinstance(self[0], Finder) else index, finder)


class Absent(importlib.abc.MetaPathFinder):
    """Gives stubs for some packages that test files import, but that no test which must pass
    uses.
    """

    NAMES = ("grpc", "click", "pydantic")

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in self.NAMES:
            return None
        if not _imported_by_tests():
            return None
        return importlib.machinery.ModuleSpec(name, Loader(_stub_module), is_package=True)


def install():
    if not any(isinstance(f, Finder) for f in sys.meta_path):
        sys.meta_path = KeepFirst(sys.meta_path)
        sys.meta_path.append(Absent())
        sys.meta_path.insert(0, Finder(os.environ.get("RAY_CONF_ENGINE", "phalanx")))
