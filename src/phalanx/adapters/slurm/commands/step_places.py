"""Where the tasks of a step run: in the places of its job's members that options leave."""

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
    """A job that runs, and what Slurm's variables say of it."""

    job: JobDescription
    tasks_per_member: int
    nodes: list[str]
    hosts: dict[str, str]
    names: dict[str, set[str]]
    """All that each node is called."""

    @property
    def cpus(self) -> int:
        """Of a member; 0: not known."""
        return int(self.job.annotations.get("slurm/cpus", 0)) // max(len(self.nodes), 1)

    @property
    def number(self) -> str:
        """The job's, which the elements of an array have in common."""
        element = split_element(self.job.name)
        return self.job.name if element is None else element[0]

    @property
    def index(self) -> str:
        """Of an element among those of its array; else what Slurm says of none."""
        element = split_element(self.job.name)
        return NO_INDEX if element is None else element[1]

    @property
    def tasks(self) -> int:
        """As many as it was made for."""
        return int(self.job.annotations.get("slurm/tasks", 0)) or len(self.nodes)


def places_of(job: JobDescription, tasks_per_member: int) -> Places:
    """Where its members are, by rank."""
    rows = ask(address(), GetStatus()).nodes
    hosts = {row.node_id: row.host for row in rows}
    names = {row.node_id: {row.host, row.hostname, row.name} - {""} for row in rows}
    return Places(job, tasks_per_member, [member.node for member in job.members], hosts, names)


def chosen_members(asked: Mapping[str, str], places: Places) -> list[int]:
    """The ranks of the members that a step's options about nodes leave. Raises OptionError."""
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
        raise OptionError(f"none of the nodes of job {places.job.name} is left")
    return [rank for rank, node in enumerate(places.nodes) if node in nodes]


def whole_number(asked: Mapping[str, str], option: str, low: int, high: int) -> int:
    given = asked.get(option, str(low))
    if not given.isdecimal() or not low <= int(given) <= high:
        raise OptionError(f"--{option}={given}: it is a number from {low} to {high} here")
    return int(given)


def nodes_of_tasks(places: Places, members: Sequence[int], count: int) -> list[str]:
    """The node of each task."""
    chosen = min(len(members), count)
    each = max(places.tasks_per_member, -(-count // chosen))
    return [
        places.nodes[rank]
        for number, rank in enumerate(members[:chosen])
        for _ in tasks_of_member(number, chosen, each, count)
    ]
