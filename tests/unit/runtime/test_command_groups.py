"""Control groups of jobs' commands: all processes in a group end when the command ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.polling import eventually

from phalanx.model.command_groups import held_text
from phalanx.runtime.os.command_groups import (
    DAEMONS,
    Cgroup,
    Limits,
    NoGroups,
    cpu_weight,
    find_command_groups,
    most_processes,
)
from phalanx.runtime.os.session import started_at

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
    found = find_command_groups(os.getpid())
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
    group = groups.make(os.urandom(8), Limits())
    assert group is not None
    found = subprocess.run(
        [sys.executable, "-c", ESCAPES],
        preexec_fn=lambda: enter(group),
        stdout=subprocess.PIPE,
        check=True,
    )
    escaped = int(found.stdout)
    assert is_running(escaped)
    eventually(group.end)
    assert not is_running(escaped)
    assert not os.path.exists(group._path)


def test_groups_that_a_command_has_made_end_with_its_own(groups):
    group = groups.make(os.urandom(8), Limits())
    below = Path(group._path) / "made" / "deeper"
    below.mkdir(parents=True)
    script = f"echo 0 > {below}/cgroup.procs; exec sleep 600"
    holds = subprocess.Popen(["sh", "-c", script])
    eventually(lambda: group.processes() == [holds.pid], "its entry into the deeper group")
    eventually(group.end)
    assert holds.wait() == -9
    assert not os.path.exists(group._path)


def test_the_kernel_holds_a_group_to_its_memory(groups):
    group = groups.make(os.urandom(8), Limits(64 << 20))
    assert group is not None
    if not os.path.exists(f"{group._path}/memory.max"):
        group.end()
        pytest.skip("this process's cgroup hands no memory controller on")
    ended = subprocess.run(
        [sys.executable, "-c", "b'x' * (1 << 30)"], preexec_fn=lambda: enter(group), check=False
    )
    assert ended.returncode == -9
    why = group.why_killed()
    assert why.startswith("out of memory: it reached its limit of 64.0 MiB")
    eventually(group.end)


def kernel(root: Path, own: str) -> Path:
    """Return a directory with the files by which cgroup v2 is found and used."""
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
    mine = f"phalanx-{os.getpid()}.{started_at(os.getpid())}"
    left = [here / f"phalanx-{os.getpid()}.1-0001", here / "phalanx-0001"]
    others = here / f"{mine}-0003"
    for one in (*left, others):
        one.mkdir()
    groups = find_command_groups(os.getpid(), tmp_path)
    assert not any(one.exists() for one in left), "an earlier node's empty groups go"
    assert others.is_dir(), "a node that lives may be about to use its own"
    group = groups.make(b"\1\2", Limits(100))
    assert group is not None
    assert (here / f"{mine}-0102").is_dir()
    assert groups.way() == "delegated+memory+pids+cpu"
    found = groups.find(b"\1\2", 100)
    assert found is not None
    assert groups.find(b"\1\3", 100) is None
    assert (here / "cgroup.subtree_control").read_text().startswith("+memory +pids +cpu")
    assert groups.make(b"\1\2", Limits(100)) is None


def test_without_version_2_there_are_no_groups(tmp_path):
    assert isinstance(find_command_groups(os.getpid(), tmp_path), NoGroups)
    here = kernel(tmp_path, "mine")
    (here / "cgroup.procs").unlink()
    assert isinstance(find_command_groups(os.getpid(), tmp_path), NoGroups)
    assert NoGroups().make(b"x", Limits()) is None
    assert NoGroups().way() == "none"


def test_a_limit_is_written_and_its_breach_is_read(tmp_path):
    here = kernel(tmp_path, "mine")
    group = Cgroup(str(here), 100)
    (here / "memory.events").write_text("low 0\nmax 7\noom 1\noom_kill 1\n")
    assert group.why_killed() == "out of memory: it reached its limit of 100 B"
    (here / "memory.peak").write_text("99\n")
    assert group.why_killed() == "out of memory: it reached its limit of 100 B; its peak was 99 B"
    assert "memory of its node" in Cgroup(str(here), 0).why_killed()


def test_a_scope_of_systemd_is_told_from_other_groups(tmp_path):
    kernel(tmp_path, "user.slice/run-1.scope")
    assert find_command_groups(os.getpid(), tmp_path).way() == "scope+memory+pids+cpu"


@pytest.mark.parametrize(
    ("way", "text"),
    [
        ("delegated+memory+pids+cpu", "delegated"),
        ("scope+memory", "scope (a command may start any number of processes; a command may take"),
        ("delegated", "delegated (memory limits are watched twice a second"),
        ("none", "none (a process that leaves its command is found by its parents; memory"),
        ("", ""),
    ],
)
def test_what_a_way_cannot_hold_is_told(way, text):
    assert held_text(way).startswith(text)
    assert bool(text) == bool(held_text(way))


def test_a_command_shares_cpu_time_by_the_cpus_that_it_holds():
    assert [cpu_weight(cpus) for cpus in (0.001, 0.5, 1, 64, 500)] == [1, 50, 100, 6400, 10_000]


def test_the_limits_of_a_command_are_written(tmp_path):
    here = kernel(tmp_path, "mine")
    groups = find_command_groups(os.getpid(), tmp_path)
    made: list[Path] = []
    mkdir = os.mkdir

    def with_files(path, *mode):
        mkdir(path, *mode)
        made.append(Path(path))
        for name in ("memory.max", "memory.oom.group", "memory.swap.max", "pids.max", "cpu.weight"):
            (made[-1] / name).write_text("")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "mkdir", with_files)
        assert groups.make(b"\1", Limits(100, 2.0)) is not None
    (group,) = made
    assert group.parent == here
    written = {one.name: one.read_text() for one in group.iterdir()}
    assert written == {
        "memory.max": "100",
        "memory.oom.group": "1",
        "memory.swap.max": "0",
        "pids.max": str(most_processes()),
        "cpu.weight": "200",
    }
    (group / "pids.events").write_text("max 3\n")
    assert Cgroup(str(group), 0).why_killed().startswith("it reached its limit of ")


def test_a_daemon_that_has_moved_makes_groups_beside_its_own(tmp_path):
    here = kernel(tmp_path, f"mine/{DAEMONS}")
    for name in ("cgroup.procs", "cgroup.subtree_control"):
        (here.parent / name).write_text("")
    groups = find_command_groups(os.getpid(), tmp_path)
    assert groups.make(b"\1", Limits()) is not None
    assert [one.name for one in here.parent.glob("phalanx-*-01")]


def test_the_kernel_holds_a_group_to_its_processes(groups):
    """If the machine's kernel provides no controllers, no limit is enforced, and `way` says so."""
    group = groups.make(os.urandom(8), Limits(cpus=2.0))
    assert group is not None
    held = groups.way().split("+")[1:]
    shown = {
        "memory": f"{group._path}/memory.max",
        "pids": f"{group._path}/pids.max",
        "cpu": f"{group._path}/cpu.weight",
    }
    assert [kind for kind, path in shown.items() if os.path.exists(path)] == held
    if "pids" in held:
        assert int(Path(shown["pids"]).read_text()) == most_processes()
        Path(shown["pids"]).write_text("20")
        bomb = "import os\nfor _ in range(50): os.fork() or os.read(os.pipe()[0], 1)"
        ended = subprocess.run(
            [sys.executable, "-c", bomb], preexec_fn=lambda: enter(group), check=False
        )
        assert ended.returncode == 1, "the 20th process was refused"
        assert "it reached its limit of" in group.why_killed()
    if "cpu" in held:
        assert Path(shown["cpu"]).read_text() == "200\n"
    eventually(group.end)
