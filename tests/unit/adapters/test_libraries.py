"""Ray's libraries from an installed ray: which files are used, and which versions of ray are
refused.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from phalanx.adapters.ray import alias as compat
from phalanx.adapters.ray.libraries import (
    CHECKED,
    LIBRARIES,
    InstalledRay,
    LibrariesUnavailableError,
    find_installed,
)
from phalanx.runtime.engine import dialect

NEWEST = ".".join(map(str, CHECKED[1]))

FILES = {
    "ray/__init__.py": "raise RuntimeError('the core of the installed ray was imported')\n",
    "ray/_raylet.so": "no library\n",
    "ray/serve/__init__.py": "",
    "ray/tune/__init__.py": "import ray\nfrom ray.tune.trial import Trial, square\n",
    "ray/tune/trial.py": (
        "import os\n\nimport ray\n\nWRITES = os.environ.get('RAY_writes')\n\n\n"
        "class Trial:\n    def __init__(self, value):\n        self.value = value\n\n\n"
        "@ray.remote\ndef square(trial):\n    return Trial(trial.value**2)\n"
    ),
    "ray/tune/fast.so": "no library\n",
    "ray/core/generated/some_pb2.py": "WHERE = __file__\n",
    "ray/widgets/__init__.py": "",
    "ray/_private/dict.py": "",
    "ray/_private/worker.py": "raise RuntimeError('of the core')\n",
}


def make_distribution(root: Path, version: str, files: dict[str, str] = FILES) -> Path:
    """Make a directory as `pip install --target` would, with a small part of ray; return its
    path.
    """
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    metadata = root / f"ray-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: ray\nVersion: {version}\n")
    return root


@pytest.fixture
def only(tmp_path, monkeypatch):
    """Set the interpreter's import path to a single directory."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_the_installed_one_is_found_and_not_imported(only):
    make_distribution(only, f"{NEWEST}.1")
    found = find_installed()
    assert (found.version, found.root) == (f"{NEWEST}.1", only / "ray")


def test_without_a_ray_the_error_says_what_to_install(only):
    with pytest.raises(LibrariesUnavailableError, match=r"pip install 'ray\[tune,data,train\]=="):
        find_installed()


@pytest.mark.parametrize("version", ["2.9.3", "1.13.0", "unknown"])
def test_an_older_one_is_refused(only, version):
    make_distribution(only, version)
    with pytest.raises(LibrariesUnavailableError, match=f"ray {version} do not run on Phalanx"):
        find_installed()


def test_a_newer_one_is_taken_with_a_warning(only):
    make_distribution(only, "2.999.0")
    with pytest.warns(UserWarning, match=r"ray 2\.999\.0 were not tried"):
        assert find_installed().version == "2.999.0"


@pytest.mark.parametrize("release", CHECKED)
def test_those_that_were_tried_are_taken_in_silence(only, release):
    make_distribution(only, f"{release[0]}.{release[1]}.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        find_installed()


def test_one_without_its_libraries_is_refused(only):
    make_distribution(only, f"{NEWEST}.0", {"ray/__init__.py": ""})
    with pytest.raises(LibrariesUnavailableError, match="lacks its libraries"):
        find_installed()


@pytest.fixture
def installed(tmp_path):
    return InstalledRay(f"{NEWEST}.0", make_distribution(tmp_path, f"{NEWEST}.0") / "ray")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("ray.tune", "tune/__init__.py"),
        ("ray.tune.trial", "tune/trial.py"),
        ("ray.widgets", "widgets/__init__.py"),
        ("ray._private.dict", "_private/dict.py"),
        ("ray.core.generated.some_pb2", "core/generated/some_pb2.py"),
    ],
)
def test_libraries_and_what_they_need_beside_come_from_its_files(installed, name, file):
    spec = installed.spec(name)
    assert spec is not None
    assert spec.origin == str(installed.root / file)


def test_a_directory_without_a_module_of_its_own_is_a_package(installed):
    spec = installed.spec("ray.core.generated")
    assert spec is not None
    assert spec.submodule_search_locations == [str(installed.root / "core" / "generated")]


@pytest.mark.parametrize(
    "name",
    [
        *("ray", "ray._raylet", "ray._private.worker", "ray.serve", "ray.tuner"),
        *("ray.tune.fast", "ray.tune.absent", "ray.data"),
    ],
)
def test_nothing_of_the_core_is_taken_nor_what_is_compiled_or_absent(installed, name):
    assert installed.spec(name) is None


@pytest.fixture
def names(monkeypatch):
    """Let one test use Ray's names. A real Ray that is imported is restored."""
    for name in [name for name in sys.modules if name == "ray" or name.startswith("ray.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setenv(dialect.VARIABLE, "")
    monkeypatch.setenv(compat.LIBRARIES_MARKER, "0")
    yield
    compat.uninstall()


def test_libraries_run_on_our_core_under_its_names(names, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(make_distribution(tmp_path, f"{NEWEST}.7"))
    compat.install(libraries=True)
    ray = importlib.import_module("ray")
    assert ray.tune.Trial(3).value == 3
    assert ray.__version__ == f"{NEWEST}.7"
    assert ray._private.worker.global_worker.core_worker is not None
    with pytest.raises(ImportError, match=r"Phalanx has no ray\.serve"):
        importlib.import_module("ray.serve")


def test_workers_are_to_find_them_imported_where_they_are_wanted(names, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(make_distribution(tmp_path, f"{NEWEST}.0"))
    compat.install()
    assert compat.preloaded() == ()
    compat.install(libraries=True)
    (module,) = compat.preloaded()
    monkeypatch.delitem(sys.modules, module, raising=False)
    importlib.import_module(module)
    assert "ray.tune.trial" in sys.modules


def test_they_are_there_only_where_they_were_asked_for(names, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(make_distribution(tmp_path, f"{NEWEST}.0"))
    compat.install()
    with pytest.raises(ImportError, match=r"Phalanx has no ray\.tune"):
        importlib.import_module("ray.tune")
    compat.install(libraries=True)
    importlib.import_module("ray.tune")
    assert os.environ[compat.LIBRARIES_MARKER] == "1"
    compat.install(libraries=False)
    assert os.environ[compat.LIBRARIES_MARKER] == "0"
    for name in LIBRARIES:
        sys.modules.pop(name, None)
    with pytest.raises(ImportError, match=r"Phalanx has no ray\.tune"):
        importlib.import_module("ray.tune")


def test_where_they_cannot_be_had_nothing_is_installed(names, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(make_distribution(tmp_path, "2.9.3"))])
    with pytest.raises(LibrariesUnavailableError):
        compat.install(libraries=True)
    assert os.environ[dialect.VARIABLE] == ""


PROGRAM = """
import sys

import ray
from ray import tune


@ray.remote
def has_it_imported():
    return sys.modules["ray.tune.trial"].WRITES  # read from the environment at its import


ray.init(num_cpus=1, runtime_env={"env_vars": {"RAY_writes": "each"}})
print(ray.get(has_it_imported.remote()))
trial = ray.get(tune.square.remote(tune.Trial(7)))
print(type(trial) is tune.Trial, trial.value, ray.get_runtime_context().get_node_id() != "")
"""


@pytest.mark.parametrize(
    ("option", "variable"), [(["--libraries"], ""), ([], "1")], ids=["option", "variable"]
)
def test_a_program_and_its_workers_share_them(tmp_path, option, variable):
    root = make_distribution(tmp_path / "site", f"{NEWEST}.0")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "phalanx.compat.ray", *option, str(path)],
        env={**os.environ, "PYTHONPATH": str(root), compat.LIBRARIES_MARKER: variable},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "each\nTrue 49 True\n"), done.stderr
