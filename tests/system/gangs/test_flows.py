"""Flows whose steps wait for ports of running members."""

from __future__ import annotations

import socket
import sys
from typing import Any

import pytest
from tests.polling import eventually

import phalanx
from phalanx.head.jobs.probing import Probing, Watch
from phalanx.model.jobs.spec import Probe
from phalanx.runtime.os.probing import ThreadProber

from .conftest import none_left
from .flow_manifests import flow, state_of, states, template

SERVER = """
import http.server, os, sys
room, port = sys.argv[1:]
hears = lambda word: os.path.exists(os.path.join(room, word))
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if hears("ready") and self.path == "/health" else 503)
        self.end_headers()
        open(os.path.join(room, "asked"), "w").close()
while not hears("listen"):
    pass
server = http.server.HTTPServer(("127.0.0.1", int(port)), Answers)
server.timeout = 0.05
while not hears("done"):
    server.handle_request()
"""


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.mark.parametrize(
    ("probe", "word"),
    [
        ({"tcpSocketList": [{"taskName": "main"}]}, "listen"),
        ({"httpGetList": [{"taskName": "main", "path": "/health"}]}, "ready"),
    ],
)
def test_a_step_begins_once_a_port_of_what_it_depends_on_answers(machine, room, port, probe, word):
    for asked in probe.values():
        asked[0]["port"] = port
    phalanx.submit_manifests(template("server", sys.executable, "-c", SERVER, room.path, port))
    phalanx.submit_manifests(template("client", "touch", room.path / "done"))
    depends = {"targets": ["server"], "probe": probe}
    phalanx.submit_manifests(flow({"name": "server"}, {"name": "client", "dependsOn": depends}))
    eventually(lambda: states().get("flow-server") == "Running")
    if word == "ready":
        room.say("listen")
        room.wait("asked")  # and it was told that the server is not ready
    assert "flow-client" not in states()
    room.say(word)
    eventually(lambda: state_of("flows") == "Succeed")
    assert states() == {"flow-server": "Completed", "flow-client": "Completed"}
    phalanx.JobHandle("flow").delete()
    eventually(lambda: none_left() and not phalanx.jobs())


def test_probes_that_nobody_waits_for_are_forgotten(port):
    watch = Watch("flow", "step", 0)
    wanted: list[list[str] | None] = [["127.0.0.1"], None]
    passed: list[Any] = []
    prober = ThreadProber()
    looks = Probing(prober, lambda watch, probe: wanted.pop(0), passed.append)
    looks.add(watch, Probe(kind="tcpSocket", port=port))
    looks.tick(0.0)
    eventually(lambda: prober.answers() is not None)  # nobody listens there
    looks.tick(1.0)
    looks.tick(2.0)
    assert (passed, wanted) == ([], [])
