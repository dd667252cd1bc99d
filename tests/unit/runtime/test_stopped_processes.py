"""Whether a process is stopped is read from its state, so it does not matter which process was told
about the stop.
"""

from __future__ import annotations

import os
import signal
import subprocess

from phalanx.runtime.os.process_tree import is_stopped, stopped_children


def test_a_stop_is_seen_though_its_report_was_taken_by_another_reader():
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            assert not is_stopped(process.pid)
            os.kill(process.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            assert process.pid not in stopped_children(10)
            assert is_stopped(process.pid)
            os.kill(process.pid, signal.SIGCONT)
            os.waitid(os.P_PID, process.pid, os.WCONTINUED)
            assert not is_stopped(process.pid)
        finally:
            process.kill()
    assert not is_stopped(process.pid)
