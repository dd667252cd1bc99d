"""The use of a running member over time. The head asks the member's node for it, as it does for the
page of the job.
"""

from __future__ import annotations

import pytest
from tests.polling import eventually

from phalanx.errors import JobNotFoundError
from phalanx.protocol.requests.jobs import GetMemberUse


def test_the_use_of_a_running_member_grows_and_ends_with_it(running):
    spin = "x = bytearray(50_000_000)\nwhile True: pass"
    running.done("run", "-d", "-n", "busy", "--", "python3", "-c", spin)
    asked = GetMemberUse("default/busy", "worker-0")
    eventually(lambda: running.jobs()["busy"]["state"] == "Running")
    most = 50_000_000
    eventually(lambda: max((used for _, used in running.ask(asked).memory), default=0) >= most)
    use = running.ask(asked)
    assert all(seconds > 0 and 0 <= cpus < 1024 for seconds, cpus in use.cpus)
    assert use.gpus == [] and use.gpu_memory == [], "the node has no GPU to measure"
    running.done("cancel", "busy")
    eventually(lambda: running.ask(asked).memory == [])
    with pytest.raises(JobNotFoundError, match="worker-7"):
        running.ask(GetMemberUse("default/busy", "worker-7"))
