"""A program on a laptop whose driver runs on the cluster, over a connection that is cut."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.polling import eventually
from tests.present import present
from tests.system.cli.conftest import Machine
from tests.system.people.cut_link import Wire
from tests.system.people.test_login import Laptop, own_address, token_of

WORK = """
import os, sys, phalanx

phalanx.init("phalanx://lab")
folder = sys.argv[1]

@phalanx.remote(max_retries=0)
def mark(number):
    with open(os.path.join(folder, f"{number}-{os.urandom(4).hex()}"), "x"):
        return number

@phalanx.remote
class Sum:
    total = 0
    def add(self, number):
        self.total += number
        return self.total

@phalanx.remote
def count(to):
    for number in range(to):
        yield number

actor = Sum.remote()
first = phalanx.get([mark.remote(-1), actor.add.remote(0)])
items = count.remote(5)
assert phalanx.get(next(items)) == 0
print("ready", flush=True)
sys.stdin.readline()  # the link is cut now
refs = [mark.remote(number) for number in range(40)]
sums = [actor.add.remote(number) for number in range(40)]
value = phalanx.put(list(range(1000)))
print("sent", flush=True)
assert phalanx.get(refs) == list(range(40))
assert phalanx.get(sums)[-1] == sum(range(40))
assert phalanx.get(value) == list(range(1000))
assert [phalanx.get(item) for item in items] == [1, 2, 3, 4]
print("done", flush=True)
"""


@pytest.fixture
def laptop() -> Iterator[Laptop]:
    made = Laptop()
    yield made
    made.end()


@pytest.fixture
def wire(machine: Machine, laptop: Laptop) -> Iterator[Wire]:
    """Yield the laptop's connection to the head, over which the laptop has logged in."""
    made = Wire(machine.start_head())
    said = laptop.typed(token_of(machine, "ana"), "login", made.address, "--name", "lab")
    assert said.returncode == 0, said.stderr
    yield made
    made.close()


Program = subprocess.Popen[str]


def send(program: Program) -> None:
    """Let the program submit its work."""
    present(program.stdin).write("\n")
    present(program.stdin).flush()
    assert present(program.stdout).readline() == "sent\n"


def cut_for_two_tries(wire: Wire, program: Program) -> None:
    """Let the program submit its work while the wire is cut. The wire is mended when two tries have
    failed.
    """
    wire.cut()
    send(program)
    eventually(lambda: wire.refused >= 2)
    wire.mend()


def works_over_a_cut(
    laptop: Laptop,
    folder: Path,
    cut: Callable[[Program], None],
    prefix: Sequence[str] = (),
) -> None:
    """Run the program. `cut` is called when the program is about to submit its work."""
    with subprocess.Popen(
        [*prefix, sys.executable, "-c", WORK, str(folder)],
        env=laptop.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert present(program.stdout).readline() == "ready\n"
            cut(program)
            assert present(program.stdout).readline() == "done\n"
            assert program.wait() == 0
        except BaseException:
            program.kill()
            raise
    ran = sorted(int(name.rpartition("-")[0]) for name in os.listdir(folder))
    assert ran == list(range(-1, 40)), "each task ran once"


def test_a_cut_link_loses_and_doubles_nothing(
    machine: Machine, laptop: Laptop, wire: Wire, tmp_path: Path
) -> None:
    works_over_a_cut(laptop, tmp_path, partial(cut_for_two_tries, wire))
    (row,) = [row for name, row in machine.jobs().items() if name.startswith("client-")]
    assert row["user"] == "ana"
    eventually(lambda: machine.jobs()[row["name"]]["state"] == "Completed")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["cut", "stall"])
def test_a_link_that_is_cut_for_ten_seconds(
    machine: Machine, laptop: Laptop, wire: Wire, tmp_path: Path, how: str
) -> None:
    def cut(program: Program) -> None:
        getattr(wire, how)()
        send(program)
        until = time.monotonic() + 10
        eventually(lambda: time.monotonic() > until)
        wire.mend()

    works_over_a_cut(laptop, tmp_path, cut)


LOST = """
import phalanx, sys
phalanx.init("phalanx://lab")

@phalanx.remote
def wait():
    import time
    time.sleep(600)

ref = wait.remote()
print("ready", flush=True)
try:
    phalanx.get(ref)
except ConnectionError as error:
    print("lost:", error)
try:
    wait.remote()
except ConnectionError as error:
    print("still lost")
"""


def test_a_client_that_stays_away_loses_its_work(
    machine: Machine, laptop: Laptop, wire: Wire
) -> None:
    laptop.env["RAY_CLIENT_RECONNECT_GRACE_PERIOD"] = "1"
    with laptop.begin(LOST) as program:
        try:
            assert present(program.stdout).readline() == "ready\n"
            (name,) = machine.jobs()
            wire.cut()
            out, err = program.communicate(timeout=120)
        except BaseException:
            program.kill()
            raise
    assert "lost: the driver could not be reached for 1 s" in out and "still lost" in out, err
    eventually(lambda: machine.jobs()[name]["state"] == "Completed")
    assert "its work ends" in machine.done("logs", name)


ENDS = """
import phalanx
phalanx.init("phalanx://lab", namespace="mine")
print(phalanx.get(phalanx.put(1)), flush=True)
import sys; sys.stdin.readline()
try:
    phalanx.get(phalanx.put(2))
except ConnectionError as error:
    print("ended:", error)
"""


@pytest.mark.parametrize("how", ["cancel", "revoke"])
def test_the_cluster_can_end_a_client(
    machine: Machine, laptop: Laptop, wire: Wire, how: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDS],
        env=laptop.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert present(program.stdout).readline() == "1\n"
            (name,) = machine.jobs()
            machine.done(*(["cancel", name] if how == "cancel" else ["token", "revoke", "ana"]))
            out, err = program.communicate("\n", timeout=120)
        except BaseException:
            program.kill()
            raise
    why = "the driver on the cluster is gone" if how == "cancel" else "does not know this token"
    assert "ended:" in out and why in out, out + err


def test_another_program_of_the_user_cannot_take_the_session(
    machine: Machine, laptop: Laptop, wire: Wire
) -> None:
    """Only the client knows the secret of its session."""
    with subprocess.Popen(
        [sys.executable, "-c", ENDS],
        env=laptop.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert present(program.stdout).readline() == "1\n"
            (name,) = machine.jobs()
            thief = laptop.python(THIEF, name)
            assert thief.stdout == "refused: this session belongs to another client\n", thief.stderr
            other = laptop.python(THIEF, "nothing")
            assert "JobNotFoundError" in other.stderr
            with contextlib.suppress(BrokenPipeError):
                program.communicate("\n", timeout=120)
        except BaseException:
            program.kill()
            raise


THIEF = """
import sys
from phalanx.runtime.client.channel import Channel
from phalanx.runtime.client.joining import ClientOf
from phalanx.runtime.client.link import Link, Refused
from phalanx.runtime.daemons import logins

login = logins.read().named("lab")
client = ClientOf(address=login.address, token=login.secret, trust=login.trust,
                  job=f"default/{sys.argv[1]}", secret=b"x" * 32, reconnect_s=1)
link = Link(client.reach, Channel(print), client.secret, reconnect_s=1, lost=print, warn=print)
try:
    link.begin(client.reach())
except Refused as error:
    print("refused:", error)
"""


UNDER_RAYS_NAMES = """
import phalanx.compat.ray as names; names.install()
import ray, sys
import ray.util.client

ray.init(runtime_env={"py_modules": sys.argv[1:]})

@ray.remote
def text():
    import helper
    return helper.TEXT

@ray.remote
class Counter:
    def __init__(self): self.value = 0
    def add(self):
        self.value += 1
        return self.value

counter = Counter.options(name="counter", num_cpus=0).remote()
print(ray.get([counter.add.remote() for _ in range(3)]))
print(ray.get(ray.get_actor("counter").add.remote()), ray.util.client.ray.is_connected())
print(ray.get(text.remote()))
"""


def test_rays_names_for_the_same(machine: Machine, laptop: Laptop, tmp_path: Path) -> None:
    module = tmp_path / "helper.py"
    module.write_text("TEXT = 'of the laptop'\n")
    address = machine.start_head("--host", own_address())
    env = {"RAY_ADDRESS": f"ray://{address}", "RAY_AUTH_MODE": "token"}
    missing = laptop.python(UNDER_RAYS_NAMES, str(module), **env)
    assert "there is no token" in missing.stderr
    env["RAY_AUTH_TOKEN"] = token_of(machine, "ana")
    done = laptop.python(UNDER_RAYS_NAMES, str(module), **env)
    assert done.stdout == "[1, 2, 3]\n4 True\nof the laptop\n", done.stderr
    (job,) = machine.jobs().values()
    assert job["user"] == "ana"
