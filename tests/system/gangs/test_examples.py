"""The examples from the command line, on four nodes with eight virtual GPUs each."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
from tests.polling import eventually
from tests.present import present
from tests.system.cli.conftest import Machine

EXAMPLES = Path(__file__).parents[3] / "examples"
FILES = sorted((EXAMPLES / "jobs").glob("*.yaml"))
JOBS = {"two-groups", "data-parallel", "master-and-workers", "one-after-another"}
STEPS = {"prepare-then-train-prepare", "prepare-then-train-train"}


@pytest.fixture(scope="module")
def four_nodes():
    machine = Machine()
    try:
        address = machine.start_head("--num-cpus", "8", "--num-gpus", "8")
        for name in ("second", "third", "fourth"):
            machine.join(address, name, "--num-cpus", "8", "--num-gpus", "8")
        yield machine
    finally:
        machine.end()


def listed(machine, *what):
    return {row["name"]: row for row in json.loads(machine.done(*what, "--json"))}


def members(machine, job):
    return json.loads(machine.done("job", job, "--json"))["members"]


def test_every_example_completes(four_nodes):
    assert len(four_nodes.nodes()) == 4
    said = four_nodes.done("submit", *map(str, FILES), "--wait")
    for made in ("Job two-groups", "JobFlow prepare-then-train", "CronJob nightly", "Queue lab"):
        assert f"{made} created\n" in said
    jobs = listed(four_nodes, "jobs")
    assert {name: row["state"] for name, row in jobs.items()} == dict.fromkeys(
        JOBS | STEPS, "Completed"
    )
    assert jobs["prepare-then-train-train"]["succeeded"] == 4
    assert listed(four_nodes, "flows")["prepare-then-train"]["state"] == "Succeed"
    assert listed(four_nodes, "crons")["nightly"]["state"] == "Active"
    assert {"lab", "research", "serving"} <= set(listed(four_nodes, "queue", "list"))


def test_the_members_of_the_data_parallel_example_met_with_a_gpu_each(four_nodes):
    logs = four_nodes.done("logs", "data-parallel").splitlines()
    wanted = re.compile(r"\S+ \| rank (\d) of 4 meets at (\S+):(\d+)")
    met = [present(wanted.fullmatch(line)) for line in logs]
    ranks = [found[1] for found in met]
    assert "0" in ranks  # whose end ends the job: a slow worker may not have come to its word
    assert len(set(ranks)) == len(ranks)
    assert len({(found[2], found[3]) for found in met}) == 1


def test_the_master_of_the_mpi_example_knew_every_worker(four_nodes):
    said = four_nodes.done("logs", "master-and-workers.master-0")
    hosts = present(re.search(r"hosts: (\S+)", said))[1].split(",")
    assert len(hosts) == 4


def test_the_cron_example_makes_a_job_that_completes(four_nodes, tmp_path):
    text = (EXAMPLES / "jobs" / "nightly.yaml").read_text()
    often = re.sub(r'schedule: ".*"', 'schedule: "@every 1s"', text)
    often = often.replace("name: nightly", "name: often")
    assert often.count("often") == 1
    assert "@every" in often
    file = tmp_path / "often.yaml"
    file.write_text(often)
    assert four_nodes.done("submit", str(file)) == "CronJob often created\n"
    eventually(lambda: listed(four_nodes, "crons")["often"]["last_success"] is not None)
    four_nodes.done("delete", "often")
    assert "often" not in listed(four_nodes, "crons")


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "sklearn"))),
    reason="torch or scikit-learn is not installed: `pip install torch scikit-learn`",
)
def test_the_example_with_torch_trains_a_model_across_nodes(four_nodes):
    program = (sys.executable, str(EXAMPLES / "torch_ddp.py"))
    options = ("--name", "ddp", "--gang", "4", "--gpus", "8")  # which only a whole node has
    said = four_nodes.done("run", *options, "--", *program)
    assert len({member["node"] for member in members(four_nodes, "ddp")}) == 4
    for rank in range(4):
        assert re.search(rf"rank {rank} of 4 on node \S+ with GPU \S+: copies equal: True", said)
    assert float(present(re.search(r"(\d+\.\d)% of \d+ unseen digits", said))[1]) > 85
