"""A command that stays in the foreground until one of its daemons ends."""

from __future__ import annotations

import subprocess
import sys

from phalanx.runtime.daemons.blocking import Watched, wait_for_end


def test_a_daemon_may_end_before_it_is_watched() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    stopped: list[str] = []
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as living:
        watched = [
            Watched(living.pid, lambda: stopped.append("living")),
            Watched(gone.pid, lambda: stopped.append("gone")),
        ]
        assert wait_for_end(watched) == 1
        living.kill()
    assert stopped == ["gone", "living"]
