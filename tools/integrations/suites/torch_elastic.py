"""torchrun's elastic agents, one in each member of a gang. One agent is killed, and comes back."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

import phalanx

TORCHRUN = os.path.join(os.path.dirname(sys.executable), "torchrun")
SCRIPT = Path(__file__).parents[3] / "examples" / "launchers" / "elastic_steps.py"
AGENT = (
    f"exec {TORCHRUN} --nnodes=1:3 --nproc-per-node=1 --max-restarts=20 --rdzv-backend=c10d "
    "--rdzv-id=$TORCHELASTIC_RUN_ID --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT "
    f"--rdzv-conf=last_call_timeout=3,join_timeout=120 --local-addr=127.0.0.1 {SCRIPT} "
)
LIMIT_S = 150


def eventually(condition):
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, "not within the time"
        time.sleep(0.3)


def agent_of_rank(rank, where):
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if TORCHRUN in words and str(where) in words and process.environ()["RANK"] == str(rank):
            return process
    return None


@pytest.mark.timeout(2 * LIMIT_S + 100)
def test_an_agent_is_killed_and_its_member_comes_back(cluster, tmp_path):
    container = {"name": "main", "command": ["sh", "-c", AGENT + str(tmp_path)]}
    container["resources"] = {"requests": {"cpu": 1}}
    container["env"] = [{"name": "OMP_NUM_THREADS", "value": "1"}]
    group = {"name": "worker", "replicas": 3, "template": {"spec": {"containers": [container]}}}
    policy = {"events": ["PodFailed", "PodEvicted"], "action": "RestartPod"}
    spec = {"minAvailable": 3, "maxRetry": 20, "policies": [policy], "tasks": [group]}
    phalanx.init(address=cluster)
    manifest = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    job = phalanx.submit({**manifest, "metadata": {"name": "elastic"}, "spec": spec})

    def worlds():
        path = tmp_path / "worlds"
        return path.read_text().splitlines() if path.exists() else []

    eventually(lambda: any(line.startswith("3 ranks") for line in worlds()))
    before = len(worlds())
    agent_of_rank(2, tmp_path).send_signal(signal.SIGKILL)
    eventually(lambda: any(line.startswith("3 ranks") for line in worlds()[before:]))
    assert not worlds()[-1].endswith("step 0")
    (tmp_path / "stop").touch()
    assert job.wait(LIMIT_S) == "Completed"
    phalanx.shutdown()
