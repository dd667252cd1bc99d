"""Tasks and actors in images with a real podman: what they see, how they end, and what is
refused.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import Machine
from tests.system.cli.podman import Podman, why_none
from tests.system.people.test_login import Laptop

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_none()), reason=why_none())]
BEGIN = """
import os, sys
import phalanx
phalanx.init(num_cpus=4)
IMAGE = {"image_uri": "localhost/python:1"}
"""


@pytest.fixture(scope="module")
def podman(tmp_path_factory) -> Podman:
    podman = Podman(tmp_path_factory.mktemp("podman"))
    podman.add_python()
    return podman


@pytest.fixture
def run(podman, tmp_path):
    """Return a function that runs a program in a new directory and returns its output."""

    def run_program(text: str, **variables: str) -> str:
        (tmp_path / "program.py").write_text(BEGIN + text)
        path = f"{podman.bin}:{os.environ['PATH']}"
        given = {"PATH": path, "PHALANX_CONTAINER_TOOL": "podman", **variables}
        done = subprocess.run(
            [sys.executable, "program.py"],
            cwd=tmp_path,
            env=os.environ | given,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    yield run_program
    eventually(lambda: podman.containers() == [], "the end of all containers")


def test_a_task_has_the_image_and_shares_objects_with_its_driver(run, tmp_path):
    shown = run(
        """
import beside
@phalanx.remote(runtime_env=IMAGE | {"env_vars": {"A": "given"}})
def f(block):
    import of_the_image
    print("printed in the image")
    return (os.path.exists("/in-the-image"), of_the_image.WORD, os.environ["A"], os.getcwd(),
            beside.WORD, len(block), bytes(3_000_000), "HOME" in os.environ)

@phalanx.remote
def g():
    return os.path.exists("/in-the-image")

found = phalanx.get(f.remote(phalanx.put(bytes(5_000_000))))
print(found[:6], len(found[6]), phalanx.get(g.remote()))
"""
        if (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
        else ""
    )
    assert f"(True, 'image', 'given', '{tmp_path}', 'beside', 5000000) 3000000 False" in shown
    assert "printed in the image" in shown


def test_an_actor_lives_in_its_image(run):
    shown = run(
        """
@phalanx.remote(runtime_env=IMAGE)
class Counter:
    def __init__(self):
        self.n = 0
    def add(self):
        from phalanx.runtime.os.own_pid import own_pid
        self.n += 1
        return self.n, own_pid(), os.path.exists("/in-the-image")

one = Counter.remote()
calls = [phalanx.get(one.add.remote()) for _ in range(3)]
assert [n for n, _, _ in calls] == [1, 2, 3], calls
assert all(inside for _, _, inside in calls)
pid = calls[0][1]
assert b"phalanx" in open(f"/proc/{pid}/cmdline", "rb").read(), "the pid is the machine's"
from phalanx.util.state import list_actors
assert [row["pid"] for row in list_actors()] == [pid]
phalanx.kill(one)
try:
    phalanx.get(one.add.remote())
except phalanx.exceptions.ActorDiedError as error:
    print("died:", type(error).__name__)
import time
deadline = time.monotonic() + 20
while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
    time.sleep(0.01)
print("gone:", not os.path.exists(f"/proc/{pid}"))
"""
    )
    assert "died: ActorDiedError" in shown
    assert "gone: True" in shown


def test_a_worker_that_crashes_is_started_again(run, tmp_path):
    shown = run(
        """
import signal
@phalanx.remote(runtime_env=IMAGE, max_retries=2)
def f(path):
    if not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGSEGV)
    return "again"

@phalanx.remote(runtime_env=IMAGE, max_retries=0)
def g():
    os.kill(os.getpid(), signal.SIGSEGV)

print(phalanx.get(f.remote("mark")))
try:
    phalanx.get(g.remote())
except phalanx.exceptions.WorkerCrashedError as error:
    print(error)
"""
    )
    assert "again" in shown
    assert "SIGSEGV" in shown


def test_a_cancelled_task_is_interrupted(run):
    shown = run(
        """
import time
@phalanx.remote
class Signal:
    def __init__(self): self.on = False
    def set(self): self.on = True
    def get(self): return self.on
@phalanx.remote(runtime_env=IMAGE)
def f(begun):
    phalanx.get(begun.set.remote())
    while True: time.sleep(0.01)
begun = Signal.remote()
ref = f.remote(begun)
while not phalanx.get(begun.get.remote()): time.sleep(0.01)
phalanx.cancel(ref)
try:
    phalanx.get(ref)
except phalanx.exceptions.TaskCancelledError:
    print("cancelled")
"""
    )
    assert "cancelled" in shown


def test_what_an_image_lacks_is_said(run):
    shown = run(
        """
for image in ("localhost/busy:1", "localhost/nobody:7"):
    @phalanx.remote(runtime_env={"image_uri": image})
    def f(): return 1
    try:
        phalanx.get(f.remote())
    except phalanx.exceptions.RuntimeEnvSetupError as error:
        print("refused:", error)
"""
    )
    assert shown.count("refused:") == 2
    assert "localhost/busy:1 could not run a worker" in shown
    assert "python3" in shown
    assert "localhost/nobody:7" in shown


def test_without_a_tool_the_call_is_refused(run):
    shown = run(
        """
@phalanx.remote(runtime_env=IMAGE)
def f(): return 1
try:
    f.remote()
except phalanx.exceptions.RuntimeEnvSetupError as error:
    print(error)
""",
        PHALANX_CONTAINER_TOOL="none",
    )
    assert "no node can run tasks and actors in the image localhost/python:1" in shown


def test_a_killed_program_leaves_no_worker(podman, tmp_path):
    text = """
@phalanx.remote(runtime_env=IMAGE)
def pid():
    from phalanx.runtime.os.own_pid import own_pid
    return own_pid()
print(phalanx.get(pid.remote()), flush=True)
sys.stdin.read()
"""
    given = {"PATH": f"{podman.bin}:{os.environ['PATH']}", "PHALANX_CONTAINER_TOOL": "podman"}
    driver = subprocess.Popen(
        [sys.executable, "-c", BEGIN + text],
        cwd=tmp_path,
        env=os.environ | given,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert driver.stdout is not None
    pid = int(driver.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    driver.kill()
    driver.communicate()
    eventually(lambda: not Path(f"/proc/{pid}").exists(), "the end of the worker")
    eventually(lambda: podman.containers() == [], "the end of all containers")


def test_the_work_of_a_laptop_runs_in_an_image(podman):
    """A program without a node starts tasks in an image that a node of the cluster has."""
    machine, laptop = Machine(), Laptop()
    machine.env["PATH"] = f"{podman.bin}:{machine.env['PATH']}"
    machine.env["PHALANX_CONTAINER_TOOL"] = "podman"
    try:
        address = machine.start_head("--num-cpus", "4")
        token = machine.done("token", "create", "ana").strip()
        said = laptop.typed(token, "login", address, "--name", "lab")
        assert said.returncode == 0, said.stderr
        shown = laptop.python(
            """
import os
import phalanx
phalanx.init("phalanx://lab", runtime_env={"image_uri": "localhost/python:1"})

@phalanx.remote
def f():
    import of_the_image
    return of_the_image.WORD

@phalanx.remote
class Counter:
    def look(self):
        return os.path.exists("/in-the-image")

print(phalanx.get(f.remote()), phalanx.get(Counter.remote().look.remote()))
"""
        )
        assert shown.returncode == 0, shown.stderr
        assert "image True" in shown.stdout
    finally:
        laptop.end()
        machine.end()
    eventually(lambda: podman.containers() == [], "the end of all containers")
