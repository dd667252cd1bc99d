"""A program that starts processes faster than they can be ended is first stopped, then ended as a
whole.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.command_starting import subreaper
from tests.polling import eventually
from tests.present import present
from tests.system.chaos.footprint import is_running

from phalanx.runtime.os.command_groups import Limits, NoGroups, find_command_groups
from phalanx.runtime.os.process_tree import descendants_of, end_orphans, own_children

BOMB = """
import os, sys
most, folder = int(sys.argv[1]), sys.argv[2]
def begin():
    pid = os.fork()
    if pid:
        return
    os.setsid()
    try:
        open(f"{folder}/{os.getpid()}", "x").close()
    except OSError:
        pass
    while len(os.listdir(folder)) < most:
        begin()
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    break
            except ChildProcessError:
                break
    os.pipe2(0)
    os.read(os.pipe()[0], 1)
begin()
"""
"""Each process starts others in their own Unix sessions, up to this number in total. The first
process ends immediately.
"""
MOST = 150


@pytest.fixture
def bomb(tmp_path):
    """Return a function that starts a fork bomb, in a control group or not. The names of the files
    in its directory are the pids of all its processes.
    """

    def start(enter=None):
        subprocess.run(
            [sys.executable, "-c", BOMB, str(MOST), str(tmp_path)], check=True, preexec_fn=enter
        )
        eventually(lambda: len(os.listdir(tmp_path)) > MOST // 3, "the bomb")

        def left():
            return [pid for pid in map(int, os.listdir(tmp_path)) if is_running(pid)]

        return left

    return start


def test_without_groups_all_orphans_end_though_they_start_others(bomb):
    with subreaper():
        mine = set(own_children())
        left = bomb()
        assert left()
        eventually(lambda: end_orphans(lambda: mine), "their end")
        assert left() == []


def test_a_child_that_begins_while_orphans_end_is_spared():
    with subreaper():
        mine = set(own_children())
        orphan = subprocess.Popen(["sleep", "1000"])
        begun: list[subprocess.Popen[bytes]] = []

        def known():
            if not begun:  # a thread starts it after the look at the children
                begun.append(subprocess.Popen(["sleep", "1000"]))
            return {*mine, begun[0].pid}

        eventually(lambda: end_orphans(known), "the orphan's end")
        assert not is_running(orphan.pid)
        orphan.wait()
        assert begun[0].poll() is None
        begun[0].kill()
        begun[0].wait()


def test_a_group_is_ended_whole(bomb):
    groups = find_command_groups(os.getpid())
    if isinstance(groups, NoGroups):
        pytest.skip("no cgroup v2 is mounted here that this process may write to")
    group = present(groups.make(os.urandom(8), Limits()))
    with subreaper():
        mine = set(own_children())
        left = bomb(lambda: os.write(group.entrance(), b"0"))
        assert left()
        assert set(left()) <= {*group.processes(), *descendants_of(os.getpid())}
        eventually(group.end, "an empty group")
        assert left() == []
        end_orphans(lambda: mine)
