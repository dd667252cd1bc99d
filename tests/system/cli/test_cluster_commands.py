"""`phalanx start`, `stop`, `status`, `nodes`, `drain`, `set-resource` on real daemons."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import stat
import threading

import pytest
from tests.polling import eventually
from tests.ports import free_port
from typer.testing import CliRunner

from phalanx.cli.typer_app import app
from phalanx.protocol.handshake import HELLO_BYTES, NONCE_BYTES, Status, challenge
from phalanx.runtime.os.session import started_at

PATIENCE_S = 120


def test_from_the_start_to_the_end(machine):
    told = machine.done(
        *("start", "--head", "--port", "0", "--num-cpus", "1", "--object-store-memory", "80000000")
    )

    def shown_as_it_is():
        # a report of the new node may come between the two answers
        shown = json.loads(machine.done("status", "--json"))
        return shown if shown == machine.status() | {"version": shown["version"]} else None

    status = eventually(shown_as_it_is)
    address = status["address"]
    token = os.path.join(machine.home, ".phalanx", "token")
    for part in (f"phalanx start --address {address}", "phalanx.init()", token, "phalanx stop"):
        assert part in told
    assert stat.S_IMODE(os.stat(token).st_mode) == 0o600
    node = machine.join(address, "second", "--resources", '{"TPU": 2}')
    status = machine.status()
    assert status["resources"]["CPU"] == {"used": 0, "total": 2}
    assert status["resources"]["TPU"] == {"used": 0, "total": 2}
    assert [row["state"] for row in status["nodes"]] == ["ALIVE", "ALIVE"]
    shown = machine.done("status")
    assert "2 alive, 0 draining, 0 dead" in shown
    assert "CPU 0/2" in shown
    (line,) = [x for x in machine.done("nodes").splitlines() if x.startswith(node[:12])]
    assert "name=second" in line
    stopped = machine.done("stop")
    assert stopped.count("Ended the node") == 2
    assert stopped.index("Ended the head") > stopped.rindex("Ended the node")
    assert not machine.daemons()
    assert "No head and no node" in machine.done("stop")


def test_commands_do_what_they_should_although_nobody_reads_what_they_print(machine):
    small = ("--port", "0", "--num-cpus", "1", "--object-store-memory", "80000000")
    assert _silent(machine.without_reader("start", "--head", *small)) == 0
    assert sorted(one.kind for one in machine.daemons().values()) == ["head", "node"]
    for name in ("a", "b"):
        _silent(machine.without_reader("run", "--detach", "--name", name, "--", "sleep", "1000"))
    for command in (("jobs",), ("status", "--watch"), ("jobs", "--json", "--watch"), ("nodes",)):
        assert _silent(machine.without_reader(*command)) == 1
    assert _silent(machine.without_reader("cancel", "a", "b")) == 0
    assert {row["state"] for row in machine.jobs().values()} <= {"Terminating", "Terminated"}
    assert _silent(machine.without_reader("stop", "--forget", "--yes")) == 0
    assert not machine.daemons()
    kept = os.listdir(os.path.join(machine.home, ".phalanx", "store"))
    assert not [name for name in kept if name.endswith(".db")]


def _silent(ended):
    """Return the exit code of a command that must print no errors."""
    assert ended.stderr == ""
    return ended.returncode


@pytest.mark.parametrize("command", ["--help", "version"])
def test_a_command_ends_without_a_word_when_nobody_reads_on(machine, command):
    assert _silent(machine.without_reader(command)) == 1
    code = "from phalanx.cli import commands; commands.run = lambda _: print('x'); commands.main()"
    assert _silent(machine.without_reader(code=code)) == 1


def test_the_module_is_the_command(machine):
    code = "import runpy; runpy.run_module('phalanx', run_name='__main__', alter_sys=True)"
    for command in ("version", "--help", "nope"):
        as_command, as_module = machine.phalanx(command), machine.python(code, command)
        assert as_module.returncode == as_command.returncode
        assert as_module.stdout.count("\n") == as_command.stdout.count("\n")
        assert bool(as_module.stderr) == bool(as_command.stderr)


def test_what_listens_listens_on_this_machine_alone(running):
    for row in running.status()["nodes"]:
        assert row["host"] == "127.0.0.1"
    assert running.address.startswith("127.0.0.1:")


class Impostor:
    """Listens on a port of this machine and answers each hello with `answer`."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return
            with sock, contextlib.suppress(OSError):
                sock.recv(HELLO_BYTES)
                sock.sendall(self._answer)
                sock.recv(1)

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def impostor():
    made = []

    def make(answer: bytes) -> str:
        made.append(Impostor(answer))
        return made[-1].address

    yield make
    for one in made:
        one.close()


def test_a_wrong_token_and_no_token_are_refused(running, tmp_path):
    other = tmp_path / "token"
    other.write_text("phx_" + "A" * 43)
    other.chmod(0o600)
    join = ("start", "--address", running.address, "--num-cpus", "1")
    wrong = running.phalanx(*join, "--token-file", str(other))
    assert (wrong.returncode, wrong.stdout) == (4, "")
    assert "do not hold the same token" in wrong.stderr
    assert str(other) in wrong.stderr
    missing = running.phalanx(*join, PHALANX_TOKEN_FILE=str(tmp_path / "none"))
    assert missing.returncode == 4
    assert "There is no token at" in missing.stderr
    other.chmod(0o644)
    assert running.phalanx(*join, "--token-file", str(other)).returncode == 4
    assert len(running.status()["nodes"]) == 1


def test_who_is_no_head_of_this_version_is_not_joined(running, impostor):
    def join(address: str):
        ended = running.phalanx("start", "--address", address, "--num-cpus", "1")
        assert ended.stdout == ""
        assert "Traceback" not in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
        return ended.returncode, ended.stderr

    nobody = f"127.0.0.1:{free_port()}"
    code, text = join(nobody)
    assert code == 1
    assert f"nothing listens at {nobody}" in text
    newer = challenge(bytes(NONCE_BYTES), Status.WRONG_VERSION, version=999)
    code, text = join(impostor(newer))
    assert code == 1
    assert "999" in text
    address = impostor(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" + bytes(64))
    code, text = join(address)
    assert code == 1
    assert address in text
    node = running.nodes()["first"]
    code, text = join(f"{node['host']}:{node['port']}")
    assert code == 1
    assert "a node listens" in text
    code, text = join("no.such.host.invalid:6380")
    assert code == 1
    assert "no.such.host.invalid" in text


def test_a_second_head_and_a_port_that_is_taken_are_refused(running, machine):
    again = running.phalanx("start", "--head")
    assert again.returncode == 1
    assert f"A head runs here already, at {running.address}" in again.stderr
    port = running.address.rpartition(":")[2]
    taken = machine.phalanx("start", "--head", "--port", port)
    assert taken.returncode == 1
    assert f"annot listen on 127.0.0.1:{port}" in taken.stderr
    assert len(taken.stderr.splitlines()) == 1
    assert not machine.daemons()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["start"], "either --head"),
        (["start", "--head", "--address", "10.0.0.1:1"], "either --head"),
        (["start", "--address", "here"], "'here' is no address"),
        (["start", "--address", "10.0.0.1:6380"], "address with --host"),
        (["start", "--address", "127.0.0.1:1", "--store", "x"], "are only for --head"),
        (["start", "--head", "--host", "0.0.0.0"], "not 0.0.0.0"),
        (["start", "--head", "--host", "me"], "takes an IP address"),
        (["start", "--head", "--resources", "TPU=1"], "JSON object"),
        (["start", "--head", "--resources", '{"CPU": 1}'], "may not name CPU"),
        (["start", "--head", "--num-cpus", "-1"], "--num-cpus must"),
        (["start", "--head", "--object-store-memory", "5"], "--object-store-memory must"),
        (["start", "--head", "--labels", "zone"], "KEY=VALUE"),
        (["start", "--head", "--labels", "ray.io/node-id=x"], "KEY=VALUE"),
        (["start", "--head", "--limit", "patience=1"], "period_s"),
        (["start", "--head", "--limit", "misses=few"], "a number"),
        (["start", "--head", "--limit", "period_s=0"], "above 0"),
        (["start", "--head", "--limit", "period_s=0.2"], "at least 1.5 s"),
        (["start", "--head", "--topology", "a ring"], "is no known machine; known: "),
        (["status", "--address", "6380"], "no address"),
        (["set-resource", "ab", "CPU"], "NAME=AMOUNT"),
    ],
)
def test_wrong_usage_is_said_at_once(arguments, said):
    ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == 2, ended.output
    assert said in ended.stderr
    assert ended.stdout == ""


def test_where_nothing_runs_there_is_nothing_to_show(machine, running):
    for command in (["status"], ["nodes"], ["drain", "ab"], ["status", "--json"]):
        ended = machine.phalanx(*command)
        assert ended.returncode == 1
        assert "phalanx start --head" in ended.stderr
    elsewhere = running.phalanx("status", "--address", "127.0.0.1:1")
    assert elsewhere.returncode == 1
    assert "of the cluster at 127.0.0.1:1 runs on this machine" in elsewhere.stderr


def test_nodes_that_are_not_there_cannot_be_drained_or_changed(running):
    for command in (["drain", "nope"], ["set-resource", "nope", "CPU=1"], ["get", "nodes", "nope"]):
        ended = running.phalanx(*command)
        assert ended.returncode == 3
        assert "No living node has the name 'nope'" in ended.stderr
    node = running.nodes()["first"]["node_id"]
    name = running.nodes()["first"]["hostname"]
    assert node in running.done("get", "nodes", name)
    wrong = running.phalanx("set-resource", node, "CPU=-1")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "CPU: an amount is a number of at least 0, not -1\n",
    )
    assert running.nodes()["first"]["total"]["CPU"] == 1


def test_a_draining_node_is_shown_with_its_reason(machine):
    address = machine.start_head()
    node = machine.join(address, "second")
    assert "drains" in machine.done("drain", node[:10], "--reason", "new \x1b[31mdisks")
    assert "drains already" in machine.done("drain", node)
    row = machine.nodes()["second"]
    assert row["state"] == "DRAINING"
    assert row["reason"].startswith("new \x1b[31mdisks (asked by ")
    shown = machine.done("nodes")
    assert "new \\x1b[31mdisks" in shown
    assert "\x1b" not in shown
    os.kill(machine.daemons()[node].pid, signal.SIGTERM)
    eventually(lambda: machine.nodes()["second"]["state"] == "DEAD")
    gone = machine.phalanx("drain", node)
    assert gone.returncode == 3


def test_totals_are_set_while_a_cluster_runs(machine):
    machine.start_head()
    node = machine.nodes()["first"]["node_id"]
    machine.done("set-resource", node[:6], "FPGA=2", "CPU=0.5")
    eventually(lambda: machine.nodes()["first"]["total"].get("FPGA") == 2)
    assert machine.nodes()["first"]["total"]["CPU"] == 0.5
    machine.done("set-resource", node, "FPGA=0")
    eventually(lambda: "FPGA" not in machine.nodes()["first"]["total"])


@pytest.mark.parametrize(
    ("shown", "gpus", "said"),
    [
        ("3,5", "4", "cannot have 4 of GPU: CUDA_VISIBLE_DEVICES=3,5 shows it 2"),
        ("", "2", "CUDA_VISIBLE_DEVICES= shows it 0"),
        ("NoDevFiles", "1", "CUDA_VISIBLE_DEVICES=NoDevFiles shows it 0"),
        ("3,3", "2", "lists a device twice"),
    ],
)
def test_a_node_is_not_started_with_more_devices_than_are_visible(machine, shown, gpus, said):
    small = ("--port", "0", "--num-cpus", "1", "--object-store-memory", "80000000")
    refused = machine.phalanx(
        *("start", "--head", *small, "--num-gpus", gpus), CUDA_VISIBLE_DEVICES=shown
    )
    assert refused.returncode == 2, refused.stderr
    assert said in refused.stderr
    assert not machine.daemons()


def test_devices_that_are_not_visible_are_not_added_later(machine):
    small = ("--port", "0", "--num-cpus", "2", "--object-store-memory", "80000000")
    labels = ("--labels", "name=first", "--num-gpus", "1")
    machine.done("start", "--head", *small, *labels, CUDA_VISIBLE_DEVICES="3,5")
    node = machine.nodes()["first"]["node_id"]
    refused = machine.phalanx("set-resource", node, "GPU=3")
    assert refused.returncode != 0
    assert "shows it 2 devices, so it cannot have 3" in refused.stderr
    machine.done("set-resource", node, "GPU=2")
    eventually(lambda: machine.nodes()["first"]["total"].get("GPU") == 2)
    show = 'echo "[$CUDA_VISIBLE_DEVICES]"; test -e {0}/b && exec true; touch {0}/$1; '
    show += "until test -e {0}/a && test -e {0}/b; do sleep 0.05; done"
    for name in ("a", "b"):  # each holds its device until both have begun
        command = ("bash", "-c", show.format(machine.home), "x", name)
        machine.done("run", "--detach", "--gpus", "1", "--name", name, "--", *command)
    eventually(lambda: [row["state"] for row in machine.jobs().values()] == ["Completed"] * 2)
    seen = [machine.done("logs", name).strip() for name in ("a", "b")]
    assert sorted(seen) == ["[3]", "[5]"]


def test_a_node_that_is_killed_is_shown_as_dead(machine):
    address = machine.start_head("--limit", "reconnect_s=0.1")
    node = machine.join(address, "second")
    os.killpg(machine.daemons()[node].pid, signal.SIGKILL)
    eventually(lambda: machine.nodes()["second"]["state"] == "DEAD")
    assert "1 alive, 0 draining, 1 dead" in machine.done("status")
    (line,) = [x for x in machine.done("nodes", "--ids").splitlines() if x.startswith(node[:12])]
    assert "its connection ended, and it did not come back in time" in line


MAKE = """
import phalanx
phalanx.init(namespace="n")
@phalanx.remote(num_cpus=0)
class Keeper:
    def __init__(self): self.kept = []
    def keep(self, x):
        self.kept.append(x)
        return self.kept
keeper = Keeper.options(name="keeper", lifetime="detached", get_if_exists=True).remote()
print(phalanx.get(keeper.keep.remote(len(phalanx.get(keeper.keep.remote(0))))))
"""


NOBODY_ANSWERS = """
import os
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
from phalanx.cli import main
main()
"""


@pytest.mark.parametrize("how", [(), ("--force",)])
def test_nothing_that_a_job_has_started_outlives_its_node(machine, tmp_path, how):
    """In an earlier version, with --force, all processes that a job had started survived. The
    process that should have ended them was killed first.
    """
    machine.start_head()
    began = tmp_path / "began"
    os.mkfifo(began)
    program = "setsid sleep 1000 & echo $! $$ > $0; sleep 1000"
    machine.done("run", "--detach", "--", "bash", "-c", program, str(began))
    pids = [int(pid) for pid in began.read_text().split()]
    running = {pid: started_at(pid) for pid in pids}
    assert None not in running.values()
    machine.done("stop", *how)
    assert not [pid for pid, started in running.items() if started_at(pid) == started]


def test_a_head_that_was_killed_or_stopped_goes_on_until_it_is_to_forget(machine):
    address = machine.start_head()
    first = machine.python(MAKE, PHALANX_ADDRESS="auto")
    assert first.stdout.strip() == "[0, 1]", first.stderr
    os.killpg(machine.daemons()["head"].pid, signal.SIGKILL)
    alone = machine.phalanx("status")
    assert alone.returncode == 1
    assert f"The head at {address} cannot be reached" in alone.stderr
    head = machine.done("start", "--head", "--port", address.rpartition(":")[2])
    assert "It continues with" in head
    assert "already runs here" in head
    eventually(lambda: machine.nodes().get("first", {}).get("state") == "ALIVE")
    again = machine.python(MAKE, PHALANX_ADDRESS="auto")
    assert again.stdout.strip() == "[0, 1, 0, 3]", again.stderr
    machine.done("queue", "create", "kept", "--weight", "3")
    machine.done("run", "-d", "--hold", "--name", "held", "--", "true")
    stopped = machine.done("stop")
    (store,) = re.findall(
        r"Kept (\S+\.db) and the output of jobs: the next head continues", stopped
    )
    assert "1 job has not ended: held." in stopped
    small = ("--port", "0", "--num-cpus", "1", "--object-store-memory", "80000000")
    begun = machine.done("start", "--head", *small, "--labels", "name=first")
    assert "1 job has not ended: held. `phalanx jobs` shows more." in begun
    address = str(machine.status()["address"])
    assert '"weight": 3' in machine.done("queue", "list", "--json")
    # Without a word nothing is deleted.
    asked = machine.python(NOBODY_ANSWERS, "stop", "--forget")
    assert asked.returncode == 1
    assert f"Delete all queues, jobs, history and the audit log in {store}?" in asked.stdout
    assert asked.stderr.strip().endswith("`phalanx stop --forget --yes` asks no question.")
    assert "Traceback" not in asked.stderr
    assert machine.daemons()
    _check_damage(machine, address, store)
    assert f"Deleted {store}: the next head begins with nothing." in machine.done(
        "stop", "--forget", "--yes"
    )
    assert os.listdir(os.path.dirname(store)) == []
    machine.start_head()
    assert machine.status()["actors"] == {}
    assert len(machine.status()["nodes"]) == 1
    assert "kept" not in machine.done("queue", "list")


def _check_damage(machine, address, store):
    """Check that a head refuses a store that is missing or truncated, and names the remedy; no node
    ends.
    """
    (node,) = [key for key in machine.daemons() if key != "head"]
    again = ("start", "--head", "--port", address.rpartition(":")[2])
    os.killpg(machine.daemons()["head"].pid, signal.SIGKILL)
    directory, away = os.path.dirname(store), os.path.dirname(store) + ".away"
    os.rename(directory, away)
    refused = machine.phalanx(*again)
    assert refused.returncode == 1
    assert f"{store} is empty, and nodes that run here belong to the cluster" in refused.stderr
    assert "--accept-loss" in refused.stderr
    os.rmdir(directory)
    os.rename(away, directory)
    with open(store + "-wal", "rb") as log:
        kept = log.read()
    os.truncate(store + "-wal", len(kept) // 2)
    refused = machine.phalanx(*again)
    assert refused.returncode == 1
    assert f"{store} has lost its end" in refused.stderr
    assert list(machine.daemons()) == [node], "the node waits for its head"
    with open(store + "-wal", "wb") as mended:
        mended.write(kept)
    machine.done(*again)

    def is_back():
        rows = {row["node_id"]: row for row in machine.status()["nodes"]}
        return (rows[node]["state"], rows[node]["reason"]) == ("ALIVE", "")

    eventually(is_back)
    assert '"kept"' in machine.done("queue", "list", "--json")


def test_status_can_be_watched_and_outlives_the_head(machine):
    address = machine.start_head()
    code = "from phalanx.cli import main; main()"
    watching = machine.begin(code, "status", "--watch", "--json")
    try:
        lines = [watching.stdout.readline() for _ in range(2)]
        assert all('"phalanx-status/1"' in line for line in lines)
        os.killpg(machine.daemons()["head"].pid, signal.SIGKILL)
        assert watching.stderr.readline().startswith("The head")
        machine.done("start", "--head", "--port", address.rpartition(":")[2])
        while '"phalanx-status/1"' not in watching.stdout.readline():
            pass
        watching.send_signal(signal.SIGINT)
        assert watching.wait(PATIENCE_S) == 130
    finally:
        watching.kill()
        watching.communicate()
