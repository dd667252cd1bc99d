"""Processes of the scheduler and of Ray are killed under jobs."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

from tests.polling import eventually

from phalanx.api.job import Job
from phalanx.model.rows.work import JobDescription

from .cluster import Phalanx, kill_hard, node_agent, ray_node, scheduler

CPU = 0.25


def pids_of(phx: Phalanx, job: JobDescription) -> list[int]:
    """Return the pids of the members of a job. Each member prints its pid first."""
    names = [member["name"] for member in job["members"]]
    logs = [eventually(partial(phx.log, job["name"], name)) for name in names]
    return [int(log) for log in logs]


def test_a_killed_scheduler_comes_back_and_jobs_go_on(phx: Phalanx, tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait = f"echo begun; while ! test -e {go}; do sleep 0.1; done"
    phx.submit(Job(wait, name="running", members=3, num_cpus=CPU, num_gpus=4))
    phx.submit(Job("true", name="pending", members=3, num_cpus=CPU, num_gpus=2))
    before = phx.until("running", "Running")
    (group,) = phx.groups()
    kill_hard(phx.pid(scheduler()))
    after = phx.job("running")
    assert after["state"] == "Running"
    eventually(lambda: phx.alive() >= {ray_node(node.node_id) for node in phx.nodes})
    assert phx.job("pending")["state"] == "Pending"
    go.touch()
    ended = phx.until("running")
    assert (ended["state"], ended["retries"]) == ("Completed", 0)
    assert [m["attempt"] for m in ended["members"]] == [1, 1, 1]
    assert [m["devices"] for m in ended["members"]] == [m["devices"] for m in before["members"]]
    assert phx.until("pending")["state"] == "Completed"
    assert group["placement_group_id"] not in {row["placement_group_id"] for row in phx.groups()}


def test_a_killed_node_agent_takes_its_members_along_and_the_gang_starts_again(
    phx: Phalanx, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    script = f"echo $$; if test -e {again}; then exit 0; fi; exec sleep 300"
    phx.submit(Job(script, name="retried", members=3, num_cpus=CPU, num_gpus=4, max_retries=3))
    before = phx.until("retried", "Running")
    pids = pids_of(phx, before)
    again.touch()
    place = ray_node(before["members"][0]["node"])
    (node,) = [node for node in phx.nodes if ray_node(node.node_id) == place]
    kill_hard(phx.pid(node_agent(node.node_id)))
    assert phx.until("retried")["state"] == "Completed"
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_lost_node_has_its_gang_start_again_elsewhere(phx: Phalanx, tmp_path: Path) -> None:
    again = tmp_path / "again"
    script = f"echo $$; if test -e {again}; then exit 0; fi; exec sleep 300"
    phx.submit(Job(script, name="moved", members=3, num_cpus=CPU, num_gpus=4, max_retries=3))
    before = phx.until("moved", "Running")
    lost = phx.mortal()[0]
    phx.nodes.remove(lost)
    gone = ray_node(lost.node_id)
    assert gone in {ray_node(m["node"]) for m in before["members"]}
    phx.add_node()
    again.touch()
    phx.cluster.remove_node(lost, allow_graceful=False)
    after = phx.until("moved")
    assert after["state"] == "Completed"
    assert gone not in {ray_node(m["node"]) for m in after["members"]}
    assert gone not in phx.alive()


def test_a_silent_scheduler_has_its_members_ended(phx: Phalanx, tmp_path: Path) -> None:
    again = tmp_path / "again"
    script = f"echo $$; if test -e {again}; then exit 0; fi; exec sleep 300"
    phx.submit(Job(script, name="fenced", members=3, num_cpus=CPU, num_gpus=4, max_retries=9))
    before = phx.until("fenced", "Running")
    pids = [int(eventually(partial(phx.log, "fenced", m["name"]))) for m in before["members"]]
    again.touch()
    pid = phx.pid(scheduler())
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: not any(Path(f"/proc/{one}").exists() for one in pids))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert phx.until("fenced")["state"] == "Completed"
