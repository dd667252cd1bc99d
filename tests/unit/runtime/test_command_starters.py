"""Threads that start commands: a slow start does not delay the starts that follow it."""

from __future__ import annotations

import os
import select
import signal
import threading

import pytest
from tests.command_starting import Started, own_lifeline, subreaper
from tests.present import present
from tests.system.chaos.footprint import is_running

from phalanx.protocol.fork_messages import RunCommand
from phalanx.runtime.os.command_starters import (
    LONG_S,
    SIDE_BY_SIDE,
    CommandStarters,
    Starting,
)
from phalanx.runtime.os.polling import wait_for


class SlowGroup:
    """A control group that lets commands in when the test allows it."""

    def __init__(self):
        self.is_asked, self.may_open = threading.Event(), threading.Event()

    def entrance(self):
        self.is_asked.set()
        self.may_open.wait(60)
        return -1

    def end(self):
        return ""


class Starters:
    """The threads, on a clock that the test sets, and the commands that they have begun."""

    def __init__(self, tmp_path):
        self.now = 100.0
        self.threads = CommandStarters(lambda: self.now, own_lifeline())
        self._tmp_path = tmp_path
        self.begun = []

    def start(self, name, *argv, group=None):
        log = str(self._tmp_path / f"{name}.log")
        order = RunCommand(name.encode(), [*argv], {}, str(self._tmp_path), log, 0)
        starting = Starting(order, group)
        self.threads.start(starting)
        return starting

    def wait(self, count):
        while len(self.begun) < count:
            assert wait_for(self.threads.fileno, select.POLLIN, 60.0)
            self.begun += self.threads.begun()
        return [one.order.process.decode() for one in self.begun]


@pytest.fixture
def starters(tmp_path):
    with subreaper():
        yield Starters(tmp_path)


def _code(starting):
    return Started(starting.pid.value, present(starting.shield)).wait()


def test_commands_that_come_together_start_and_their_failures_are_told(starters, tmp_path):
    (tmp_path / "c.log").mkdir()
    started = [starters.start(name, "sh", "-c", f"exit {at}") for at, name in enumerate("abcd")]
    assert sorted(starters.wait(4)) == ["a", "b", "c", "d"]
    assert [_code(one) for one in started if one.error is None] == [0, 1, 3]
    assert isinstance(started[2].error, IsADirectoryError)


def test_a_defect_in_starting_one_is_told_as_its_failure(starters):
    class Defective(SlowGroup):
        def entrance(self):
            raise KeyError("no such group")

    failed = starters.start("defective", "true", group=Defective())
    behind = starters.start("behind", "true")
    assert starters.wait(2) == ["defective", "behind"]
    assert "KeyError" in str(failed.error)
    assert _code(behind) == 0


def test_what_is_behind_one_that_takes_long_is_started_by_another_thread(starters):
    slow = [SlowGroup() for _ in range(SIDE_BY_SIDE)]
    first = [starters.start(f"slow {at}", "true", group=one) for at, one in enumerate(slow)]
    for one in slow:
        assert one.is_asked.wait(60), "a few start side by side"
    behind = starters.start("behind", "true")
    assert starters.threads.is_behind, "they have not taken long yet"
    starters.now += 2 * LONG_S
    starters.threads.look()
    assert starters.wait(1) == ["behind"]
    assert _code(behind) == 0
    for one in slow:
        one.may_open.set()
    assert sorted(starters.wait(1 + SIDE_BY_SIDE)[1:]) == [
        f"slow {at}" for at in range(SIDE_BY_SIDE)
    ]
    assert [_code(one) for one in first] == [0] * SIDE_BY_SIDE


def test_a_command_waits_while_there_can_be_no_thread(starters, monkeypatch):
    def refused(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    started = starters.start("waits", "true")
    assert starters.threads.is_behind
    monkeypatch.undo()
    starters.threads.look()
    assert starters.wait(1) == ["waits"]
    assert _code(started) == 0


def test_a_command_lives_after_it_is_started_as_its_thread_does(starters):
    sleeping = starters.start("sleeping", "sleep", "1000")
    starters.wait(1)
    other = starters.start("other", "true")
    starters.wait(2)
    assert _code(other) == 0
    assert is_running(sleeping.pid.value)
    os.kill(sleeping.pid.value, signal.SIGKILL)
    assert _code(sleeping) == -signal.SIGKILL


def test_a_fork_of_the_process_lets_go_of_what_a_thread_uses(starters):
    slow = SlowGroup()
    started = starters.start("slow", "true", group=slow)
    assert slow.is_asked.wait(60)
    (of_thread,) = starters.threads._starts
    used = [fd for fd in of_thread.opened if fd >= 0]
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            starters.threads.close_in_child()
            code = sum(os.path.exists(f"/proc/self/fd/{fd}") for fd in used)
        finally:
            os._exit(code)
    assert used, "its log, and the file that it reads"
    assert os.waitpid(pid, 0)[1] == 0
    slow.may_open.set()
    starters.wait(1)
    assert _code(started) == 0
    assert not of_thread.opened
