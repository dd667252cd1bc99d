"""When a daemon is killed, all processes that it has started end, whatever Unix session they are
in.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.polling import eventually

from phalanx.runtime.os.process_tree import is_dead, kill_trees

SCRIPT = """
setsid sh -c 'sh -c "echo \\$\\$ >> pids; exec sleep 1000"; true' &
setsid sh -c 'echo $$ >> pids; sh -c "echo \\$\\$ >> pids; exec sleep 1000"; true' &
wait
"""
"""A shell in its own process group. It starts shells in their own Unix sessions, and one of these
has a child.
"""


def tree(directory: Path) -> tuple[subprocess.Popen[bytes], list[int]]:
    """Start the script; return its leader, and the pids of three processes below it in other Unix
    sessions.
    """
    leader = subprocess.Popen(["sh", "-c", SCRIPT], cwd=directory, start_new_session=True)
    pids = directory / "pids"
    eventually(lambda: pids.exists() and len(pids.read_text().split()) == 3, "all have begun")
    return leader, list(map(int, pids.read_text().split()))


def test_processes_in_other_sessions_are_killed_with_their_group(tmp_path: Path) -> None:
    leader, below = tree(tmp_path)
    kill_trees([leader.pid])
    assert leader.wait() == -9
    eventually(lambda: all(map(is_dead, below)))


def test_a_process_that_is_apart_stays_with_what_it_has_started(tmp_path: Path) -> None:
    leader, below = tree(tmp_path)
    apart = below[1] if is_parent(below[1], below) else below[0]
    kept = {apart, *(pid for pid in below if parent_of(pid) == apart)}
    kill_trees([leader.pid], lambda pid: pid == apart)
    assert leader.wait() == -9
    eventually(lambda: all(is_dead(pid) for pid in below if pid not in kept))
    assert not any(map(is_dead, kept))
    kill_trees(kept)
    eventually(lambda: all(map(is_dead, kept)))


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_parent(pid: int, below: list[int]) -> bool:
    return any(parent_of(one) == pid for one in below)
