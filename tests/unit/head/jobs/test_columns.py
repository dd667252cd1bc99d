"""Columns of jobs agree with the rows of the same jobs, in each state of a job."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.head.gangs.test_arrays import Cluster, spec

from phalanx.api.new_manifests import job_manifest
from phalanx.model.rows.work import JobInfo
from phalanx.protocol.requests.jobs import (
    CODE,
    HOSTS,
    ApplyManifests,
    CommandJob,
    GetJob,
    ListJobColumns,
    ListJobs,
)
from phalanx.protocol.requests.news import ListWaiting

ANNOTATIONS = (("slurm/name", "train"), ("slurm/cpus", ""))


@pytest.fixture(scope="module")
def cluster():
    """Return a cluster with an array, and with jobs that run, wait, are held, wait for another job,
    or are over.
    """
    cluster = Cluster()

    def put(name, **more):
        notes = ANNOTATIONS if name in ("limited", "held") else ()
        job = msgspec.structs.replace(spec(None, name=name, **more), annotations=notes)
        cluster.do(ApplyManifests([job_manifest(job)]))

    put("over")
    cluster.rounds()
    cluster.ends(code=3)
    put("runs")
    cluster.submit("0-9", name="array", cpus=1.0)
    cluster.rounds()
    put("limited", limit_s=60.0)
    put("waits", cpus=2.0)
    put("held")
    put("after", after="afterok:held")
    cluster.rounds()
    cluster.do(CommandJob("held", "hold"))
    return cluster


def answer(cluster, *fields, **more):
    return cluster.do(ListJobColumns(list(fields), **more))


@pytest.mark.parametrize("field", JobInfo.__struct_fields__)
def test_a_column_has_the_field_of_each_row(cluster, field) -> None:
    rows = cluster.do(ListJobs())
    (column,) = answer(cluster, field).columns
    assert column == msgspec.to_builtins([getattr(row, field) for row in rows])


def test_the_jobs_of_these_tests_differ_in_what_columns_tell(cluster) -> None:
    rows = cluster.do(ListJobs())
    assert {row.state for row in rows} >= {"Failed", "Running", "Pending"}
    for field in ("position", "is_held", "after", "array", "time_limit_s", "queued", "reason"):
        assert len({getattr(row, field) for row in rows}) > 1, field


def test_hosts_are_those_of_the_members(cluster) -> None:
    names, states, hosts = answer(cluster, "name", "state", HOSTS).columns
    for name, state, found in zip(names, states, hosts, strict=True):
        nodes = {member.node for member in cluster.do(GetJob(name)).members if member.node}
        assert len(found) == (len(nodes) if state != "Pending" else 0), name
    assert any(hosts)


def test_codes_are_those_of_the_reasons(cluster) -> None:
    names, reasons, codes = answer(cluster, "name", "reason", CODE).columns
    waits = {(one.reason, one.code) for one in cluster.do(ListWaiting())}
    found = dict(zip(names, zip(reasons, codes, strict=True), strict=True))
    assert found["waits"] in waits and found["waits"][1]
    assert {found[name][1] for name in ("over", "held")} == {""}


def test_annotations_that_a_job_lacks_are_none(cluster) -> None:
    names, *notes = answer(cluster, "name", annotations=("slurm/name", "slurm/cpus")).columns
    of = dict(zip(names, zip(*notes, strict=True), strict=True))
    assert (of["held"], of["waits"]) == (("train", ""), (None, None))


def test_arrays_come_as_whole_rows_too(cluster) -> None:
    (row,) = cluster.do(ListJobs(name="array"))
    (found,) = answer(cluster, "name").arrays
    assert found == row


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({"states": ("Failed",)}, ["over"]),
        ({"names": ("held", "waits", "none")}, ["waits", "held"]),
        ({"names": ("held", "over"), "states": ("Pending",)}, ["held"]),
    ],
)
def test_jobs_are_chosen_by_state_and_name(cluster, more, names) -> None:
    assert answer(cluster, "name", **more).columns == [names]


def test_an_unknown_field_is_refused(cluster) -> None:
    for of_jobs in (cluster, Cluster()):
        with pytest.raises(ValueError, match="jobs have no field 'colour'"):
            answer(of_jobs, "colour")
