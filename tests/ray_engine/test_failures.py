"""Processes of the scheduler and of Ray are killed under jobs."""

from __future__ import annotations

from pathlib import Path

import ray

from phalanx.api.jobs import Job

from .cluster import Phalanx, eventually, kill_hard, runner, scheduler

CPU = 0.25


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
    eventually(lambda: len(phx.alive()) == len(ray.nodes()))
    assert phx.job("pending")["state"] == "Pending"
    go.touch()
    ended = phx.until("running")
    assert (ended["state"], ended["retries"]) == ("Completed", 0)
    assert [m["attempt"] for m in ended["members"]] == [1, 1, 1]
    assert [m["devices"] for m in ended["members"]] == [m["devices"] for m in before["members"]]
    assert phx.until("pending")["state"] == "Completed"
    assert group["placement_group_id"] not in {row["placement_group_id"] for row in phx.groups()}


def test_a_killed_runner_takes_its_members_along_and_the_gang_starts_again(
    phx: Phalanx, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    script = f"echo $$; if test -e {again}; then exit 0; fi; exec sleep 300"
    phx.submit(Job(script, name="retried", members=3, num_cpus=CPU, num_gpus=4, max_retries=3))
    before = phx.until("retried", "Running")
    pids = [
        int(eventually(lambda m=m: phx.log("retried", m["name"]).strip()))
        for m in before["members"]
    ]
    again.touch()
    kill_hard(phx.pid(runner(before["members"][0]["node"])))
    assert phx.until("retried")["state"] == "Completed"
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_lost_node_has_its_gang_start_again_elsewhere(phx: Phalanx, tmp_path: Path) -> None:
    again = tmp_path / "again"
    script = f"echo $$; if test -e {again}; then exit 0; fi; exec sleep 300"
    phx.submit(Job(script, name="moved", members=3, num_cpus=CPU, num_gpus=4, max_retries=3))
    before = phx.until("moved", "Running")
    lost = phx.nodes.pop(0)
    assert lost.node_id in {m["node"] for m in before["members"]}
    phx.add_node()
    again.touch()
    phx.cluster.remove_node(lost, allow_graceful=False)
    after = phx.until("moved")
    assert after["state"] == "Completed"
    assert lost.node_id not in {m["node"] for m in after["members"]}
    assert lost.node_id not in phx.alive()
