"""Jobs in images at the head: which nodes can run them, and the commands that nodes get."""

from __future__ import annotations

from typing import Any

import pytest
from tests.world.cluster import World

from phalanx.api.new_manifests import job_manifest
from phalanx.errors import JobCommandError
from phalanx.head.jobs.images import with_images
from phalanx.model.environments import TOOL_LABEL, Environment, image_named
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.protocol.bundle_messages import StartMember
from phalanx.protocol.requests.jobs import ApplyManifests

IMAGE = Environment(tool="image", named="a:1")


def job(*images: str, placement: dict[str, Any] | None = None, **fields: Any) -> JobSpec:
    """Return a job with one process for each of these images."""
    processes = tuple(
        Process(command=("train",), env=(("A", "1"),), requests=(("CPU", 0.5),), image=image)
        for image in images
    )
    template = Template(processes=processes, placement=placement or {})
    return JobSpec(name="job", groups=(TaskGroup(name="a", template=template),), **fields)


def world(**tools: str) -> World:
    """Return a cluster with one node for each of these container tools; "" is a node without
    one.
    """
    world = World()
    for name, tool in tools.items():
        world.add(name, labels={TOOL_LABEL: tool} if tool else {}, CPU=4.0)
    return world


def submitted(world: World, spec: JobSpec) -> list[StartMember]:
    world.ask(ApplyManifests([job_manifest(spec)]))
    world.rounds(5)
    return world.started()


def test_a_job_in_an_image_runs_where_a_tool_is():
    cluster = world(n0="", n1="podman", n2="")
    (order,) = submitted(cluster, job("", environment=IMAGE))
    assert order in cluster.nodes["n1"].orders
    assert order.prepare is not None
    assert order.environment == IMAGE.key
    (command,) = order.commands
    assert "phalanx.runtime.containers.run" in command.argv[2]
    *_, key, _, mark, names, word = command.argv
    assert (key, mark, word) == (IMAGE.key, "-", "train")
    assert order.after is not None, "a killed container is removed"
    assert {"A", "PHALANX_JOB"} <= set(names.split(","))


def test_without_a_tool_on_any_node_a_job_in_an_image_is_refused():
    cluster = world(n0="", n1="")
    with pytest.raises(JobCommandError, match="no node can run the image a:1: none has podman"):
        submitted(cluster, job("", environment=IMAGE))


def test_images_of_a_manifest_are_dropped_where_no_node_has_a_tool():
    (order,) = submitted(world(n0=""), job("a:1"))
    assert (order.prepare, order.after) == (None, None)
    assert order.commands[0].argv == ["train"]


def test_each_process_of_a_manifest_has_its_own_image():
    spec = job("a:1", "", "b:1", "a:1")
    (order,) = submitted(world(n0="podman"), spec)
    keys = [image_named(name, is_optional=True).key for name in ("a:1", "b:1")]
    assert order.environment.split() == keys
    assert [command.argv[4] for command in order.commands if len(command.argv) > 1] == [
        *keys,
        keys[0],
    ]
    assert [command.argv for command in order.commands if len(command.argv) == 1] == [["train"]]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [[]]),
        ({"nodeSelector": {"a": "b"}}, [[]]),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "x", "operator": "Exists"}]},
                                {},
                            ]
                        },
                        "preferred": 1,
                    }
                }
            },
            [[{"key": "x", "operator": "Exists"}], []],
        ),
    ],
)
def test_the_tool_is_one_more_condition_on_nodes(given, expected):
    spec = with_images(job("", placement=given, environment=IMAGE), {"podman"})
    assert with_images(spec, {"podman"}) == spec, "a job that is submitted again"
    (group,) = spec.groups
    placement = dict(group.template.placement)
    of_nodes = placement.pop("affinity")["nodeAffinity"]
    terms = of_nodes["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    has_tool = {"key": TOOL_LABEL, "operator": "Exists"}
    assert [term["matchExpressions"] for term in terms] == [[*one, has_tool] for one in expected]
    assert placement == {k: v for k, v in given.items() if k != "affinity"}
    assert ("preferred" in of_nodes) == ("affinity" in given)
