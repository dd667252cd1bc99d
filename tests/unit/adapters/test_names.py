"""Ray's module names lead to the same objects as Phalanx's, and a missing name is refused with a
clear message.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
import types
from typing import Any

import cloudpickle
import pytest

import phalanx
from phalanx.adapters.ray import alias as compat
from phalanx.adapters.ray import modules as ray_modules
from phalanx.adapters.ray import names
from phalanx.adapters.ray.dialect import DIALECT
from phalanx.adapters.ray.modules.constants import env_integer
from phalanx.runtime.daemons import logins, personal_token
from phalanx.runtime.engine import dialect


@pytest.fixture
def installed(monkeypatch):
    """Install the names for one test. A real Ray that is already imported is restored."""
    for name in [name for name in sys.modules if name == "ray" or name.startswith("ray.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setenv(dialect.VARIABLE, "")
    compat.install()
    yield
    compat.uninstall()


PUBLIC = [
    "ObjectRef",
    "available_resources",
    "cancel",
    "cluster_resources",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "shutdown",
    "timeline",
    "wait",
]


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_names_are_ours(installed, name):
    import ray

    assert getattr(ray, name) is getattr(phalanx, name)


@pytest.mark.parametrize(("theirs", "ours"), sorted(names.SAME_MODULE.items()))
def test_a_module_is_the_same_under_both_names(installed, theirs, ours):
    spec_before = importlib.import_module(ours).__spec__
    assert importlib.import_module(theirs) is sys.modules[ours]
    assert sys.modules[ours].__spec__ is spec_before
    assert sys.modules[ours].__name__ == ours


@pytest.mark.parametrize("theirs", sorted(names.SOME_NAMES))
def test_every_name_that_is_listed_is_there(installed, theirs):
    module = importlib.import_module(theirs)
    for ours, listed in names.SOME_NAMES[theirs].items():
        for name in listed:
            if name != "*":
                assert getattr(module, name) is getattr(importlib.import_module(ours), name)


@pytest.mark.parametrize(
    "statement",
    [
        "import ray.util.queue; found = ray.util.queue.Queue",
        "from ray.util.queue import Queue as found",
        "from ray.util import queue; found = queue.Queue",
        "import ray; found = ray.util.queue.Queue",
        "import ray.util.queue as queue; found = queue.Queue",
    ],
)
def test_every_form_of_import_gives_the_same(installed, statement):
    from phalanx.util.queue import Queue

    names: dict[str, Any] = {}
    exec(statement, names)
    assert names["found"] is Queue


def test_placement_group_is_the_function_whatever_was_imported_first(installed):
    import ray
    import ray.util.placement_group
    from ray.util.placement_group import placement_group

    assert ray.util.placement_group is placement_group
    assert not isinstance(placement_group, types.ModuleType)


def test_exceptions_are_ours(installed):
    import ray
    from ray.exceptions import GetTimeoutError, RayError

    from phalanx import errors

    assert RayError is errors.PhalanxError
    assert GetTimeoutError is ray.exceptions.GetTimeoutError is errors.GetTimeoutError


@pytest.mark.parametrize(
    "statement",
    [
        "import ray.data",
        "from ray import data",
        "from ray.data import read_csv",
        "import ray.util.spark",
        "from ray.util import spark",
    ],
)
def test_what_is_not_there_says_so(installed, statement):
    with pytest.raises(ImportError, match=r"Phalanx has no ray\.(data|util\.spark)"):
        exec(statement, {})


@pytest.mark.parametrize(
    ("theirs", "name"),
    [(module, name) for module, names in sorted(names.REFUSED.items()) for name in names],
)
def test_what_is_refused_imports_and_says_so_when_it_is_called(installed, theirs, name):
    refused = getattr(importlib.import_module(theirs), name)
    with pytest.raises(NotImplementedError, match=f"Phalanx has no {theirs}.{name}"):
        refused()


def test_an_attribute_that_is_not_there_says_so(installed):
    import ray

    assert not hasattr(ray, "data")
    with pytest.raises(AttributeError, match=r"Phalanx has no ray\.data .* --libraries"):
        ray.data
    with pytest.raises(AttributeError, match=r"Phalanx has no ray\.serve: .* not offered"):
        ray.serve


def test_what_is_ours_alone_is_not_under_ray_s_name(installed):
    import ray

    import phalanx.runtime  # noqa: F401  # an attribute of phalanx from now on

    assert not hasattr(ray, "engines")


def test_modules_are_attributes_without_an_import_of_their_own(installed):
    import ray

    assert ray.util.actor_pool.ActorPool is ray.util.ActorPool
    assert ray.exceptions.RayError is phalanx.exceptions.RayError
    assert ray.actor.exit_actor is phalanx.actor.exit_actor


@pytest.mark.parametrize("name", ["ray", "ray.util", "ray.util.queue", "ray.exceptions"])
def test_modules_are_pickled_by_their_name(installed, name):
    module = importlib.import_module(name)
    assert cloudpickle.loads(cloudpickle.dumps(module)) is module


@pytest.mark.parametrize("theirs", ["ray", "ray.util"])
def test_a_lazily_imported_module_has_its_names_when_it_is_first_used(installed, theirs):
    spec = importlib.util.find_spec(theirs)
    assert spec is not None and spec.loader is not None
    lazy = importlib.util.module_from_spec(spec)
    sys.modules[theirs] = lazy
    importlib.util.LazyLoader(spec.loader).exec_module(lazy)

    first = {"ray": "is_initialized", "ray.util": "ActorPool"}[theirs]
    assert getattr(lazy, first) is getattr(importlib.import_module(theirs), first)
    with pytest.raises(AttributeError, match="is not offered"):
        _ = lazy.no_such_name


def test_star_import_gives_the_public_names(installed):
    names: dict[str, Any] = {}
    exec("from ray import *", names)
    assert names["get"] is phalanx.get


def test_the_version_is_that_of_the_interface(installed):
    import ray

    assert ray.__version__ == compat.RAY_VERSION


def test_installing_twice_changes_nothing(installed):
    before = list(sys.meta_path)
    compat.install()
    assert sys.meta_path == before
    assert os.environ[dialect.VARIABLE] == "ray"


def test_uninstalling_takes_all_back(installed):
    import ray.util.queue  # noqa: F401

    compat.uninstall()
    assert dialect.VARIABLE not in os.environ
    assert not [name for name in sys.modules if name == "ray" or name.startswith("ray.")]


def test_a_ray_that_is_there_already_is_not_replaced(installed, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))
    with pytest.raises(RuntimeError, match="imported already"):
        compat.install()


def test_the_ray_engine_is_refused_under_rays_names(installed):
    # Without this it would import Phalanx for Ray, and that again.
    with pytest.raises(RuntimeError, match="import phalanx as ray"):
        phalanx.init("ray:local")


@pytest.mark.parametrize(
    ("address", "environment", "found"),
    [
        ("ray://localhost:10001", {}, "auto"),
        ("ray://127.0.0.1:10001", {}, "auto"),
        (None, {"RAY_ADDRESS": "ray://localhost:10001"}, "auto"),
        (None, {}, None),
        ("10.0.0.1:6380", {"RAY_ADDRESS": "ray://localhost:10001"}, "10.0.0.1:6380"),
    ],
)
def test_a_client_server_here_is_the_cluster_that_runs_here(
    monkeypatch, address, environment, found
):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert DIALECT.without_client(address) == found


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("ray://far:10001", "phalanx://far:6379"),
        ("ray://far", "phalanx://far:6379"),
        ("ray://far:7000", "phalanx://far:7000"),
        ("ray://[fd00::1]:10001", "phalanx://[fd00::1]:6379"),
        ("ray://lab:10001", "phalanx://lab:6380"),
    ],
)
def test_a_client_server_elsewhere_is_where_the_driver_will_be(
    monkeypatch, tmp_path, address, found
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    token = str(personal_token.new_token())
    login = logins.Login(name="of-the-lab", address="lab:6380", token=token)
    logins.save(logins.Logins().adding(login))
    assert DIALECT.without_client(address) == found


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.iter_modules(ray_modules.__path__)]
)
def test_what_a_module_of_rays_names_defines_it_offers(name):
    module = importlib.import_module(f"{ray_modules.__name__}.{name}")
    own = [
        each
        for each, value in vars(module).items()
        if each[0] != "_" and getattr(value, "__module__", "") == module.__name__
    ]
    assert set(own) <= set(getattr(module, "__all__", own))


@pytest.mark.parametrize("text", ["--5", "x", "-", "²"])
def test_a_number_in_the_environment_that_is_none_is_passed_over(monkeypatch, text):
    monkeypatch.setenv("RAY_TASK_MAX_RETRIES", text)
    monkeypatch.setenv("RAY_some_number", text)
    assert DIALECT.max_retries() is None
    assert env_integer("RAY_some_number", 7) == 7
