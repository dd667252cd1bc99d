"""Jobs, tasks and actors in images, with a stand-in for podman that runs their commands without a
container. Packages that a container would have in other places are used from where they are.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from tests.system.cli.conftest import Machine
from tests.system.people.test_login import Laptop

PODMAN = """#!/bin/sh
echo "$*" >> DIR/calls
case "$1" in
  image) [ -e "DIR/have-$(basename "$3")" ] ;;
  pull)
    case "$2" in *missing*) echo "Error: manifest unknown" >&2; exit 125 ;; esac
    echo "pulled $2"; : > "DIR/have-$(basename "$2")" ;;
  run)
    there=""
    while [ "$1" != --entrypoint= ]; do
      case "$1 $2" in "--volume "*:ro)
        to="${2#*:}"
        there="$there;s|${to%:ro}"'\\([/"]\\)|'"${2%%:*}"'\\1|g' ;;
      esac
      shift
    done
    shift 2
    for word; do
      shift; set -- "$@" "$(printf %s "$word" | sed "$there")"
    done
    exec "$@" ;;
esac
"""


class ImageMachine(Machine):
    """A machine whose node finds podman."""

    def __init__(self) -> None:
        super().__init__()
        self.tools = Path(self.directory) / "tools"
        self.tools.mkdir()
        podman = self.tools / "podman"
        podman.write_text(PODMAN.replace("DIR", str(self.tools)))
        podman.chmod(0o755)
        (self.tools / "calls").touch()
        (self.tools / "python3").symlink_to(os.path.realpath(sys.executable))
        self.env["PATH"] = f"{self.tools}:{self.env['PATH']}"
        self.env["PHALANX_CONTAINER_TOOL"] = "podman"

    def calls(self, kind: str) -> list[str]:
        """Return the words of podman's calls of this kind, oldest first."""
        calls = (self.tools / "calls").read_text().splitlines()
        return [call for call in calls if call.startswith(f"{kind} ")]


@pytest.fixture(scope="module")
def machine():
    machine = ImageMachine()
    try:
        machine.start_head()
        yield machine
    finally:
        machine.end()


def test_a_command_runs_in_its_image_which_is_pulled_once(machine, tmp_path):
    script = 'echo "$A $PWD"; cat data; exit 3'
    (tmp_path / "data").write_text("here\n")
    given = ("--image", "localhost/busy:1", "-e", "A=1", "--directory", str(tmp_path))
    for name in ("first", "second"):
        done = machine.phalanx("run", "--name", name, *given, "--", "sh", "-c", script)
        assert (done.returncode, done.stdout) == (3, f"1 {tmp_path}\nhere\n"), done.stderr
    assert machine.calls("pull") == ["pull localhost/busy:1"]
    assert "pulled localhost/busy:1" in machine.done("logs", "first", "--preparing")
    assert machine.done("logs", "second", "--preparing") == "", "it was ready"
    for call in machine.calls("run"):
        assert f"--volume {tmp_path}:{tmp_path}" in call
        assert f"--workdir {tmp_path}" in call
        assert "--env A " in call
        assert call.endswith(f"--entrypoint= localhost/busy:1 sh -c {script}")


def test_a_missing_image_is_the_fault_of_the_job(machine):
    ended = machine.phalanx("run", "--image", "missing:1", "--retries", "3", "--", "true")
    assert ended.returncode != 0
    assert "its environment could not be prepared" in ended.stderr
    assert "Error: manifest unknown" in ended.stderr
    assert machine.calls("pull").count("pull docker.io/library/missing:1") == 1
    assert machine.done("run", "--", "echo", "well") == "well\n"


def test_a_directory_is_uploaded_into_an_image(machine, tmp_path):
    (tmp_path / "msgspec.py").write_text("1 / 0\n")
    (tmp_path / "data").write_text("uploaded\n")
    given = ("--image", "localhost/busy:1", "--working-dir", str(tmp_path))
    script = 'cat data; echo "$PYTHONPATH"; pwd'
    shown = machine.done("run", *given, "--", "sh", "-c", script).splitlines()
    assert (shown[0], shown[1].split(":")[0]) == ("uploaded", shown[2])


MANIFEST = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: pods}
spec:
  tasks:
    - template:
        spec:
          containers:
            - {name: a, image: "localhost/pod:1", command: [echo, from-a-pod]}
"""


def test_the_image_of_a_manifest_is_used_where_a_tool_is(machine, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(MANIFEST)
    submitted = machine.phalanx("submit", str(file))
    assert submitted.returncode == 0, submitted.stderr
    assert machine.done("logs", "pods", "-f") == "from-a-pod\n"
    assert machine.calls("pull").count("pull localhost/pod:1") == 1


def test_the_tool_of_a_node_is_shown(machine):
    assert "phalanx.io/container=podman" in machine.done("nodes")
    doctor = machine.phalanx("doctor").stdout
    assert f"by {machine.tools}/podman" in doctor


TASKS = """
import json
import os
import phalanx
phalanx.init(namespace="n", runtime_env={"image_uri": "localhost/of-all:1"})
ONE = {"container": {"image": "localhost/one:1", "run_options": ["--hostname", "x"]}}
@phalanx.remote
def f():
    import phalanx
    print("printed by the task")
    return phalanx.get_runtime_context().runtime_env["container"]["image"]
@phalanx.remote(runtime_env=ONE)
class Nested:
    def call(self):
        return phalanx.get(f.remote())
    def end(self):
        os._exit(7)
print(phalanx.get([f.remote(), f.options(runtime_env=ONE).remote()]))
nested = Nested.remote()
print("nested:", phalanx.get(nested.call.remote()))
try:
    phalanx.get(nested.end.remote())
except phalanx.exceptions.ActorDiedError as error:
    print(error)
try:
    phalanx.get(f.options(runtime_env={"image_uri": "localhost/missing:1"}).remote())
except phalanx.exceptions.RuntimeEnvSetupError as error:
    print(error)
"""


def test_tasks_and_actors_run_in_their_images(machine):
    shown = machine.python(TASKS)
    assert shown.returncode == 0, shown.stderr
    assert "['localhost/of-all:1', 'localhost/one:1']" in shown.stdout, shown.stderr
    assert "nested: localhost/one:1" in shown.stdout
    assert "ended with exit code 7" in shown.stdout
    assert "manifest unknown" in shown.stdout
    assert "printed by the task" in shown.stdout + shown.stderr
    calls = machine.calls("run")
    assert any("--preserve-fds=4" in call and "--hostname x" in call for call in calls)


def test_a_cluster_without_a_tool_says_so_at_once():
    machine = ImageMachine()
    machine.env["PHALANX_CONTAINER_TOOL"] = "none"
    try:
        machine.start_head()
        ended = machine.phalanx("run", "--image", "a:1", "--", "true")
        assert ended.returncode != 0
        assert "no node can run the image a:1: none has podman" in ended.stderr
        assert "phalanx.io/container" not in machine.done("nodes")
    finally:
        machine.end()


def test_without_a_tool_tasks_are_refused_images_at_once():
    machine = ImageMachine()
    machine.env["PHALANX_CONTAINER_TOOL"] = "none"
    try:
        machine.start_head()
        refused = machine.python(TASKS)
        assert refused.returncode != 0
        assert "no node can run tasks and actors in the image localhost/of-all:1" in refused.stderr
    finally:
        machine.end()


FROM_AFAR = """
import phalanx
phalanx.init("phalanx://lab", runtime_env={"image_uri": "localhost/of-a-laptop:1"})
@phalanx.remote
def f():
    import phalanx
    return phalanx.get_runtime_context().runtime_env["container"]["image"]
@phalanx.remote
class Counter:
    def add(self):
        return "in an actor"
print(phalanx.get(f.remote()), phalanx.get(Counter.remote().add.remote()))
"""


def test_the_work_of_a_laptop_runs_in_the_image_that_it_names(machine):
    laptop = Laptop()
    try:
        token = machine.done("token", "create", "ana").strip()
        address = json.loads(machine.done("status", "--json"))["address"]
        said = laptop.typed(token, "login", address, "--name", "lab")
        assert said.returncode == 0, said.stderr
        before = len(machine.calls("run"))
        shown = laptop.python(FROM_AFAR)
        assert shown.returncode == 0, shown.stderr
        assert "localhost/of-a-laptop:1 in an actor" in shown.stdout
        calls = machine.calls("run")[before:]
        assert calls and all("localhost/of-a-laptop:1 python3 " in call for call in calls)
    finally:
        laptop.end()
