"""The runtime environments that a node's processes have defined. The node must tell a restarted
head about them again.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from phalanx.model.system_settings import SystemSettings
from phalanx.node.drivers import Drivers
from phalanx.node.known_jobs import KnownJobs
from phalanx.protocol.cluster_messages import EnvironmentKnown, JobEnded

JOB, OTHER = b"job1", b"job2"


def test_a_head_hears_again_the_environments_of_jobs_that_are_not_over():
    heard: list[EnvironmentKnown] = []
    anything: Any = SimpleNamespace
    drivers = Drivers(
        anything(node_id="0" * 32),
        anything(notify=heard.append),
        leases=anything(leases={}, workers=anything(of_job=lambda job: [])),
        workers=anything(),
        peers=anything(),
        jobs=KnownJobs(SystemSettings()),
        store=anything(owner_gone=lambda driver, files: None),
        new_process=lambda job: job,
        history=anything(),
    )
    for key, job in ((b"a", JOB), (b"b", OTHER), (b"c", JOB)):
        drivers.define_environment(key, {"A": "1"}, job)
    heard.clear()
    drivers.job_ended(JobEnded(JOB, [b"a detached actor"], b"driver", []))
    drivers.head_joined()
    assert [one.key for one in heard] == [b"a", b"b", b"c"], "its actors may start elsewhere"
    heard.clear()
    drivers.job_ended(JobEnded(JOB, [], b"driver", []))
    drivers.head_joined()
    assert heard == [EnvironmentKnown(b"b", {"A": "1"}, OTHER)]
