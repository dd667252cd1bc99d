"""The job API over HTTP: a real server and a real client, with a stand-in for the head that only
records jobs.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import io
import json
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.adapters.test_job_translation import PLACE, row

from phalanx.adapters.ray.jobs import files
from phalanx.adapters.ray.jobs.client import JobSubmissionClient, server_url
from phalanx.adapters.ray.jobs.packing import pack
from phalanx.adapters.ray.jobs.routes import BODY_BYTES, PACKAGE_BYTES, JobRoutes
from phalanx.adapters.ray.jobs.server import JobServer, frame
from phalanx.errors import AuthenticationError, JobCommandError, JobNotFoundError
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.rows.work import JobDescription, LogFile, MemberInfo
from phalanx.protocol.requests.jobs import (
    ApplyManifests,
    CommandJob,
    DeleteJob,
    GetJob,
    ListJobs,
    LogPart,
    ReadJobLog,
)
from phalanx.runtime.os import serving


class RememberingHead:
    """Records jobs as they were submitted. A test changes their states."""

    def __init__(self) -> None:
        self.specs: dict[str, JobSpec] = {}
        self.states: dict[str, str] = {}
        self.log = b""
        self.later: list[bytes] = []
        """Printed before each look at a job; with the last of it the job is over."""

    def __call__(self, request: Any) -> Any:
        if isinstance(request, ApplyManifests):
            (manifest,) = request.manifests
            spec = msgspec.msgpack.decode(manifest.spec, type=JobSpec)
            if spec.uid in self.specs:
                raise JobCommandError("the name is taken")
            self.specs[spec.uid], self.states[spec.uid] = spec, "Running"
            return []
        if isinstance(request, ListJobs):
            return [self._row(uid) for uid in self.specs]
        uid = request.job if isinstance(request, ReadJobLog) else request.name
        if uid not in self.specs:
            raise JobNotFoundError(uid)
        if isinstance(request, ReadJobLog):
            return LogPart(self.log[request.offset :], len(self.log))
        if isinstance(request, CommandJob):
            self.states[uid] = "Terminated"
        elif isinstance(request, DeleteJob):
            del self.specs[uid]
        elif self.later:
            self.log += self.later.pop(0)
            self.states[uid] = "Running" if self.later else "Completed"
        return self._row(uid) if isinstance(request, GetJob) else None

    def _row(self, uid: str) -> Any:
        spec = self.specs[uid]
        member = MemberInfo(
            name=f"{spec.name}-worker-0",
            state="Running",
            attempt=1,
            node="abc",
            devices={},
            exit_code=1 if self.states[uid] == "Failed" else None,
            reason="",
            started=1.0,
            ended=None,
            logs=[LogFile(node="abc", path="/log")],
        )
        return row(
            JobDescription,
            name=spec.name,
            state=self.states[uid],
            annotations=dict(spec.annotations),
            after="",
            array="",
            ports=[],
            preempted=0,
            members=[member],
            history=[],
        )


@pytest.fixture
def head():
    return RememberingHead()


@pytest.fixture
def server(head, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    routes = JobRoutes(head, PLACE, files.Packages(tmp_path / "packages"))
    server = JobServer("127.0.0.1", 0, (files.token(), "of-ray"), routes)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    serving.announce(files.directory(), f"http://127.0.0.1:{server.server_port}", "127.0.0.1:1")
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def client(server):
    return JobSubmissionClient()


def ask(server, method, path, body=b"", **headers):
    """Send a request. It has all required headers, except where the keywords change them. Return
    (status, text).
    """
    all_headers = {
        "Host": f"127.0.0.1:{server.server_port}",
        "Authorization": f"Bearer {files.token()}",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        given = {name: value for name, value in all_headers.items() if value is not None}
        connection.putrequest(method, path, skip_host=True)
        for name, value in given.items():
            connection.putheader(name, value)
        if body:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


# ---- who may ask -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": None}, 401),
        ({"Authorization": "Basic abc"}, 401),
        ({"Authorization": "Bearer phx_wrong"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": None}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_strangers_and_web_pages_are_refused(server, head, method, headers, status):
    body = b'{"entrypoint": "rm"}' if method in ("POST", "PUT") else b""
    assert ask(server, method, "/api/jobs/", body, **headers)[0] == status
    assert head.specs == {}


def test_a_client_without_the_token_says_what_it_needs(server, tmp_path, monkeypatch):
    url = server_url(None)
    monkeypatch.setenv("HOME", str(tmp_path / "another"))
    (tmp_path / "another").mkdir()
    with pytest.raises(AuthenticationError, match="RAY_AUTH_TOKEN"):
        JobSubmissionClient(url)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / ".phalanx/ray-jobs/token"))
    assert JobSubmissionClient(url).get_version() == "4"


def test_a_token_goes_to_no_server_that_is_not_known(server, monkeypatch):
    client = JobSubmissionClient(f"http://localhost:{server.server_port}/")
    assert "Authorization" in client._headers
    for path in files.directory().glob("server-*.json"):
        path.unlink()
    with pytest.raises(AuthenticationError, match="Missing authentication token"):
        JobSubmissionClient(f"http://127.0.0.1:{server.server_port}")


def test_nobody_there(server):
    with pytest.raises(ConnectionError, match="Failed to connect to Ray at address"):
        JobSubmissionClient("http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/api/jobs/fake_job_id", 404),
        ("GET", "/api/jobs/fake_job_id/logs", 404),
        ("GET", "/api/jobs/fake_job_id/logs/tail", 404),
        ("POST", "/api/jobs/fake_job_id/stop", 404),
        ("DELETE", "/api/jobs/fake_job_id", 404),
        ("GET", "/api/packages/fake_package_uri", 404),
        ("GET", "/api/packages/gcs/x.zip", 404),
        ("PUT", "/api/packages/s3/x.zip", 400),
        ("PUT", "/api/packages/gcs/..%2Fx.zip", 400),
        ("POST", "/api/version", 405),
        ("POST", "/api/jobs/", 400),
    ],
)
def test_what_is_not_there(server, method, path, status):
    assert ask(server, method, path)[0] == status


@pytest.mark.parametrize(
    "body", [b"{", b"\xff", b"[" * 100_000, b'{"entrypoint": ""}', b'{"entrypoint": "x" * 3}']
)
def test_what_is_no_request_is_refused(server, head, body):
    assert ask(server, "POST", "/api/jobs/", body)[0] == 400
    assert head.specs == {}


def test_too_large_requests_and_packages_are_refused_unread(server):
    for method, path, limit in (
        ("POST", "/api/jobs/", BODY_BYTES),
        ("PUT", "/api/packages/gcs/x.zip", PACKAGE_BYTES),
    ):
        status, answer = ask(server, method, path, Content_Length=str(limit + 1))[:2]
        assert (status, str(limit) in str(answer)) == (413, True)


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "10.0.0.1:8265", "[::1]:8265"])
def test_names_and_numbers_of_this_machine_are_meant(server, host):
    assert ask(server, "GET", "/api/version", Host=host)[0] == 200


def test_one_connection_takes_several_requests(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    headers = {"Authorization": f"Bearer {files.token()}"}
    for body in ('{"entrypoint": "a"}', '{"entrypoint": "b"}'):
        connection.request("POST", "/api/jobs/", body, headers)
        response = connection.getresponse()
        assert "submission_id" in json.loads(response.read())
    connection.close()


# ---- jobs ------------------------------------------------------------------------------------


def test_a_job_from_its_submission_to_its_end(client, head):
    job = client.submit_job(entrypoint="echo hi", metadata={"a": "b"}, submission_id="mine")
    assert job == "mine"
    assert client.get_job_status(job) == "RUNNING"
    (listed,) = client.list_jobs()
    assert (listed.submission_id, listed.metadata, listed.type) == (
        "mine",
        {"a": "b"},
        "SUBMISSION",
    )
    with pytest.raises(RuntimeError, match="but it is in a non-terminal state RUNNING"):
        client.delete_job(job)
    assert client.stop_job(job) is True
    assert client.get_job_status(job) == "STOPPED"
    assert client.stop_job(job) is False
    assert client.delete_job(job) is True
    assert client.list_jobs() == []
    with pytest.raises(RuntimeError, match="mine does not exist"):
        client.get_job_info(job)


def test_an_id_that_is_taken_and_one_of_any_letters(client):
    for job in ("twice", "my job/ü"):
        assert client.submit_job(entrypoint="x", submission_id=job) == job
        assert client.get_job_info(job).submission_id == job
        with pytest.raises(RuntimeError, match=f"{job} already exists"):
            client.submit_job(entrypoint="x", job_id=job)


def test_a_job_that_failed_shows_the_end_of_its_log(client, head):
    job = client.submit_job(entrypoint="x")
    head.states[f"default/{job}"], head.log = "Failed", b"the reason\n"
    info = client.get_job_info(job)
    assert "exit code 1, last available logs" in str(info.message)
    assert str(info.message).endswith("the reason\n")
    assert client.get_job_logs(job) == "the reason\n"


def test_what_is_refused_says_why(client):
    with pytest.raises(RuntimeError, match="400: ValueError: Failed to set up runtime environment"):
        client.submit_job(entrypoint="x", runtime_env={"image_uri": "a"})
    with pytest.raises(RuntimeError, match="was not uploaded here"):
        client.submit_job(entrypoint="x", runtime_env={"working_dir": "gcs://other.zip"})
    with pytest.raises(ValueError, match="files supported for remote"):
        client.submit_job(entrypoint="x", runtime_env={"working_dir": "s3://not_a_zip"})
    with pytest.raises(ValueError, match="not a valid path"):
        client.submit_job(entrypoint="x", runtime_env={"working_dir": "/no/such/place"})
    with pytest.raises(TypeError, match="address must be a string"):
        JobSubmissionClient(1)  # type: ignore[arg-type]


def test_a_log_is_followed_to_its_end(client, head):
    job = client.submit_job(entrypoint="x")
    head.later = [b"one\n", b"two ", b"three\n"]

    async def follow():
        return [text async for text in client.tail_job_logs(job)]

    assert "".join(asyncio.run(follow())) == "one\ntwo three\n"


def test_a_log_over_a_websocket(server, client, head):
    job = client.submit_job(entrypoint="x")
    head.later = [b"one\n", "\u00fc".encode()[:1], "\u00fc\n".encode()[1:]]
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request(
        "GET",
        f"/api/jobs/{job}/logs/tail",
        headers={
            "Authorization": f"Bearer {files.token()}",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Key": base64.b64encode(b"0" * 16).decode(),
            "Sec-WebSocket-Version": "13",
        },
    )
    assert connection.sock is not None
    with connection.sock.makefile("rb") as stream:
        got = stream.read()
    connection.close()
    assert got.startswith(b"HTTP/1.1 101")
    frames = got.partition(b"\r\n\r\n")[2]
    assert frames.replace(b"\x81\x04one\n", b"").endswith(b"\x88\x02\x03\xe8")
    assert "ü\n".encode() in frames.replace(b"\x81\x00", b"")


@pytest.mark.parametrize(
    ("size", "head_of_frame"),
    [
        (125, b"\x81\x7d"),
        (126, b"\x81\x7e\x00\x7e"),
        (70_000, b"\x81\x7f" + (70_000).to_bytes(8, "big")),
    ],
)
def test_a_frame_says_its_length(size, head_of_frame):
    assert frame(0x81, b"x" * size) == head_of_frame + b"x" * size


# ---- packages --------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    for name in ("main.py", "run.sh", "data/a.txt", "data/b.log", ".git/x", "__pycache__/y.pyc"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "run.sh").chmod(0o755)
    return root


def names_in(file) -> list[str]:
    with file, zipfile.ZipFile(file) as archive:
        return archive.namelist()


@pytest.mark.parametrize(
    ("excludes", "names"),
    [
        ([], ["main.py", "run.sh", "data/a.txt", "data/b.log"]),
        (["*.log"], ["main.py", "run.sh", "data/a.txt"]),
        (["data"], ["main.py", "run.sh"]),
        (["/data/"], ["main.py", "run.sh"]),
        (["data/a*", "main.py"], ["run.sh", "data/b.log"]),
    ],
)
def test_a_package_has_all_files_but_the_excluded(project, excludes, names):
    assert names_in(pack(project, excludes)[1]) == names


def test_a_package_is_named_by_what_is_in_it(project):
    before, file = pack(project)
    again, file_again = pack(project)
    file.close(), file_again.close()
    assert before == again
    (project / "main.py").write_text("another")
    changed, file = pack(project)
    file.close()
    assert changed != before
    _uri, file = pack(project / "data", with_its_name=True)
    assert names_in(file) == ["data/a.txt", "data/b.log"]


def test_a_directory_is_uploaded_once_and_unpacked(client, head, project, monkeypatch):
    for job in ("one", "two"):
        client.submit_job(
            entrypoint="x", submission_id=job, runtime_env={"working_dir": str(project)}
        )
    first, second = (
        spec.groups[0].template.processes[0].working_dir for spec in head.specs.values()
    )
    assert first == second
    assert Path(first, "data", "a.txt").read_text() == "data/a.txt"
    assert os.access(Path(first, "run.sh"), os.X_OK)
    assert client.get_job_info("one").runtime_env["working_dir"].startswith("gcs://_ray_pkg_")


def test_what_is_no_zip_file_is_refused_and_leaves_nothing(server, tmp_path):
    status, text = ask(server, "PUT", "/api/packages/gcs/bad.zip", b"no zip")
    assert (status, "not a zip file" in text) == (400, True)
    assert ask(server, "GET", "/api/packages/gcs/bad.zip")[0] == 404
    assert list((tmp_path / "packages").iterdir()) == []


def test_a_package_cannot_write_outside_of_its_place(server, tmp_path):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("../../outside.txt", "x")
    ask(server, "PUT", "/api/packages/gcs/sly.zip", data.getvalue())
    assert not [path for path in tmp_path.rglob("outside.txt") if "sly" not in str(path)]


def package(*contents):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, content in enumerate(contents):
            archive.writestr(f"f{number}", content)
    return data.getvalue()


@pytest.mark.parametrize(
    ("limits", "contents", "said"),
    [
        ({}, [bytes(40 << 20)] * 2, "The limit is 67108864: 100 times the package's size"),
        ({"SMALL_BYTES": 100}, [bytes(1 << 20)], "would unpack to 1048576 bytes. The limit is"),
        (
            {"UNPACKED_BYTES": 1000},
            [os.urandom(600)] * 2,
            "would unpack to 1200 bytes. The limit is 1000",
        ),
        ({"MOST_FILES": 2}, [b"x"] * 3, "has 3 files and directories; the limit is 2"),
    ],
    ids=["the default", "ratio", "sum", "files"],
)
def test_a_package_that_unpacks_to_too_much_is_refused_and_leaves_nothing(
    server, tmp_path, monkeypatch, limits, contents, said
):
    for name, value in limits.items():
        monkeypatch.setattr(files, name, value)
    status, text = ask(server, "PUT", "/api/packages/gcs/much.zip", package(*contents))
    assert status == 400
    assert said in text
    assert ask(server, "GET", "/api/packages/gcs/much.zip")[0] == 404
    assert list((tmp_path / "packages").iterdir()) == []


def test_a_small_package_may_unpack_to_much_more_than_its_size(server):
    data = package(bytes(1 << 20))
    assert ask(server, "PUT", "/api/packages/gcs/zeros.zip", data)[0] == 200


def test_an_entry_that_understates_its_size_gives_no_more_than_it_says(server, tmp_path):
    """The server adds up the sizes that an archive claims for its entries."""
    data = bytearray(package(bytes(1 << 20)))
    claimed = (1 << 20).to_bytes(4, "little")
    while claimed in data:
        at = data.index(claimed)
        data[at : at + 4] = (10).to_bytes(4, "little")
    status, text = ask(server, "PUT", "/api/packages/gcs/liar.zip", bytes(data))
    assert (status, "not a zip file" in text) == (400, True)
    assert list((tmp_path / "packages").iterdir()) == []


def test_packages_that_nobody_uses_go(tmp_path, project):
    packages = files.Packages(tmp_path / "kept")
    uri, file = pack(project)
    with file:
        data = file.read()
    for name in (uri, "gcs://other.zip"):
        packages.put(name, io.BytesIO(data), len(data))
    packages.keep([uri])
    assert packages.path(uri) is not None
    assert packages.path("gcs://other.zip") is None


# ---- addresses -------------------------------------------------------------------------------


def test_which_server_an_address_means(server, monkeypatch):
    here = f"http://127.0.0.1:{server.server_port}"
    assert server_url(None) == server_url("auto") == server_url("127.0.0.1:1") == here
    assert server_url("http://head:8265/") == "http://head:8265"
    assert server_url("head:8265") == "http://head:8265"
    with pytest.raises(ValueError, match="is not the address of a job server"):
        server_url("ray://head:10001")
    monkeypatch.setenv("RAY_ADDRESS", "http://named:1")
    assert server_url("auto") == "http://named:1"


def test_the_server_takes_the_token_of_rays_variables_too(server):
    for token in (files.token(), "of-ray"):
        assert ask(server, "GET", "/api/version", Authorization=f"Bearer {token}")[0] == 200
    assert ask(server, "GET", "/api/version", Authorization="Bearer of-nobody")[0] == 403
