"""The places of a step's tasks: the job's members that the options allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from phalanx.adapters.slurm.commands.hostlists import expanded
from phalanx.adapters.slurm.commands.usage import address
from phalanx.adapters.slurm.options import OptionError
from phalanx.cli.reach import ask
from phalanx.head.jobs.slurm import tasks_of_member
from phalanx.model.jobs.arrays import split_element
from phalanx.model.rows.work import JobDescription
from phalanx.protocol.requests.cluster import GetStatus

NO_INDEX = "4294967294"


class Places(msgspec.Struct, frozen=True):
    """A running job, and the values of Slurm's variables that describe it."""

    job: JobDescription
    tasks_per_member: int
    nodes: list[str]
    hosts: dict[str, str]
    names: dict[str, set[str]]
    """The host name and the other names of each node."""

    @property
    def cpus(self) -> int:
        """The number of CPUs of a member; 0 if unknown."""
        return int(self.job.annotations.get("slurm/cpus", 0)) // max(len(self.nodes), 1)

    @property
    def number(self) -> str:
        """The job's number, which all array tasks of an array share."""
        element = split_element(self.job.name)
        return self.job.name if element is None else element[0]

    @property
    def index(self) -> str:
        """The index of an array task; for other jobs, Slurm's value for "no index"."""
        element = split_element(self.job.name)
        return NO_INDEX if element is None else element[1]

    @property
    def tasks(self) -> int:
        """The number of tasks with which the job was submitted."""
        return int(self.job.annotations.get("slurm/tasks", 0)) or len(self.nodes)


def places_of(job: JobDescription, tasks_per_member: int) -> Places:
    """Return a job's places, by rank of its members."""
    rows = ask(address(), GetStatus()).nodes
    hosts = {row.node_id: row.host for row in rows}
    names = {row.node_id: {row.host, row.hostname, row.name} - {""} for row in rows}
    return Places(job, tasks_per_member, [member.node for member in job.members], hosts, names)


def chosen_members(asked: Mapping[str, str], places: Places) -> list[int]:
    """Return the ranks of members that a step's options about nodes allow. Raises OptionError."""
    nodes = list(dict.fromkeys(places.nodes))
    nodes = nodes[whole_number(asked, "relative", 0, len(nodes) - 1) :]
    for option, is_in in (("nodelist", True), ("exclude", False)):
        if option not in asked:
            continue
        named = set(expanded(asked[option]))
        known = {name for node in places.nodes for name in places.names.get(node, ())}
        if is_in and (missing := sorted(named - known)):
            raise OptionError(f"--{option}: job {places.job.name} has no node {missing[0]}")
        nodes = [node for node in nodes
                 if (not named.isdisjoint(places.names.get(node, ()))) == is_in]  # fmt: skip
    if "nodes" in asked:
        least = asked["nodes"].partition("-")[0]
        nodes = nodes[: whole_number({"nodes": least}, "nodes", 1, len(nodes))]
    if not nodes:
        raise OptionError(f"the options exclude all nodes of job {places.job.name}")
    return [rank for rank, node in enumerate(places.nodes) if node in nodes]


def whole_number(asked: Mapping[str, str], option: str, low: int, high: int) -> int:
    given = asked.get(option, str(low))
    if not given.isdecimal() or not low <= int(given) <= high:
        raise OptionError(f"--{option}={given}: it takes a number from {low} to {high} here")
    return int(given)


def nodes_of_tasks(places: Places, members: Sequence[int], count: int) -> list[str]:
    """Return the node of each task."""
    chosen = min(len(members), count)
    each = max(places.tasks_per_member, -(-count // chosen))
    return [
        places.nodes[rank]
        for number, rank in enumerate(members[:chosen])
        for _ in tasks_of_member(number, chosen, each, count)
    ]
