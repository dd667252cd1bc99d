"""`breakpoint()` in a task waits for `phalanx debug`, and tasks are profiled if their runtime
environment says so.
"""

from __future__ import annotations

import os
import pstats
import subprocess
import sys
import threading

import pytest
from tests.polling import PATIENCE_S, eventually

import phalanx
from phalanx.runtime.os.debugging import attach, waiting


@pytest.fixture(scope="module", autouse=True)
def session():
    phalanx.shutdown()
    phalanx.init(num_cpus=2, log_to_driver=False)
    yield
    phalanx.shutdown()


def stopped(value):
    secret = value * 2
    breakpoint()  # noqa: T100
    return secret + 1


class Stops:
    def call(self, value):
        breakpoint()  # noqa: T100
        return value


def waits_of(name):
    """Wait for a breakpoint in the task of this name; return its row."""
    return eventually(lambda: [row for row in waiting() if row.name == name])[0]


def commands(row, text):
    """Return the debugger's output for these commands."""
    made = subprocess.run(
        [sys.executable, "-m", "phalanx", "debug", str(row.pid)],
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_a_task_waits_shows_what_it_holds_and_goes_on():
    ref = phalanx.remote(stopped).options(name="shows").remote(20)
    row = waits_of("shows")
    assert row.file == __file__
    assert os.stat(row.socket).st_uid == os.getuid()
    answer = commands(row, "p secret\nsecret = 1\nc\n")
    assert "40" in answer
    assert phalanx.get(ref, timeout=PATIENCE_S) == 2
    assert [other for other in waiting() if other.pid == row.pid] == []


def test_who_goes_away_lets_it_go_on_and_who_quits_ends_it():
    remote = phalanx.remote(max_retries=0)(stopped)
    left = remote.options(name="left").remote(1)
    commands(waits_of("left"), "p secret\n")
    assert phalanx.get(left, timeout=PATIENCE_S) == 3
    ended = remote.options(name="ended").remote(1)
    commands(waits_of("ended"), "q\n")
    with pytest.raises(phalanx.exceptions.RayTaskError, match="BdbQuit"):
        phalanx.get(ended, timeout=PATIENCE_S)


def test_an_actor_waits_too_and_the_command_lists_it():
    actor = phalanx.remote(Stops).remote()
    ref = actor.call.remote(7)
    row = waits_of("Stops.call")
    listed = subprocess.run(
        [sys.executable, "-m", "phalanx", "debug"], capture_output=True, text=True, check=True
    ).stdout
    words = [line.split() for line in listed.splitlines()]
    where = f"{__file__}:{row.line}"
    assert [str(row.pid), "Stops.call", where] in [[*line[:2], *line[3:]] for line in words]
    commands(row, "c\n")
    assert phalanx.get(ref, timeout=PATIENCE_S) == 7


def test_nobody_waits_under_a_number_that_is_no_process():
    made = subprocess.run(
        [sys.executable, "-m", "phalanx", "debug", "1"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 3
    assert "process 1 does not wait at a breakpoint on this machine" in made.stderr


# ---- profiles ----------------------------------------------------------------------------------


def work(count):
    return sum(range(count))


def items(count):
    yield from range(count)


class Works:
    def call(self):
        return work(10)

    async def call_async(self):
        return work(10)


def profiled(directory):
    return {"profile": {"tool": "cprofile", "directory": str(directory)}}


def test_each_call_has_a_profile_of_its_own(tmp_path):
    task = phalanx.remote(work).options(runtime_env=profiled(tmp_path), name="work it/hard")
    assert phalanx.get([task.remote(10), task.remote(10)], timeout=PATIENCE_S) == [45, 45]
    files = sorted(tmp_path.glob("*.prof"))
    assert len(files) == 2
    assert all(file.name.startswith("work_it_hard-") for file in files)
    profile = pstats.Stats(str(files[0])).get_stats_profile()
    assert "work" in profile.func_profiles


def test_generators_and_actors_have_profiles_and_coroutines_none(tmp_path):
    stream = phalanx.remote(items).options(
        runtime_env=profiled(tmp_path / "items"), num_returns="streaming"
    )
    assert [phalanx.get(ref) for ref in stream.remote(3)] == [0, 1, 2]
    assert list((tmp_path / "items").glob("items-*.prof"))
    actor = phalanx.remote(Works).options(runtime_env=profiled(tmp_path / "actor")).remote()
    refs = [actor.call.remote(), actor.call_async.remote()]
    assert phalanx.get(refs, timeout=PATIENCE_S) == [45, 45]
    made = {file.name.split("-")[0] for file in (tmp_path / "actor").glob("*.prof")}
    assert made == {"Works.__init__", "Works.call"}


def test_a_tool_that_is_not_there_is_named():
    task = phalanx.remote(max_retries=0)(work).options(runtime_env={"profile": "memray"})
    with pytest.raises(RuntimeError, match="pip install memray"):
        phalanx.get(task.remote(3), timeout=PATIENCE_S)


@pytest.mark.parametrize(
    "wanted", ["perf", {"tool": "perf"}, {"tool": "cprofile", "where": "/"}, 3, {"directory": "/"}]
)
def test_what_is_no_profile_is_refused_at_the_call(wanted):
    with pytest.raises(ValueError, match="a profile that is one of cprofile, viztracer"):
        phalanx.remote(work).options(runtime_env={"profile": wanted})


def test_attach_needs_somebody_who_waits(tmp_path):
    ref = phalanx.remote(stopped).options(name="late").remote(1)
    row = waits_of("late")
    reader = threading.Thread(target=commands, args=(row, "c\n"))
    reader.start()
    reader.join(PATIENCE_S)
    assert phalanx.get(ref, timeout=PATIENCE_S) == 3
    with pytest.raises(OSError, match="No such file"), open(os.devnull, "rb") as nothing:
        attach(row, nothing, sys.stdout)
