"""The environment variables of members, and the fields of a job that the scheduler sees."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as hs
from tests.unit.head.jobs.shell import Shell, job_spec

from phalanx.head.jobs.environment import (
    expand,
    member_setup,
    ports_needed,
    process_argv,
    process_environment,
)
from phalanx.head.jobs.places import MemberPlace, PlacedGang
from phalanx.head.jobs.podgroup import podgroup_of
from phalanx.manifests.reading import read_manifests
from phalanx.manifests.shapes import shape_of
from phalanx.model.jobs.spec import JobSpec, Process
from phalanx.protocol.bundle_messages import ERROR_FILE, FILES


def gang(text: str, where: str, ports=(29500,), own=()) -> PlacedGang:
    """Return a placed gang of the spec `text`. `where` gives the members' nodes, as in `a-0@n1
    a-1@n2[5+6]`; here a-1 has the devices 5 and 6.
    """
    places = {}
    for part in where.split():
        name, _, rest = part.partition("@")
        node, _, devices = rest.strip("]").partition("[")
        group, _, index = name.rpartition("-")
        places[group, int(index)] = MemberPlace(
            node=node,
            address=f"10.0.0.{node[1:]}",
            devices=tuple(int(d) for d in devices.split("+") if d),
            ports=own,
        )
    return PlacedGang(job=job_spec(text), places=places, ports=ports)


TWO = "tasks: [{name: a, replicas: 2}]"


def test_a_rendezvous():
    found = gang("tasks: [{name: a, replicas: 3}]", "a-0@n1 a-1@n1[2+3] a-2@n2")
    env = member_setup(found, "a", 1).env
    wanted = {
        "RANK": "1",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "WORLD_SIZE": "3",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29500",
        "VC_TASK_INDEX": "1",
        "CUDA_VISIBLE_DEVICES": "2,3",
        "CONTAINER_GPUS": "12",
        "CONTAINER_PORTS": "rendezvous:29500;",
        "PHALANX_TASK": "a",
        "PHALANX_NODE": "n1",
        "PHALANX_NODE_ADDRESS": "10.0.0.1",
        "PHALANX_CPUS": "0",
        "PHALANX_GRACE_S": "30",
    }
    assert wanted.items() <= env.items()
    assert not [name for name in env if name.endswith(("_HOSTS", "_NUM"))]
    assert member_setup(found, "a", 2).env["LOCAL_RANK"] == "0"
    assert member_setup(found, "a", 0).env["CUDA_VISIBLE_DEVICES"] == ""


def test_all_that_torchrun_sets():
    spec = "maxRetry: 5, tasks: [{name: a, replicas: 3}]"
    found = gang(spec, "a-0@n2 a-1@n1 a-2@n2")
    own = member_setup(found, "a", 1).env
    assert {
        "NODE_RANK": "1",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "ROLE_NAME": "default",
        "ROLE_RANK": "1",
        "ROLE_WORLD_SIZE": "3",
        "TORCHELASTIC_RUN_ID": f"{found.job.namespace}.{found.job.name}",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "5",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }.items() <= own.items()
    assert [member_setup(found, "a", i).env["GROUP_RANK"] for i in range(3)] == ["0", "1", "0"]
    assert "TORCHELASTIC_ERROR_FILE" not in own, "there is no directory for it"
    again = replace(found, restarts=2, directory=FILES)
    own = member_setup(again, "a", 1).env
    assert own["TORCHELASTIC_RESTART_COUNT"] == "2"
    assert own["TORCHELASTIC_ERROR_FILE"] == ERROR_FILE


def test_restarts_without_a_limit_are_many_for_programs_that_count_them():
    own = member_setup(gang("maxRetry: -1, tasks: [{name: a}]", "a-0@n1"), "a", 0).env
    assert int(own["TORCHELASTIC_MAX_RESTARTS"]) == 2**31 - 1


def test_roles_are_groups_where_there_are_several():
    found = gang("tasks: [{name: ps}, {name: w, replicas: 2}]", "ps-0@n1 w-0@n1 w-1@n2")
    envs = [member_setup(found, *key).env for key in (("ps", 0), ("w", 0), ("w", 1))]
    roles = [(e["ROLE_NAME"], e["ROLE_RANK"], e["ROLE_WORLD_SIZE"]) for e in envs]
    assert roles == [("ps", "0", "1"), ("w", "0", "2"), ("w", "1", "2")]


@given(nodes=hs.lists(hs.integers(1, 3), min_size=1, max_size=8))
def test_ranks_count_every_member_once(nodes):
    where = " ".join(f"a-{i}@n{n}" for i, n in enumerate(nodes))
    found = gang(f"tasks: [{{name: a, replicas: {len(nodes)}}}]", where)
    envs = [member_setup(found, "a", i).env for i in range(len(nodes))]
    assert [e["RANK"] for e in envs] == [str(i) for i in range(len(nodes))]
    here = [(e["PHALANX_NODE"], e["LOCAL_RANK"]) for e in envs]
    assert len(set(here)) == len(here)
    assert all(int(e["LOCAL_RANK"]) < int(e["LOCAL_WORLD_SIZE"]) for e in envs)


def test_hosts_of_the_svc_plugin():
    spec = "plugins: {svc: [], env: []}, tasks: [{name: my-ps}, {name: w, replicas: 2}]"
    setup = member_setup(gang(spec, "my-ps-0@n1 w-0@n2 w-1@n2"), "w", 1)
    assert setup.env["VC_MY_PS_HOSTS"] == "10.0.0.1"
    assert setup.env["VC_W_HOSTS"] == "10.0.0.2,10.0.0.2"
    assert (setup.env["VC_MY_PS_NUM"], setup.env["VC_W_NUM"]) == ("1", "2")
    assert setup.env["VK_TASK_INDEX"] == "1"
    assert setup.files == {"my_ps.host": "10.0.0.1", "w.host": "10.0.0.2\n10.0.0.2"}


def test_devices_of_other_makers_are_shown_by_their_own_variables():
    place = MemberPlace(node="n1", address="10.0.0.1", others={"NPU": (2, 3)})
    setup = member_setup(PlacedGang(job=job_spec(TWO), places={("a", 0): place}), "a", 0)
    assert setup.env["ASCEND_RT_VISIBLE_DEVICES"] == "2,3"
    chosen = Process(env=(("ASCEND_RT_VISIBLE_DEVICES", "1"),))
    assert process_environment(setup, chosen)["ASCEND_RT_VISIBLE_DEVICES"] == "3"
    beyond = Process(env=(("ASCEND_RT_VISIBLE_DEVICES", "0,1,2"),))
    assert process_environment(setup, beyond)["ASCEND_RT_VISIBLE_DEVICES"] == "2,3"


@pytest.mark.parametrize(("port", "seen"), [("", "29500"), (", --port=1234", "1234")])
def test_the_pytorch_plugin_counts_master_and_workers(port, seen):
    spec = (
        f"plugins: {{pytorch: [--master=boss{port}]}}, "
        "tasks: [{name: worker, replicas: 2}, {name: boss}, {name: watch}]"
    )
    found = gang(spec, "worker-0@n1 worker-1@n2 boss-0@n3 watch-0@n1")
    env = member_setup(found, "worker", 1).env
    assert (env["RANK"], env["WORLD_SIZE"]) == ("2", "3")
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("10.0.0.3", seen)
    assert "RANK" not in member_setup(found, "watch", 0).env
    assert env["VC_WORKER_NUM"] == "2"


def test_the_tensorflow_plugin():
    spec = "plugins: {tensorflow: []}, tasks: [{name: ps}, {name: worker, replicas: 2}]"
    found = gang(spec, "ps-0@n1 worker-0@n2 worker-1@n2")
    assert json.loads(member_setup(found, "worker", 1).env["TF_CONFIG"]) == {
        "cluster": {"ps": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222", "10.0.0.2:2223"]},
        "task": {"type": "worker", "index": 1},
    }
    own = gang(spec, "ps-0@n1 worker-0@n2", own=(4000, 4001))
    cluster = json.loads(member_setup(own, "ps", 0).env["TF_CONFIG"])["cluster"]
    assert cluster == {"ps": ["10.0.0.1:4000"], "worker": ["10.0.0.2:4000"]}
    alone = gang("plugins: {tensorflow: []}, tasks: [{name: worker}]", "worker-0@n1")
    assert "TF_CONFIG" not in member_setup(alone, "worker", 0).env


def test_the_mpi_plugin():
    spec = "plugins: {mpi: []}, tasks: [{name: master}, {name: worker, replicas: 3}]"
    found = gang(spec, "master-0@n1 worker-0@n2 worker-1@n2 worker-2@n3")
    setup = member_setup(found, "master", 0)
    assert setup.env["MPI_HOST"] == "10.0.0.2,10.0.0.2,10.0.0.3"
    assert setup.files["hostfile"] == "10.0.0.2 slots=2\n10.0.0.3 slots=1\n"
    assert "MPI_HOST" not in member_setup(found, "worker", 0).env


def test_the_ray_plugin():
    spec = "plugins: {ray: [--clientPort=7]}, tasks: [{name: head}, {name: worker}]"
    found = gang(spec, "head-0@n1 worker-0@n2", ports=(1, 5001, 5002, 5003))
    assert ports_needed(found.job).gang == 4
    head, worker = member_setup(found, "head", 0), member_setup(found, "worker", 0)
    assert head.command[-3:] == (
        "--port=5001",
        "--dashboard-port=5002",
        "--ray-client-server-port=7",
    )
    assert worker.command == ("ray", "start", "--block", "--address=10.0.0.1:5001")
    assert worker.env["RAY_ADDRESS"] == "10.0.0.1:5001"
    assert "RAY_ADDRESS" not in head.env
    own = Process(command=("mine",))
    assert process_argv(worker, own, {}) == ("mine",)
    assert process_argv(worker, Process(), {}) == worker.command


SET = [
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "VC_TASK_INDEX",
    "MPI_HOST",
]


@pytest.mark.parametrize("name", SET)
def test_what_a_manifest_sets_is_never_replaced(name):
    setup = member_setup(gang(TWO, "a-0@n1 a-1@n2"), "a", 0)
    assert process_environment(setup, Process(env=((name, "mine"),)))[name] == "mine"


@pytest.mark.parametrize(
    ("chosen", "seen"),
    [("0", "4"), ("1,0", "6,4"), ("", ""), ("2", "4,6"), ("GPU-abc", "4,6"), (" 1 ", "6")],
)
def test_devices_of_a_manifest_count_within_those_it_holds(chosen, seen):
    setup = member_setup(gang(TWO, "a-0@n1[4+6]"), "a", 0)
    env = process_environment(setup, Process(env=(("CUDA_VISIBLE_DEVICES", chosen),)))
    assert env["CUDA_VISIBLE_DEVICES"] == seen


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$(A)/x", "1/x"),
        ("$$(A)", "$(A)"),
        ("$(NONE)", "$(NONE)"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A)$(B)", "12"),
        ("$$$(A)", "$1"),
    ],
)
def test_references(text, value):
    assert expand(text, {"A": "1", "B": "2"}) == value


def test_values_and_arguments_refer_to_variables():
    setup = member_setup(gang(TWO, "a-0@n1 a-1@n2"), "a", 1)
    process = Process(
        command=("run", "--master=$(URL)"), env=(("URL", "tcp://$(MASTER_ADDR):$(MASTER_PORT)"),)
    )
    env = process_environment(setup, process)
    assert process_argv(setup, process, env) == ("run", "--master=tcp://10.0.0.1:29500")


# ---- what scheduling sees ------------------------------------------------------------------------


def pod(resources: str) -> str:
    return f"template: {{spec: {{containers: [{{command: [x], resources: {{{resources}}}}}]}}}}"


def test_a_job_as_a_podgroup_with_tasks():
    spec = (
        "minAvailable: 2, networkTopology: {mode: hard, highestTierAllowed: 1}, "
        f"tasks: [{{name: a, replicas: 2, {pod('limits: {cpu: 2, nvidia.com/gpu: 1}')}}},"
        " {name: b, minAvailable: 0, dependsOn: {name: [a]}}]"
    )
    shell = Shell(spec)
    group = podgroup_of(shell.job, priority=7)
    assert (group.uid, group.queue, group.min_member, group.priority) == (
        "default/j",
        "default",
        2,
        7,
    )
    assert group.min_task_member == (("a", 2),)
    assert group.topology is not None
    shape = shape_of(shell.job.spec, shell.job.spec.groups[0], None)
    assert shape.request == (("cpu", 2.0), ("nvidia.com/gpu", 1.0))


def test_partitions_are_subgroups():
    parts = "partitionPolicy: {totalPartitions: 2, partitionSize: 2, minPartitions: 1}"
    shell = Shell(f"tasks: [{{name: a, replicas: 4, {parts}}}]")
    (policy,) = podgroup_of(shell.job).subgroups
    assert (policy.size, policy.minimum) == (2, 1)
    spec = shell.job.spec
    labels = [dict(shape_of(spec, spec.groups[0], part).labels) for part in (0, 1)]
    assert [one[policy.match_label_keys[1]] for one in labels] == ["0", "1"]


def test_what_narrows_the_choice_of_nodes_is_read_as_scheduling_reads_it():
    placed = "nodeSelector: {gpu: a100}, tolerations: [{key: k, operator: Exists}]"
    spec = job_spec(f"tasks: [{{name: a, template: {{spec: {{{placed}}}}}}}]")
    assert isinstance(spec, JobSpec)
    shape = shape_of(spec, spec.groups[0], None)
    assert shape.selector == (("gpu", "a100"),)
    assert shape.tolerations[0].operator == "Exists"
    wrong = "{containers: [{command: [x]}], affinity: {nodeAffinity: {sometimes: []}}}"
    text = f"kind: Job\nmetadata: {{name: j}}\nspec: {{tasks: [{{template: {{spec: {wrong}}}}}]}}"
    _, report = read_manifests(text)
    assert [f.code for f in report.errors] == ["placement_invalid"]
