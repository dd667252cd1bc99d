"""Control groups of jobs' commands: what they hold ends with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from phalanx.runtime.os.command_groups import Cgroup, NoGroups, find_command_groups

ESCAPES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        os.close(1)
        time.sleep(1000)
    os._exit(0)
"""


@pytest.fixture
def groups():
    found = find_command_groups()
    if isinstance(found, NoGroups):
        pytest.skip("no cgroup v2 is mounted here that this process may write to")
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def enter(group) -> None:
    os.write(group.entrance(), b"0")


def test_what_left_its_session_and_its_parent_ends_with_the_group(groups):
    group = groups.make(os.urandom(8), 0)
    assert group is not None
    found = subprocess.run(
        [sys.executable, "-c", ESCAPES],
        preexec_fn=lambda: enter(group),
        stdout=subprocess.PIPE,
        check=True,
    )
    escaped = int(found.stdout)
    assert is_running(escaped)
    assert group.end() == ""
    assert not is_running(escaped)
    assert not os.path.exists(group._path)


def test_the_kernel_holds_a_group_to_its_memory(groups):
    group = groups.make(os.urandom(8), 64 << 20)
    assert group is not None
    if not os.path.exists(f"{group._path}/memory.max"):
        group.end()
        pytest.skip("this process's cgroup hands no memory controller on")
    ended = subprocess.run(
        [sys.executable, "-c", "bytes(1 << 30)"], preexec_fn=lambda: enter(group), check=False
    )
    assert ended.returncode == -9
    assert group.end() == "it used more memory than its limit of 67108864 bytes"


def kernel(root: Path, own: str) -> Path:
    """What the files look like under which cgroup v2 is found and used."""
    proc, here = root / "proc/self", root / "cg" / own
    proc.mkdir(parents=True)
    here.mkdir(parents=True)
    mount = "41 31 0:38 / /cg rw,relatime - cgroup2 cgroup2 rw\n"
    (proc / "mountinfo").write_text(
        f"40 31 0:37 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw\n{mount}"
    )
    (proc / "cgroup").write_text(f"4:memory:/elsewhere\n0::/{own}\n")
    for name in ("cgroup.procs", "cgroup.subtree_control"):
        (here / name).write_text("")
    return here


def test_groups_are_made_below_this_processs_own(tmp_path):
    here = kernel(tmp_path, "user.slice/mine")
    left = here / "phalanx-0001"
    left.mkdir()
    groups = find_command_groups(tmp_path)
    assert not left.exists(), "an earlier session's empty group goes"
    group = groups.make(b"\1\2", 100)
    assert group is not None
    assert (here / "phalanx-0102").is_dir()
    assert (here / "cgroup.subtree_control").read_text() == "+memory"
    assert groups.make(b"\1\2", 100) is None


def test_without_version_2_there_are_no_groups(tmp_path):
    assert isinstance(find_command_groups(tmp_path), NoGroups)
    here = kernel(tmp_path, "mine")
    (here / "cgroup.procs").unlink()
    assert isinstance(find_command_groups(tmp_path), NoGroups)
    assert NoGroups().make(b"x", 0) is None


def test_a_limit_is_written_and_its_breach_is_read(tmp_path):
    here = kernel(tmp_path, "mine")
    group = Cgroup(str(here), 100)
    (here / "memory.events").write_text("low 0\nmax 7\noom 1\noom_kill 1\n")
    assert group.end() == "it used more memory than its limit of 100 bytes"
