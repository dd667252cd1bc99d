"""Programs that crash repeatedly report it, and take no other work down."""

from __future__ import annotations

import os
import re

import pytest
from tests.polling import eventually

import phalanx
from phalanx.errors import ActorUnavailableError, GetTimeoutError

LOOP = """
    import os, phalanx

    @phalanx.remote(max_restarts=-1, max_task_retries=-1)
    class Fragile:
        def end(self):
            os._exit(3)

        def answer(self):
            return "here"

    phalanx.init(num_cpus=1)
    actor = Fragile.remote()
    phalanx.get(actor.answer.remote())
    ending = actor.end.remote()
    print(phalanx.get(actor.answer.remote(), timeout=100))
    phalanx.kill(actor)
"""


def test_the_driver_reads_which_call_ends_the_actor(run_program):
    """The call after the one that ended the actor never ran, and the driver read a line for each
    restart.
    """
    code, printed = run_program(LOOP)
    assert code == 0, printed
    assert "here\n" in printed
    assert printed.count("has ended 3 times under its call end, which is tried again") == 1


@pytest.fixture
def node():
    phalanx.init(num_cpus=1, ignore_reinit_error=True)
    yield
    phalanx.shutdown()


@phalanx.remote(max_restarts=-1)
class Fragile:
    def __init__(self, marks=None):
        if marks is not None:
            (marks / str(os.getpid())).touch()
            os._exit(3)

    def end(self):
        os._exit(3)

    def answer(self):
        return "here"


def test_a_call_cut_off_by_the_end_of_its_actor_is_told_which_call_ran(node):
    actor = Fragile.remote()
    assert phalanx.get(actor.answer.remote(), timeout=60) == "here"
    calls = [actor.end.remote(), actor.answer.remote()]
    with pytest.raises(ActorUnavailableError, match="It ended while its call end ran"):
        phalanx.get(calls[1], timeout=60)


def test_an_actor_that_rests_between_its_starts_says_so_and_can_be_killed(node, tmp_path):
    actor = Fragile.options(name="loop").remote(tmp_path)
    eventually(lambda: len(os.listdir(tmp_path)) > 3)
    with pytest.raises(GetTimeoutError):
        phalanx.get(actor.answer.remote(), timeout=0)
    eventually(lambda: "its process ended" in str(phalanx.explain(actor)))
    phalanx.kill(actor)
    following = Fragile.options(name="loop").remote()
    assert phalanx.get(following.answer.remote(), timeout=60) == "here"


IN_PLACE = "restartPolicy: OnFailure"
RESTARTED = "restartPolicy: Never"
LOOPING_JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: %s}
spec:
  maxRetry: 1000
  policies: [{event: PodFailed, action: RestartJob}]
  tasks:
  - name: a
    maxRetry: 1000
    template: {spec: {%s, containers: [{name: c, command: ["false"]}]}}
"""


@pytest.mark.parametrize("restart", [IN_PLACE, RESTARTED])
def test_a_job_that_crashes_in_a_loop_rests_and_says_so(runtime, restart, tmp_path):
    """The job used to be started about 25 times a second."""
    manifest = tmp_path / "job.yaml"
    name = "in-place" if restart == IN_PLACE else "restarted"
    manifest.write_text(LOOPING_JOB % (name, restart))
    (job,) = phalanx.submit_manifests(manifest)
    assert isinstance(job, phalanx.JobHandle)

    def resting():
        seen = job.describe()
        said = re.search(r"crashed (\d+) times in a row, and rests until", seen.reason)
        return said and (int(said[1]), seen.members[0].attempt)

    crashes, attempt = eventually(resting)
    assert attempt == crashes + (restart == IN_PLACE), "each start was a crash that counts"
    assert eventually(lambda: "rests until" in job.explain())
    job.cancel()
    assert job.wait(60) == "Terminated"
    job.delete()
