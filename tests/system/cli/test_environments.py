"""Jobs and tasks in environments that their nodes prepare with pip, from wheels of the test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.wheels import build_wheel, pip_of

PROGRAM = """
import sys, phalanx
env, bad = map(__import__("json").loads, sys.argv[1:])

@phalanx.remote
def text():
    import greeting
    return greeting.TEXT

@phalanx.remote
def outer():
    return phalanx.get(text.remote())

@phalanx.remote
class Actor:
    def text(self):
        import greeting
        return greeting.TEXT

phalanx.init("local", num_cpus=2)
print(phalanx.get(text.options(runtime_env=env).remote()))
print(phalanx.get(outer.options(runtime_env=env).remote()))
print(phalanx.get(Actor.options(runtime_env=env).remote().text.remote()))
try:
    phalanx.get(text.options(runtime_env=bad).remote())
except phalanx.exceptions.RuntimeEnvSetupError as error:
    print("nonesuch" in str(error))
try:
    phalanx.get(text.remote())
except ModuleNotFoundError as error:
    print(error.name)
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheels")
    build_wheel(directory, "greeting", "hello")
    return directory


def test_a_job_runs_in_the_environment_that_its_node_prepares(running, wheels):
    environment = json.dumps(pip_of(wheels, "greeting"))
    code = "import greeting, os, sys; print(greeting.TEXT, sys.prefix == os.environ['VIRTUAL_ENV'])"
    command = ("--", "python3", "-c", code)
    for name in ("first", "second"):
        named = ("--name", name, "--runtime-env-json", environment)
        assert running.done("run", *named, *command) == "hello True\n"
    assert "greeting" in running.done("logs", "first", "--preparing")
    assert running.done("logs", "second", "--preparing") == "", "it was ready"
    inside = running.phalanx("run", *command)
    assert "No module named 'greeting'" in inside.stdout


def test_an_environment_that_cannot_be_made_fails_the_job_and_not_the_node(running, wheels):
    environment = json.dumps(pip_of(wheels, "nonesuch"))
    ended = running.phalanx(
        "run", "--runtime-env-json", environment, "--retries", "5", "--", "true"
    )
    assert ended.returncode == 1
    assert "its environment could not be prepared" in ended.stderr
    assert "No matching distribution found for nonesuch" in ended.stderr
    assert running.done("run", "--", "echo", "well") == "well\n"


def test_tasks_and_actors_run_in_workers_of_their_environment(running, wheels):
    good, bad = (json.dumps(pip_of(wheels, name)) for name in ("greeting", "nonesuch"))
    done = running.python(PROGRAM, good, bad)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["hello", "hello", "hello", "True", "greeting"]


def test_options_that_do_not_go_together_are_refused(running):
    both = running.phalanx("run", "--pip", "a", "--uv", "b", "--", "true")
    assert (both.returncode, "'uv' and 'pip'" in both.stderr) == (2, True)
    missing = running.phalanx("run", "--pip", "/nonexistent/requirements.txt", "--", "true")
    assert (missing.returncode, "/nonexistent/requirements.txt" in missing.stderr) == (2, True)


def test_a_directory_and_a_module_are_uploaded(running, tmp_path):
    project, module = tmp_path / "project", tmp_path / "helper.py"
    project.mkdir()
    module.write_text("VALUE = 7\n")
    (project / "train.py").write_text("import helper; print(open('data').read(), helper.VALUE)\n")
    (project / "data").write_text("here")
    (project / "secret.log").write_text("x")
    (project / ".gitignore").write_text("*.log\n")
    given = ("--working-dir", str(project), "--py-module", str(module))
    code = "python3 train.py; ls -1; echo made > data"
    for name in ("one", "two"):
        done = running.phalanx("run", "--name", name, *given, "--", "sh", "-c", code)
        assert (done.returncode, done.stdout) == (0, "here 7\ndata\ntrain.py\n"), done.stderr
        is_first = name == "one"
        assert (f"uploading {project}" in done.stderr) == is_first, "the head has it"
    assert (project / "data").read_text() == "here"
    missing = running.phalanx("run", "--working-dir", str(tmp_path / "none"), "--", "true")
    assert (missing.returncode, "no such directory" in missing.stderr) == (2, True)
