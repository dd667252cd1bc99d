"""Jobs whose members must be on different nodes, on clusters with fewer nodes."""

from __future__ import annotations

import msgspec
import pytest

from phalanx.adapters.slurm.request import job_spec, shape_of
from phalanx.errors import GangInfeasibleError
from phalanx.head.jobs.apart import check_job_apart
from phalanx.head.nodes.record import NodeRecord
from phalanx.model.jobs.spec import DependsOn, JobSpec, Port, Process, TaskGroup, Template

ONE_CPU = Process(command=("true",), requests=(("CPU", 1.0),))


def nodes(*cpus: float, **labels: str) -> list[NodeRecord]:
    return [
        NodeRecord(
            node_id=f"n{at}", prefix=b"", host="", port=0, hostname="", name="",
            totals={"CPU": count}, labels=labels,
        )
        for at, count in enumerate(cpus)
    ]  # fmt: skip


def asked(**options: str) -> JobSpec:
    words = {name.replace("_", "-"): value for name, value in options.items()}
    return job_spec(7, words, shape_of(words), ("true",), ("sleep",), {})


def apart(over: str, members: int, *, least: int | None = None) -> JobSpec:
    """A job of a manifest with members that keep away from each other."""
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": over}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    template = Template(
        processes=(ONE_CPU,),
        labels=(("a", "b"),),
        placement={"affinity": affinity},
    )
    return job_of(template, members, members if least is None else least)


def job_of(template: Template, members: int, least: int) -> JobSpec:
    group = TaskGroup(name="w", replicas=members, min_available=least, template=template)
    return JobSpec(name="j", namespace="default", groups=(group,), min_available=least)


def with_a_port(members: int) -> JobSpec:
    process = msgspec.structs.replace(ONE_CPU, ports=(Port(number=80),))
    return job_of(Template(processes=(process,)), members, members)


RACKS = [*nodes(4, 4, rack="a"), *nodes(4, rack="b")]
REFUSED = [
    (asked(nodes="2"), nodes(4), "2 nodes at once, one for each member, and the cluster has 1."),
    (asked(nodes="3"), nodes(4, 4), "3 nodes at once, one for each member, and the cluster has 2."),
    (
        asked(nodes="2", ntasks_per_node="3"),
        nodes(4, 2),
        "the cluster has 2, of which 1 could hold a member.",
    ),
    (apart("ray.io/node-id", 3), nodes(9, 9), "3 nodes at once"),
    (apart("rack", 3), RACKS, "3 values of the label rack at once, one for each member, and"),
    (with_a_port(2), nodes(4), "2 nodes at once"),
]
TAKEN = [
    (asked(nodes="2"), nodes(4, 4)),
    (asked(nodes="1"), nodes(4)),
    (asked(ntasks="4"), nodes(4)),
    (apart("ray.io/node-id", 3, least=2), nodes(9, 9)),
    (apart("ray.io/node-id", 3, least=0), nodes(9)),
    (apart("rack", 2), RACKS),
    (apart("rack", 3), nodes(9)),  # on nodes without the label the condition does not hold
    (with_a_port(2), nodes(4, 4)),
]


@pytest.mark.parametrize(("spec", "there", "why"), REFUSED)
def test_more_nodes_than_there_are(spec, there, why):
    with pytest.raises(GangInfeasibleError) as refused:
        check_job_apart(spec, there)
    assert why in str(refused.value)


@pytest.mark.parametrize(("spec", "there"), TAKEN)
def test_enough_nodes(spec, there):
    check_job_apart(spec, there)


def test_other_groups_count_only_if_the_job_needs_them_at_once():
    spec = apart("ray.io/node-id", 1)
    other = msgspec.structs.replace(spec.groups[0], name="v")
    both = msgspec.structs.replace(spec, groups=(*spec.groups, other), min_available=2)
    with pytest.raises(GangInfeasibleError):
        check_job_apart(both, nodes(4))
    check_job_apart(msgspec.structs.replace(both, min_available=1), nodes(4))
    later = msgspec.structs.replace(other, depends_on=DependsOn(names=("w",)))
    check_job_apart(
        msgspec.structs.replace(both, groups=(*spec.groups, later), min_available=1), nodes(4)
    )
