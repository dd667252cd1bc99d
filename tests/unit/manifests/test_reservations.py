"""Reservations and licenses in manifests: read as they were written, and refused with the field."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.manifests.check import object_faults
from phalanx.manifests.licenses import read_licenses
from phalanx.manifests.reading import Manifest, read_checked, read_manifests
from phalanx.manifests.writing import as_data
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.jobs.timing import Moment
from phalanx.model.reservations import Reservation

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
MANY = st.lists(NAMES, max_size=3, unique=True).map(tuple)
Fields = st.SearchStrategy[dict[str, Any]]
WHAT: Fields = st.one_of(
    st.builds(dict, nodes=st.lists(NAMES, min_size=1, max_size=3, unique=True).map(tuple)),
    st.builds(dict, labels=st.just((("rack", "r1"),)), node_count=st.integers(0, 5)),
    st.builds(dict, amounts=st.integers(1, 64).map(lambda n: (("GPU", float(n)),))),
)
MOMENTS = st.one_of(
    st.integers(0, 4_000_000_000).map(lambda at: Moment(at=float(at))),
    st.integers(0, 100_000).map(lambda s: Moment(after_s=float(s))),
)
LENGTHS = st.integers(1, 10_000_000).map(float)
WHEN: Fields = st.one_of(
    st.builds(dict, start=MOMENTS, length_s=LENGTHS, latest=st.none() | MOMENTS),
    st.builds(dict, start=st.none() | MOMENTS, end=MOMENTS),
    st.builds(
        dict,
        schedule=st.sampled_from(("@daily", "0 2 * * 1")),
        time_zone=st.sampled_from(("", "Europe/Berlin")),
        length_s=LENGTHS,
    ),
)
WHOSE: Fields = st.one_of(
    st.builds(dict, users=MANY, queues=MANY, ignores_jobs=st.booleans()),
    st.just({"maintenance": True}),
)


@given(NAMES, WHAT, WHEN, WHOSE)
def test_a_reservation_is_read_as_it_was_written(name, what, when, whose):
    spec = msgspec.structs.replace(Reservation(name=name), **what, **when, **whose)
    written = json.dumps(as_data(Manifest(kind="Reservation", name=name, spec=spec)))
    manifests, warnings = read_checked(written)
    assert [manifest.spec for manifest in manifests] == [spec]
    assert warnings == []
    assert object_faults("Reservation", spec) == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, "spec.nodes: nodes: say what to keep"),
        ({"nodes": ["a"], "nodeCount": 1}, "spec.nodes: nodes: say what to keep"),
        ({"nodeCount": -1}, "nodeCount: it must be 1 to 1000000, not -1"),
        ({"nodeCount": 1, "start": "18:00"}, "start: a moment is like now+1h"),
        ({"nodeCount": 1, "start": [1]}, "start: this must be text, not list"),
        ({"nodeCount": 1, "length": "0h"}, "length: a length of time must be more than 0"),
        ({"nodeCount": 1, "length": "1h", "end": "now+1h"}, "give an end or a length, not both"),
        ({"nodeCount": 1, "schedule": "@daily"}, "length: a recurring reservation needs a length"),
        ({"nodeCount": 1, "schedule": "@every 1h", "length": "1m"}, "not @every"),
        ({"nodeCount": 1, "schedule": "1 2", "length": "1m"}, "five fields"),
        ({"nodeCount": 1, "timeZone": "UTC"}, "timeZone: it belongs to a schedule"),
        (
            {"nodeCount": 1, "schedule": "@daily", "length": "1h", "timeZone": "Mars"},
            "'Mars' is not a time zone",
        ),
        ({"amounts": {"nvidia.com/gpu": 1.5}}, "must be a whole number above 0: 1.5"),
        ({"amounts": {"nvidia.com/gpu": 1, "cpu": 2}}, "it must name one resource"),
        ({"nodeCount": 1, "maintenance": True, "users": ["a"]}, "no jobs run in a"),
        ({"nodeCount": 1, "users": ["a\u001b[31m"]}, "printable characters, not 'a\\x1b[31m'"),
        ({"nodeCount": "two"}, "this must be a whole number, not str"),
    ],
)
def test_what_speaks_against_one_names_its_field(spec, said):
    made = {"apiVersion": "phalanx/v1", "kind": "Reservation", "metadata": {"name": "r"}}
    _, report = read_manifests(json.dumps(made | {"spec": spec}))
    assert said in "\n".join(map(str, report.errors))


def test_a_field_that_there_is_not_is_warned_of():
    made = {"apiVersion": "phalanx/v1", "kind": "Reservation", "metadata": {"name": "r"}}
    _, warnings = read_checked(json.dumps(made | {"spec": {"nodeCount": 1, "usrs": ["a"]}}))
    assert "usrs" in str(warnings[0])


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("matlab", (("matlab", 1),)),
        ("matlab:2,ansys", (("ansys", 1), ("matlab", 2))),
        ({"matlab": 2}, (("matlab", 2),)),
    ],
)
def test_licenses_of_a_job(written, read):
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {
            "licenses": written,
            "reservation": "r",
            "user": "ann",
            "tasks": [{"template": {"spec": {"containers": [{"command": ["true"]}]}}}],
        },
    }
    (manifest,), _ = read_checked(json.dumps(job))
    assert isinstance(manifest.spec, JobSpec)
    assert (manifest.spec.licenses, manifest.spec.reservation) == (read, "r")
    (again,), _ = read_checked(json.dumps(as_data(manifest)))
    assert again.spec == manifest.spec


@pytest.mark.parametrize("written", ["", "a:0", "a:-1", "a:x", "a b", "a,a", "a|b", "a:1:2", ":3"])
def test_what_are_no_licenses(written):
    with pytest.raises(ValueError, match=r"license|count|twice|any of several|ask for"):
        read_licenses(written)
