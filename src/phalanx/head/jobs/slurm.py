"""The variables about places that programs for Slurm read, such as SLURM_JOB_NODELIST. A member
stands for one node's share of a job, or for one of the job's tasks. Several members on one node
count as one node for Slurm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.head.jobs.places import MemberPlace, PlacedGang
from phalanx.manifests.plugins import Options

_DIGITS = 8
"""The number of digits of the largest possible number of tasks."""


def member_slurm_variables(gang: PlacedGang, chosen: Options, me: MemberPlace) -> dict[str, str]:
    """Return all Slurm variables of a member. `chosen`: the options of the job's plugin `slurm`."""
    nodes = [gang.place(*key).node for key in gang.ranks.order if key in gang.places]
    hosts = {one.node: one.address for one in gang.places.values()}
    each = max(_number(chosen["tasks-per-member"]), 1)
    cpus = _number(chosen["cpus-per-member"])
    env = slurm_variables(nodes, hosts, each, _number(chosen["tasks"]), cpus)
    if chosen["counts"] != "tasks":  # the number of tasks was not given
        del env["SLURM_NTASKS"], env["SLURM_NPROCS"]
    env |= own_slurm_variables(nodes, hosts, me.node, me.devices, cpus)
    if gang.restarts:
        env["SLURM_RESTART_COUNT"] = str(gang.restarts)
    if gang.ends is not None:
        env["SLURM_JOB_END_TIME"] = str(int(gang.ends))
    return env


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _DIGITS else 0


def slurm_variables(
    nodes: Sequence[str],
    hosts: Mapping[str, str],
    tasks_per_member: int,
    tasks: int = 0,
    cpus: int = 0,
) -> dict[str, str]:
    """Return the variables that are equal for all members. `nodes`: each member's node, by rank.
    `hosts`: the address of each node. `tasks`: the number of tasks; 0 if each member has
    `tasks_per_member` tasks. `cpus`: the CPUs of a member, or 0 if unknown.
    """
    wanted = tasks or len(nodes) * tasks_per_member
    on_node = dict.fromkeys(nodes, 0)
    for rank, node in enumerate(nodes):
        on_node[node] += len(tasks_of_member(rank, len(nodes), tasks_per_member, wanted))
    listed = ",".join(dict.fromkeys(hosts[node] for node in on_node))
    count = str(len(on_node))
    of_nodes = [cpus * nodes.count(node) for node in on_node]
    held = {"SLURM_JOB_CPUS_PER_NODE": run_lengths(of_nodes)} if cpus else {}
    return held | {
        "SLURM_JOB_NODELIST": listed,
        "SLURM_NODELIST": listed,
        "SLURM_JOB_NUM_NODES": count,
        "SLURM_NNODES": count,
        "SLURM_NTASKS": str(wanted),
        "SLURM_NPROCS": str(wanted),
        "SLURM_TASKS_PER_NODE": run_lengths(list(on_node.values())),
    }


def own_step_variables(nodes: Sequence[str], hosts: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that all tasks of a step share. A step may use only some of its job's
    nodes. `nodes`: the node of each task.
    """
    counts = {node: nodes.count(node) for node in dict.fromkeys(nodes)}
    listed = ",".join(dict.fromkeys(hosts.get(node, "") for node in counts))
    on_nodes, tasks = run_lengths(list(counts.values())), str(len(nodes))
    first = hosts.get(nodes[0], "") if nodes else ""
    return {
        "SLURM_STEP_NODELIST": listed,
        "SLURM_STEP_NUM_NODES": str(len(counts)),
        "SLURM_STEP_NUM_TASKS": tasks,
        "SLURM_STEP_TASKS_PER_NODE": on_nodes,
        "SLURM_NODELIST": listed,
        "SLURM_NNODES": str(len(counts)),
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_TASKS_PER_NODE": on_nodes,
        "SLURM_LAUNCH_NODE_IPADDR": first,
        "SLURM_SRUN_COMM_HOST": first,
        "SLURM_DISTRIBUTION": "block",
    }


def own_slurm_variables(
    nodes: Sequence[str], hosts: Mapping[str, str], node: str, devices: Sequence[int], cpus: int = 0
) -> dict[str, str]:
    """Return the variables of the first task of one member on `node`. `cpus`: the member's CPUs; 0
    if unknown.
    """
    rank_of_node = list(dict.fromkeys(nodes)).index(node) if node in nodes else 0
    env = {
        "SLURMD_NODENAME": hosts.get(node, ""),
        "SLURM_NODEID": str(rank_of_node),
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_GTIDS": "0",
        "SLURM_TOPOLOGY_ADDR": hosts.get(node, ""),
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
    }
    if cpus:
        env["SLURM_CPUS_ON_NODE"] = str(cpus * max(nodes.count(node), 1))
    if devices:
        env["SLURM_JOB_GPUS"] = ",".join(map(str, devices))
        env["SLURM_GPUS_ON_NODE"] = str(len(devices))
    return env


def tasks_of_member(rank: int, members: int, most: int, tasks: int) -> range:
    """Return the numbers of a member's tasks. Each member gets a block of consecutive numbers. The
    blocks are as even as possible and have at most `most` tasks.
    """
    each, more = divmod(min(tasks, members * most), members)
    first = rank * each + min(rank, more)
    return range(first, first + each + (rank < more))


def run_lengths(counts: Sequence[int]) -> str:
    """Return counts in Slurm's notation: `2(x3),1`."""
    parts: list[tuple[int, int]] = []
    for count in counts:
        if parts and parts[-1][0] == count:
            parts[-1] = (count, parts[-1][1] + 1)
        else:
            parts.append((count, 1))
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in parts)
