"""Packages at the head: uploads in parts, answers to nodes, and jobs whose packages are missing."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.world.cluster import one_node

from phalanx.api.new_manifests import job_manifest
from phalanx.errors import JobCommandError
from phalanx.head.packages import NoPackageFiles, Packages
from phalanx.model.jobs.spec import JobSpec, Process, TaskGroup, Template
from phalanx.model.packages import MOST_BYTES, VARIABLE, Package, PackageUri, written_uris
from phalanx.protocol.bundle_messages import FetchPackage, PackagePart
from phalanx.protocol.cluster_messages import EnvironmentKnown, JobKnown
from phalanx.protocol.requests.jobs import ApplyManifests
from phalanx.protocol.requests.packages import PackageRead, PutPackage, ReadPackage
from phalanx.runtime.os.package_files import PackageDirectory

DATA = b"0123456789"
NAME = hashlib.sha256(DATA).hexdigest()


class Head:
    """The packages of a head, in a directory of the test."""

    def __init__(self, tmp_path: Path) -> None:
        self.sent: list[PackagePart] = []
        outbox: Any = SimpleNamespace(send=lambda prefix, message: self.sent.append(message))
        self.packages = Packages(PackageDirectory(str(tmp_path)), outbox, set)

    def put(self, offset: int = 0, data: bytes = b"", name: str = NAME, size: int = 10) -> int:
        asker: Any = None
        return self.packages._put(asker, PutPackage(name, size, offset, data))


@pytest.fixture
def head(tmp_path):
    return Head(tmp_path)


def test_an_upload_comes_in_parts_and_may_be_repeated(head):
    assert head.put() == 0
    assert head.put(0, DATA[:4]) == 4
    assert head.put(0, DATA[:4]) == 4
    assert head.put(9, DATA[9:]) == 4
    assert head.packages.missing([NAME]) == [NAME]
    assert head.put(4, DATA[4:]) == 10
    assert head.packages.missing([NAME]) == []
    assert head.put() == 10


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "../../etc/passwd"}, "is no SHA-256"),
        ({"size": MOST_BYTES + 1}, "at most 500.0 MiB"),
        ({"size": 0}, "at most 500.0 MiB"),
        ({"data": b"x" * 11}, "a part of a package"),
        ({"data": b"another..."}, "another SHA-256"),
    ],
)
def test_what_is_refused(head, fields, words):
    with pytest.raises(ValueError, match=words):
        head.put(**fields)
    assert head.packages.missing([NAME]) == [NAME]


def test_nodes_get_the_parts_that_they_ask_for(head):
    head.put(0, DATA)
    for wanted in (FetchPackage(NAME, 8), FetchPackage("0" * 64, 0), FetchPackage("../x", 0)):
        head.packages.fetched(b"node", wanted)
    assert head.sent == [
        PackagePart(NAME, 8, b"89", 10),
        PackagePart("0" * 64, 0, b"", -1),
        PackagePart("../x", 0, b"", -1),
    ]


def test_a_job_whose_package_was_not_uploaded_is_refused():
    template = Template(processes=(Process(command=("true",)),))
    package = Package(sha256=NAME, size=10, kind="working_dir")
    spec = JobSpec(
        name="job", groups=(TaskGroup(name="a", template=template),), packages=(package,)
    )
    with pytest.raises(JobCommandError, match="upload it before"):
        one_node(1).ask(ApplyManifests([job_manifest(spec)]))


def test_workers_read_the_parts_that_they_ask_for(head):
    head.put(0, DATA)
    asker: Any = None
    wanted = ((NAME, 8), (NAME, -1), ("0" * 64, 0), ("../x", 0))
    assert [head.packages._read(asker, ReadPackage(*one)) for one in wanted] == [
        PackageRead(b"89", 10),
        *[PackageRead(b"", -1)] * 3,
    ]


def test_a_runtime_of_one_program_says_that_it_takes_no_packages():
    outbox, asker = SimpleNamespace(), None
    packages = Packages(NoPackageFiles(), outbox, set)  # type: ignore[arg-type]
    for data in (b"", DATA):
        assert packages._put(asker, PutPackage(NAME, 10, 0, data)) == -1  # type: ignore[arg-type]


def test_the_packages_of_a_driver_are_kept_until_its_job_ends():
    world = one_node(1)
    drivers = world.head.drivers
    job, other = drivers.new(), drivers.new()
    driver = b"d" * 12 + job
    drivers.known(JobKnown(job, driver, [], "", "", b"", False))
    for number, of in enumerate((job, job, other)):
        text = written_uris([PackageUri(str(number) * 64, 1, "")])
        drivers.environment_known(EnvironmentKnown(bytes([number]), {VARIABLE: text}, of))
    drivers.environment_known(EnvironmentKnown(b"x", {VARIABLE: "3"}, job))
    assert world.head._kept_packages() == {"0" * 64, "1" * 64, "2" * 64}
    drivers.driver_gone(driver)
    assert world.head._kept_packages() == {"2" * 64}
