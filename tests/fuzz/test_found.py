"""Defects that the suites of this folder have found, one test for each."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from tests.fuzz.test_messages import Place
from tests.fuzz.values import Maker
from tests.fuzz.world import PeopleWorld, bystander
from typer.testing import CliRunner

from phalanx.cli.job_view import job_text
from phalanx.cli.typer_app import app
from phalanx.errors import JobCommandError
from phalanx.manifests.check import read_for_submit
from phalanx.manifests.findings import ManifestError
from phalanx.model.ids import GangId, GroupId
from phalanx.model.jobs.spec import DependsOn, FlowSpec, JobSpec, Step, TaskGroup
from phalanx.model.rows.cluster import StatusInfo
from phalanx.model.rows.work import JobDescription
from phalanx.protocol.actor_messages import ActorRefused, PlaceActor
from phalanx.protocol.node_messages import LeaseWanted
from phalanx.protocol.requests.actors import ActorSpec, ListActors, RegisterActor
from phalanx.protocol.requests.gangs import CreateGang, EndMembers
from phalanx.protocol.requests.jobs import ApplyManifests, ListJobs, Manifest
from phalanx.protocol.requests.request import read_result

replace = msgspec.structs.replace


def job(**fields: Any) -> JobSpec:
    return replace(bystander("j"), **fields)


def group(**fields: Any) -> TaskGroup:
    return replace(bystander("j").groups[0], **fields)


BAD_OBJECTS = {
    "a task that waits for none that there is": (
        "Job",
        job(groups=(group(depends_on=DependsOn(names=("nobody",))),)),
        "not a task of this job",
    ),
    "tasks that wait for each other": (
        "Job",
        job(groups=(
            group(name="a", depends_on=DependsOn(names=("b",))),
            group(name="b", depends_on=DependsOn(names=("a",))),
        )),
        "in a cycle",
    ),
    "two tasks of one name": ("Job", job(groups=(group(), group())), "two tasks are named 'w'"),
    "a minimum above the size": ("Job", job(groups=(group(min_available=3),)), "2 replicas"),
    "a size below nothing": ("Job", job(groups=(group(replicas=-1),)), "0 or more"),
    "a grace without end": (
        "Job",
        job(groups=(group(template=replace(group().template, grace_s=float("inf"))),)),
        "number of seconds",
    ),
    "a priority beyond all": ("Job", job(priority=2**62), "priority"),
    "GPUs without end": (
        "Job",
        job(groups=(group(template=replace(group().template, processes=(
            replace(group().template.processes[0], requests=(("GPU", float("inf")),)),
        ))),)),
        "finite number",
    ),
    "a flow that waits for no step of its own": (
        "JobFlow",
        FlowSpec(name="f", steps=(Step(name="a", targets=("b",)),)),
        "not a step of this",
    ),
    "a flow without steps": ("JobFlow", FlowSpec(name="f"), "at least one step"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_OBJECTS)
def test_the_head_refuses_what_no_manifest_may_say(name: str) -> None:
    world = PeopleWorld()
    kind, spec, said = BAD_OBJECTS[name]
    answer = world.request(ApplyManifests([Manifest(kind, msgspec.msgpack.encode(spec))]))
    assert isinstance(answer.error, JobCommandError), answer.error
    assert said in str(answer.error)
    rows = read_result(ListJobs(), world.request(ListJobs()).results[0], None)
    assert rows == [], "nothing is left of it"


@pytest.mark.parametrize("spec", [b"", b"\x81", b"\x93\x01", b"\xa1\xff", b"\xc1"])
def test_bytes_that_are_no_object_are_refused_in_words(spec: bytes) -> None:
    answer = PeopleWorld().request(ApplyManifests([Manifest("Job", spec)]))
    assert isinstance(answer.error, ValueError)
    assert str(answer.error).startswith("cannot read these bytes as a Job: ")


@pytest.mark.parametrize(
    "gang",
    [
        CreateGang(GangId(GroupId(bytes(18))), "g", "default", [], 0),
        CreateGang(GangId(GroupId(bytes(18))), "g", "default", [], 2),
        CreateGang(GangId(GroupId(bytes(18))), "g", "default", [{"CPU": 1.0}], 2),
        CreateGang(GangId(GroupId(bytes(18))), "g", "default", [{"CPU": 1.0}], -1),
        CreateGang(GangId(GroupId(bytes(18))), "g", "default", [{"GPU": 1.5}], 1),
        CreateGang(GangId(GroupId(bytes(18))), "g", "default", [{"CPU": float("nan")}], 0),
    ],
)
def test_a_gang_that_can_be_none_is_refused(gang: CreateGang) -> None:
    world = PeopleWorld()
    assert isinstance(world.request(gang).error, ValueError)
    world.rounds()
    assert not world.internal_errors


@pytest.mark.parametrize(
    "fields",
    [
        {"place": {"GPU": 1e18}},
        {"place": {"CPU": float("nan")}},
        {"hold": {"x": 0.5}},
        {"place": {"CPU": 1.0}, "hold": {"CPU": 2.0}},
        {"strategy": {"group": "zz", "bundle": 0}},
        {"strategy": {"group": "00"}},
        {"strategy": {"labels": [["a"]]}},
        {"strategy": {"labels": [[("a", "Near", ["b"])]]}},
        {"strategy": {"node_id": 7}},
    ],
)
def test_an_actor_that_no_node_could_hold_is_refused_and_not_kept(fields: dict[str, Any]) -> None:
    world = PeopleWorld()
    assert isinstance(
        world.request(RegisterActor(ActorSpec(b"a" * 16, "C", **fields), b"", [])).error, ValueError
    )
    assert read_result(ListActors(), world.request(ListActors()).results[0], None) == []


def test_an_actor_that_holds_more_than_its_place_stops_no_node() -> None:
    place = Place()
    order = PlaceActor(bytes(16), 1, b"", b"", "", "", {}, {"x": 0.5}, b"", {}, 0)
    place.node.on_message(place.head, order)
    assert any(isinstance(one, ActorRefused) for one in notified(place))
    driver = place.process(1)
    place.node.on_message(driver, LeaseWanted(1, {"CPU": 1.0}, 1))
    assert place.node.leases.leases, "a worker starts for others"


def notified(place: Place) -> list[Any]:
    from tests.fuzz.test_messages import told

    place.rounds(1)
    return told(place)


def test_a_demand_that_cannot_be_looked_at_is_refused_and_keeps_no_other_waiting(
    monkeypatch,
) -> None:
    place = Place()
    leases = place.node.leases
    whole = leases._place

    def fails(demand: Any, *rest: Any) -> Any:
        if demand.scheduling_class == 13:
            raise KeyError("a plank is loose")
        return whole(demand, *rest)

    monkeypatch.setattr(leases, "_place", fails)
    bad, good = place.process(1), place.process(2)
    place.node.on_message(bad, LeaseWanted(13, {"CPU": 1.0}, 1))
    place.node.on_message(good, LeaseWanted(1, {"CPU": 1.0}, 1))
    assert [lease.demand.scheduling_class for lease in leases.leases.values()] == [1]
    assert "KeyError" in str(bad.sent)


def test_errors_print_no_escapes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(*asked: Any) -> None:
        raise ValueError("there is no job \x1b[2Jj")

    monkeypatch.setattr("phalanx.cli.reach.daemons_of", lambda *_: [(None, None)])
    monkeypatch.setattr("phalanx.runtime.daemons.visitor.ask_daemon", answer)
    done = CliRunner().invoke(app, ["job", "j"])
    assert done.stderr == "there is no job \\x1b[2Jj\n"


def test_what_is_wrong_with_a_manifest_is_said_without_escapes() -> None:
    text = '{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": '
    with pytest.raises(ManifestError, match=r"PriorityClass/\\ufeff metadata.name") as caught:
        read_for_submit(text + '"\ufeff"}, "value": 0}')
    assert str(caught.value).isprintable()


def test_status_prints_no_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Maker(random.Random(1)).value(StatusInfo)
    strange = msgspec.structs.replace(found, address="\x1b[2J\ufeff", groups=[])
    monkeypatch.setattr("phalanx.cli.reach.daemons_of", lambda *_: [(None, None)])
    monkeypatch.setattr("phalanx.runtime.daemons.visitor.ask_daemon", lambda *asked: strange)
    done = CliRunner().invoke(app, ["status"])
    assert "head at \\x1b[2J\\ufeff, " in done.output


def test_the_end_of_members_that_a_gang_does_not_have_is_refused() -> None:
    world = PeopleWorld()
    gang = CreateGang(GangId(GroupId(bytes(18))), "g", "default", [{"CPU": 1.0}], 1)
    assert world.request(gang).error is None
    for index in (1, -1):
        error = world.request(EndMembers(GangId(GroupId(bytes(18))), [index])).error
        assert str(error).endswith(f" has members 0 to 0, but no member {index}")
    assert not world.internal_errors


def test_a_job_prints_no_escapes() -> None:
    job = Maker(random.Random(3)).value(JobDescription)
    bad = replace(job, name="\x1b[2J", queue="\x08", state="\x07")
    assert "\x1b" not in job_text(bad, [])
    assert "\x08" not in job_text(bad, [])
