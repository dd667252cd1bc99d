"""Directories and modules of tasks and actors on nodes that share no directory."""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path

import pytest

import phalanx
from phalanx.errors import RuntimeEnvSetupError
from phalanx.runtime.environments import packing

NODES = ("here", "there")


@pytest.fixture
def cluster(new_cluster, tmp_path):
    """Two nodes, each with a cache of its own."""
    cluster = new_cluster()
    for name in NODES:
        cache = tmp_path / f"cache-{name}"
        cluster.add_node(num_cpus=2, resources={name: 8}, env_vars={"XDG_CACHE_HOME": str(cache)})
    yield cluster
    phalanx.shutdown()


@pytest.fixture
def project(tmp_path):
    """A directory with a module and data, and a package beside it."""
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    (project / "ours.py").write_text("VALUE = 1\n")
    (project / "sub" / "data.txt").write_text("data")
    (project / "secret.log").write_text("secret")
    (project / ".gitignore").write_text("*.log\n")
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / "__init__.py").write_text("VALUE = 2\n")
    return project


@phalanx.remote
def look():
    ours, tool = (importlib.import_module(name) for name in ("ours", "tool"))
    data = Path("sub/data.txt").read_text()
    return ours.VALUE, tool.VALUE, data, os.path.exists("secret.log"), ours.__file__, os.getcwd()


@phalanx.remote
def nested(name):
    return phalanx.get(look.options(resources={name: 1}).remote())


@phalanx.remote
class Looking:
    def look(self):
        return importlib.import_module("ours").VALUE


def test_tasks_import_what_init_uploaded_on_every_node(cluster, project, tmp_path, get):
    modules = [str(tmp_path / "tool")]
    phalanx.init(cluster.address, runtime_env={"working_dir": project, "py_modules": modules})
    shutil.rmtree(project)
    shutil.rmtree(tmp_path / "tool")
    for name, other in (NODES, NODES[::-1]):
        found = get(look.options(resources={name: 1}).remote())
        assert found[:4] == (1, 2, "data", False)
        assert all(path.startswith(str(tmp_path / f"cache-{name}")) for path in found[4:]), found
        assert get(nested.options(resources={name: 1}).remote(other))[:4] == found[:4]
        assert get(Looking.options(resources={name: 1}).remote().look.remote()) == 1
    packages = list((tmp_path / "cache-there").rglob("ours.py"))
    assert len(packages) == 1, "it was unpacked once"


def test_a_task_uploads_its_own_directory_and_again_when_it_changes(cluster, project, get, capfd):
    @phalanx.remote(resources={"there": 1})
    def value():
        return importlib.import_module("ours").VALUE

    phalanx.init(cluster.address)
    options = {"runtime_env": {"working_dir": str(project)}}
    assert [get(value.options(**options).remote()) for _ in range(3)] == [1, 1, 1]
    assert capfd.readouterr().err.count(f"uploading {project}") == 1
    (project / "ours.py").write_text("VALUE = 11\n")
    assert get(value.options(**options).remote()) == 11


def test_a_zip_file_is_uploaded_as_it_is(cluster, project, tmp_path, get):
    @phalanx.remote(resources={"there": 1})
    def value():
        return importlib.import_module("ours").VALUE

    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", project)
    phalanx.init(cluster.address, runtime_env={"working_dir": archive})
    assert get(value.remote()) == 1
    phalanx.shutdown()
    with pytest.raises(ValueError, match="is a zip file, which only clusters take"):
        phalanx.init("local", num_cpus=1, runtime_env={"working_dir": archive})
    assert not phalanx.is_initialized()


def test_what_cannot_be_uploaded_is_refused_at_once(cluster, project, get, monkeypatch):
    monkeypatch.setattr(packing, "MOST_BYTES", 10)
    with pytest.raises(ValueError, match=r"a package has at most 10 B. The largest files: "):
        phalanx.init(cluster.address, runtime_env={"working_dir": str(project)})
    assert not phalanx.is_initialized()
    phalanx.init(cluster.address)
    with pytest.raises(ValueError, match="a package has at most 10 B"):
        look.options(runtime_env={"py_modules": [str(project)]}).remote()


def test_a_package_that_the_head_does_not_have_fails_the_work_and_not_the_node(cluster, get):
    phalanx.init(cluster.address)
    lost = f"phalanx-package:{'0' * 64}:10:"
    with pytest.raises(RuntimeEnvSetupError, match="the head does not have package 0000"):
        get(look.options(runtime_env={"working_dir": lost}).remote())
    assert get(phalanx.remote(lambda: 3).remote()) == 3


DRIVER = """
import os, phalanx

@phalanx.remote
def look():
    import ours
    return ours.VALUE, os.path.exists("made"), os.getcwd()

open("made", "w").close()
phalanx.init()
for name in ("here", "there"):
    value, shares, directory = phalanx.get(look.options(resources={name: 1}).remote())
    print(name, value, shares, directory == os.getcwd())
    if name == "here":
        os.unlink(".phalanx-packages")  # other nodes do not have this directory
"""


def test_the_tasks_of_a_job_have_its_uploads_on_other_nodes(cluster, project):
    (project / "driver.py").write_text(DRIVER)
    phalanx.init(cluster.address)
    job = phalanx.submit(
        phalanx.Job(
            "exec $PHALANX_PYTHON driver.py",
            runtime_env={"working_dir": str(project)},
            resources={"here": 1},
            env={"PHALANX_ADDRESS": cluster.address},
        )
    )
    assert job.wait(120) == "Completed", job.logs()
    assert job.logs().splitlines()[-2:] == ["here 1 True True", "there 1 False False"]


def test_an_actor_has_its_environment_elsewhere_after_a_restart_of_the_head(
    new_cluster, project, tmp_path, get
):
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    cluster = new_cluster(store=str(store / "head.db"))
    first = [cluster.add_node(num_cpus=1, resources=own) for own in ({}, {"there": 1})][1]
    cluster.connect()

    @phalanx.remote(max_restarts=-1, max_task_retries=-1, resources={"there": 1})
    class Looking:
        def look(self):
            return importlib.import_module("ours").VALUE, os.environ.get("A")

    env = {"working_dir": str(project), "env_vars": {"A": "1"}}
    looking = Looking.options(runtime_env=env).remote()
    assert get(looking.look.remote()) == (1, "1")
    cluster.kill_head()
    cluster.start_head()
    cluster.add_node(num_cpus=1, resources={"there": 1})
    cluster.remove_node(first, allow_graceful=False)
    assert get(looking.look.remote()) == (1, "1")
