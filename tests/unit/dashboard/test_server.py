"""The page of a real cluster over real sockets: requests of a browser, and malformed requests."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import stat
import time
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import COMMAND, Machine

from phalanx.dashboard import serve, wire
from phalanx.dashboard.views import NAV
from phalanx.runtime.os.session import started_at


class Browser:
    """Keeps cookies, and sends the headers that tell where its requests come from."""

    def __init__(self, base):
        self.base = base
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def get(self, path):
        with self._opener.open(self.base + path, timeout=60) as answer:
            return answer.read().decode()

    def post(self, path, data=b""):
        headers = {"Sec-Fetch-Site": "same-origin"}
        request = urllib.request.Request(self.base + path, data, headers)
        with self._opener.open(request, timeout=60) as answer:
            return answer.read().decode()


def sign_in(machine):
    """Return a browser that has opened the address that the command prints."""
    link = machine.done("dashboard", "--port", "0").split("\n")[1]
    base, code = link.split("/login#code=")
    browser = Browser(base)
    browser.post("/login", f"code={code}".encode())
    return browser


@pytest.fixture(scope="module")
def machine():
    machine = Machine()
    try:
        machine.address = machine.start_head()
        yield machine
    finally:
        machine.phalanx("dashboard", "--stop")
        machine.end()


@pytest.fixture(scope="module")
def browser(machine):
    return sign_in(machine)


def test_the_page_shows_a_job_what_it_prints_and_ends_it(machine, browser):
    script = "echo first; while true; do sleep 0.1; done"
    machine.done("run", "-d", "-n", "talks", "--cpus", "0", "--", "sh", "-c", script)

    def data(path):
        return json.loads(browser.get(path))

    eventually(lambda: machine.jobs()["talks"]["state"] == "Running")
    eventually(lambda: ">talks</a>" in browser.get("/jobs"))
    eventually(lambda: data("/jobs/default/talks/log?member=worker-0")["text"] == "first\n")
    members = data("/api/v1/jobs/default/talks")["page"]["job"]["members"]
    assert [one["name"] for one in members] == ["worker-0"]
    browser.post("/jobs/default/talks/cancel")
    eventually(lambda: machine.jobs()["talks"]["state"] == "Terminated")
    for path in [path for path, _ in NAV] + ["/queues/default"]:
        assert "<h1>" in browser.get(path)


def test_an_open_page_hears_of_what_happens(machine, browser):
    url = urlsplit(browser.base)
    with socket.create_connection((url.hostname, url.port), timeout=60) as stream:
        cookies = browser._opener.handlers
        jar = next(one.cookiejar for one in cookies if hasattr(one, "cookiejar"))
        cookie = "; ".join(f"{one.name}={one.value}" for one in jar)
        stream.sendall(
            f"GET /live/jobs HTTP/1.1\r\nHost: {url.netloc}\r\nCookie: {cookie}\r\n\r\n".encode()
        )
        machine.done("run", "-d", "-n", "heard-of", "--cpus", "0", "--", "true")
        seen = b""
        while b"heard-of" not in seen:
            part = stream.recv(65536)
            assert part, seen
            seen += part
    assert b"text/event-stream" in seen


def test_a_run_is_kept_as_a_file_whose_page_changes_nothing(machine, browser, tmp_path):
    file = tmp_path / "run.journal"
    machine.done("run", "-d", "-n", "kept", "--cpus", "0", "--", "true")
    eventually(lambda: machine.jobs()["kept"]["state"] == "Completed")
    with machine.begin(COMMAND, "dashboard", "--record", str(file)) as recording:
        eventually(file.exists)
        recording.send_signal(signal.SIGINT)
        said, _ = recording.communicate(timeout=60)
    assert recording.returncode == 0, said
    link = machine.done("dashboard", "--from", str(file), "--port", "0").split("\n")[1]
    base, code = link.split("/login#code=")
    shown = Browser(base)
    shown.post("/login", f"code={code}".encode())
    assert ">kept</a>" in shown.get("/jobs") and "as recorded" in shown.get("/jobs")
    for path in [path for path, _ in NAV]:
        assert "<h1>" in shown.get(path)
    assert "has started" in shown.get("/jobs/default/kept")
    assert 'data-live="no"' in shown.get("/jobs"), "nothing changes any more"
    with pytest.raises(urllib.error.HTTPError) as refused:
        shown.post("/jobs/default/kept/cancel")
    with refused.value as answer:
        assert answer.code == 403
    assert "1 ended" in machine.done("dashboard", "--from", str(file), "--stop")
    wrong = machine.phalanx("dashboard", "--from", __file__)
    assert wrong.returncode == 1 and "is not a record of a run" in wrong.stderr
    both = machine.phalanx("dashboard", "--from", str(file), "--record", str(file))
    assert both.returncode == 2 and "cannot be combined" in both.stderr


def test_a_code_is_good_once_and_the_command_finds_the_page_that_is_served(machine, browser):
    printed = machine.done("dashboard")
    assert browser.base in printed
    code = re.findall("code=(.+)", printed)[0]
    Browser(browser.base).post("/login", f"code={code}".encode())
    with pytest.raises(urllib.error.HTTPError) as refused:
        Browser(browser.base).post("/login", f"code={code}".encode())
    with refused.value as answer:
        assert answer.code == 401


def test_what_the_page_keeps_on_disk_is_for_its_user_alone(machine, browser):
    place = Path(machine.home) / ".phalanx" / "dashboard"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()}
    assert modes["secret"] == 0o600
    assert all(not mode & 0o077 for mode in (*modes.values(), stat.S_IMODE(place.stat().st_mode)))


def test_an_announced_page_refuses_no_browser_before_its_server_has_started():
    with serve.listen(serve.Options(cluster="127.0.0.1:1", port=0)) as listener:
        socket.create_connection(listener.getsockname(), timeout=60).close()


def raw(browser, request):
    """Send these bytes; return the statuses of the answers, and whether the server closed the
    connection.
    """
    url = urlsplit(browser.base)
    with socket.create_connection((url.hostname, url.port), timeout=60) as connection:
        answer = b""
        with contextlib.suppress(ConnectionError):  # it does not read on what it has refused
            connection.sendall(request)
            while part := connection.recv(65536):
                answer += part
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", answer)]


HEAD = b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n"
LARGE_PART = b"8000\r\n" + b"a" * 0x8000 + b"\r\n"
SMUGGLED = b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "statuses"),
    [
        (HEAD + b"Connection: close\r\n\r\n", [200]),
        (HEAD + b"Connection: close\r\n\r\n" + b"\n", [200]),
        (b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n"
         b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED, [400]),
        (HEAD + b"X: a\n\r\n", [400]),
        (b"GET /login HTTP/1.1\nHost: 127.0.0.1\n\n", [400]),
        (HEAD.replace(b"\r\n", b"\n") + SMUGGLED, [400]),
        (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", [400]),
        (HEAD + b"Transfer-Encoding: cow\r\n\r\n", [400, 501]),
        (HEAD + b"Host : 127.0.0.1\r\n\r\n", [400]),
        (HEAD + b"Host: evil.example\r\nConnection: close\r\n\r\n", [400]),
        (HEAD + b"X: " + b"a" * 100_000 + b"\r\n\r\n", [400, 431]),
        (b"GET /login HTTP/1.1\r\nHost: evil.example\r\n\r\n", [421]),
        (b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: none\r\n"
         b"Content-Length: 99999999\r\n\r\n", [413]),
        (b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: none\r\n"
         b"Transfer-Encoding: chunked\r\n\r\n" + LARGE_PART * 4, [413]),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", [421]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", [400]),
    ],
)  # fmt: skip
def test_odd_requests_are_answered_once_and_never_with_what_was_smuggled(
    browser, request_bytes, statuses
):
    found = raw(browser, request_bytes)
    assert len(found) <= 1
    assert set(found) <= set(statuses)
    assert found or 200 not in statuses


def test_a_head_of_a_request_that_never_ends_is_not_waited_for(browser):
    url = urlsplit(browser.base)
    with socket.create_connection((url.hostname, url.port), timeout=60) as connection:
        connection.sendall(HEAD)
        assert connection.recv(100) == b"", "the server gave up"
    assert wire.HEAD_S < 60


def test_a_program_has_a_page_of_its_own_runtime(machine):
    program = (
        "import phalanx, urllib.request\n"
        "with phalanx.init(address='local', num_cpus=1, include_dashboard=True) as context:\n"
        "    url = f'http://{context.dashboard_url}/login'\n"
        "    print(urllib.request.urlopen(url).read().decode())\n"
    )
    ended = machine.python(program)
    assert "<h1>Sign in</h1>" in ended.stdout, ended.stderr
    assert "/login#code=" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host", "0.0.0.0"), "give --certificate and --key"),
        (("--certificate", "/none", "--key", "/none"), "There is no file"),
        (("--certificate", "/none"), "belong together"),
    ],
)
def test_what_others_could_read_is_not_served(machine, arguments, said):
    ended = machine.phalanx("dashboard", *arguments)
    assert (ended.returncode, said in ended.stderr) == (2, True)


def test_the_page_outlives_a_head_that_comes_back_and_ends_by_the_command():
    machine = Machine()
    try:
        machine.start_head()
        browser = sign_in(machine)
        (serving,) = [
            json.loads(path.read_text())
            for path in (Path(machine.home) / ".phalanx" / "dashboard").glob("server-*.json")
        ]
        stop_at = time.monotonic() + 90
        assert machine.done("dashboard", "--stop") == "1 ended.\n"
        while started_at(serving["pid"]) == serving["started"]:
            assert time.monotonic() < stop_at
        with pytest.raises(urllib.error.URLError):
            browser.get("/")
        assert machine.done("dashboard", "--stop") == "No page is served.\n"
    finally:
        machine.end()
