"""Jobs that run as their submitters: two accounts of one machine, made by the test as root."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import COMMAND
from tests.system.people.system_machine import (
    ACCOUNTS,
    NODE_USER,
    RUN,
    SystemMachine,
    kill_launch,
    processes_of,
    started,
)
from tests.wheels import build_wheel, pip_of

ANA, BO = ACCOUNTS["ana"], ACCOUNTS["bo"]


@pytest.fixture(scope="module")
def machine() -> Iterator[SystemMachine]:
    yield from started(SystemMachine)


def ran(machine: SystemMachine, account: str, name: str, script: str) -> str:
    """Run a job of an account; return its output."""
    machine.said(account, "run", "--name", name, "--", "sh", "-c", script)
    return machine.said(account, "logs", name)


def test_a_job_is_its_submitters_in_all_respects(machine: SystemMachine) -> None:
    script = "id -u; id -G; id -un; echo $HOME $USER; umask; stat -c %u . $PHALANX_NOTHING; "
    script += "grep -E 'NoNewPrivs|CapEff|Groups' /proc/self/status; echo told >> /dev/stderr"
    said = ran(machine, "ana", "whole", script)
    lines = said.split("\n")
    assert lines[:4] == [f"{ANA}", f"{ANA}", "ana", f"{machine.home('ana')} ana"], said
    assert "NoNewPrivs:\t1" in said and "CapEff:\t0000000000000000" in said
    assert f"Groups:\t{ANA}" in said and "told" in said
    assert machine.job("whole")["user"] == "ana"
    assert f"{BO}" in ran(machine, "bo", "other", "id -u")


def test_no_way_leads_back_to_root_or_to_the_node(machine: SystemMachine) -> None:
    tries = "import os, signal\n"
    tries += f"for uid in (0, {ACCOUNTS[NODE_USER]}, {BO}):\n"
    tries += " for call in (os.setuid, os.seteuid, os.setgid, lambda u: os.setgroups([u])):\n"
    tries += "  try: call(uid); print('back', uid)\n"
    tries += "  except PermissionError: pass\n"
    tries += "pid = os.getppid()\n"
    tries += "while pid > 1:\n"
    tries += " stat = open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()\n"
    tries += f" if os.stat(f'/proc/{{pid}}').st_uid != {ANA}:\n"
    tries += "  try: os.kill(pid, signal.SIGKILL); print('killed', pid)\n"
    tries += "  except PermissionError: print('held')\n"
    tries += " pid = int(stat[1])\n"
    said = ran(machine, "ana", "back", f"$PHALANX_PYTHON - <<'E'\n{tries}\nE")
    assert "held" in said and "back" not in said and "killed" not in said, said


def test_neither_account_reaches_the_work_of_the_other(machine: SystemMachine) -> None:
    script = "echo the-secret-of-ana; echo mine > $HOME/note; sleep 600"
    machine.said("ana", "run", "-d", "--name", "held", "--", "sh", "-c", script)
    eventually(lambda: "the-secret" in machine.said("ana", "logs", "held"))
    (pid,) = [pid for pid in processes_of(ANA) if command_of(pid).startswith("sleep")]
    log = os.readlink(f"/proc/{pid}/fd/1")
    server = next(pid for pid in processes_of(ANA) if "user_fork_server" in command_of(pid))
    session = os.path.join(machine.runtime(NODE_USER), "phalanx")
    tries = [
        f"cat {log}",
        f"ls {os.path.dirname(log)}",
        f"ls {os.path.dirname(os.path.dirname(log))}",
        f"cat {machine.home('ana')}/note",
        f"cat /proc/{pid}/environ",
        f"cat /proc/{pid}/fd/1",
        f"ls /proc/{pid}/cwd/",
        f"ls -l /proc/{pid}/fd",
        f"cat /proc/{pid}/maps",
        f"kill -9 {pid}",
        f"kill -STOP {server}",
        "ls /dev/shm/phalanx-*",
        f"ls {session}",
        f"cat {machine.home(NODE_USER)}/.phalanx/token",
        f"ls {RUN}-state",
        "ls /var/tmp/phalanx-jobs-*/",
    ]
    script = "; ".join(f"{{ {one}; }} >/dev/null 2>&1; echo $?" for one in tries)
    attach = f"import ctypes; print('attach', ctypes.CDLL(None).ptrace(16, {pid}, 0, 0))"
    door = f"import socket; socket.socket(1, 5).connect('{RUN}/socket')"
    script += f'; $PHALANX_PYTHON -c "{attach}"; $PHALANX_PYTHON -c "{door}" 2>&1 | tail -1'
    said = ran(machine, "bo", "nosy", script).split("\n")
    codes = dict(zip(tries, said, strict=False))
    assert all(code not in ("0", "") for code in codes.values()), codes
    assert said[len(tries)] == "attach -1" and "PermissionError" in said[len(tries) + 1]
    assert machine.job("held")["state"] == "Running"
    assert "may not" in machine.phalanx("bo", "cancel", "held").stderr
    machine.said("ana", "cancel", "held")
    eventually(lambda: machine.job("held")["state"] not in ("Running", "Terminating"))
    assert not [pid for pid in processes_of(ANA) if command_of(pid).startswith("sleep")]


def test_tasks_of_a_job_run_as_its_submitter(machine: SystemMachine) -> None:
    program = os.path.join(machine.directory, "tasks.py")
    with open(program, "w") as file:
        file.write(
            "import os, phalanx\n"
            "phalanx.init(num_cpus=2, object_store_memory=80_000_000)\n"
            "@phalanx.remote\n"
            "def uid(): return os.getuid()\n"
            "@phalanx.remote\n"
            "class Actor:\n"
            "    def uid(self): return os.getuid()\n"
            "value = phalanx.put(bytes(2_000_000))\n"
            "print('uids', set(phalanx.get([uid.remote() for _ in range(4)])),\n"
            "      phalanx.get(Actor.remote().uid.remote()), len(phalanx.get(value)), flush=True)\n"
            "shared = [one for one in os.listdir('/dev/shm') if f'-{os.getuid()}-' in one]\n"
            "print('closed', {oct(os.stat(f'/dev/shm/{one}').st_mode & 0o777) for one in shared})\n"
        )
    os.chmod(program, 0o644)
    for account in ("ana", "bo"):
        said = ran(machine, account, f"tasks-{account}", f"$PHALANX_PYTHON {program}")
        uid = ACCOUNTS[account]
        assert f"uids {{{uid}}} {uid} 2000000" in said and "closed {'0o700'}" in said, said


def test_arrays_gangs_and_scripts_find_their_files(machine: SystemMachine) -> None:
    manifest = os.path.join(machine.directory, "gang.yaml")
    script = "id -u; cat $VC_ONE_HOSTS_FILE /dev/null; touch here; ls"
    container = {"name": "main", "command": ["sh", "-c", script]}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "pair"},
        "spec": {
            "minAvailable": 2,
            "plugins": {"svc": []},
            "tasks": [{"name": "one", "replicas": 2, "template": template}],
        },
    }
    with open(manifest, "w") as file:
        json.dump(job, file)
    os.chmod(manifest, 0o644)
    machine.said("ana", "submit", manifest)
    eventually(lambda: machine.job("pair")["state"] == "Completed")
    assert machine.said("ana", "logs", "pair").count(str(ANA)) == 2
    machine.said("ana", "run", "--name", "row", "--array", "0-2", "--", "id", "-u")
    for index in range(3):
        assert machine.said("ana", "logs", f"row[{index}]") == f"{ANA}\n"
    script, home = os.path.join(machine.directory, "batch.sh"), machine.home("ana")
    with open(script, "w") as file:
        file.write(
            f"#!/bin/sh\n#SBATCH --output={home}/out --chdir={home}\nid -u\npwd\nsqueue -h -o %u\n"
        )
    os.chmod(script, 0o644)
    machine.said("ana", "sbatch", "--wait", script)
    assert machine.run("ana", "/bin/cat", f"{home}/out").stdout == f"{ANA}\n{home}\nana\n"
    assert os.stat(f"{home}/out").st_uid == ANA


def test_a_job_that_kills_all_of_its_account_touches_no_other(machine: SystemMachine) -> None:
    machine.said("bo", "run", "-d", "--name", "beside", "--", "sleep", "600")
    eventually(lambda: machine.job("beside")["state"] == "Running")
    machine.phalanx("ana", "run", "--name", "wild", "--", "sh", "-c", "kill -9 -1; kill -9 $PPID")
    assert machine.job("wild")["state"] == "Failed"
    assert machine.job("beside")["state"] == "Running"
    assert str(ANA) in ran(machine, "ana", "again", "id -u")
    machine.said("bo", "cancel", "beside")


def test_a_stopped_fork_server_keeps_no_job_alive(machine: SystemMachine) -> None:
    script = 'kill -STOP "$(grep PPid /proc/$PPID/status | cut -f2)"; sleep 600'
    words = ("--grace", "1s", "--name", "stopper", "--", "sh", "-c", script)
    machine.said("ana", "run", "-d", *words)
    eventually(lambda: "State:\tT" in "".join(map(status_of, processes_of(ANA))))
    machine.said("ana", "cancel", "stopper")
    eventually(lambda: not processes_of(ANA))
    assert str(ANA) in ran(machine, "ana", "after-stop", "id -u")


def test_work_of_accounts_that_no_work_runs_as_is_refused_with_the_reason(
    machine: SystemMachine,
) -> None:
    ended = machine.phalanx("robot", "run", "--name", "low", "--", "true")
    assert ended.returncode == 1 and "no job runs as robot" in ended.stderr
    assert not processes_of(ACCOUNTS["robot"])
    assert str(BO) in ran(machine, "bo", "still", "id -u"), "the node stays in service"


def test_a_fork_server_that_lies_is_ended_and_harms_nobody(machine: SystemMachine) -> None:
    """The account takes over its own fork server, and with it the fork server's connection to the
    node.
    """
    machine.said("bo", "run", "-d", "--name", "honest", "--", "sleep", "600")
    eventually(lambda: machine.job("honest")["state"] == "Running")
    lie = (
        "import ctypes, os, signal, socket\n"
        "from phalanx.protocol.fork_messages import Exited\n"
        "from phalanx.protocol.frames import encode_frame\n"
        "def is_server(pid):\n"
        "  try: return os.readlink(f'/proc/{pid}/fd/3').startswith('socket')\n"
        "  except OSError: return False\n"
        "pid = os.getppid()\n"
        "while not is_server(pid):\n"
        "  pid = int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])\n"
        "fd = ctypes.CDLL(None).syscall(438, os.pidfd_open(pid), 3, 0)\n"
        "print('took', fd >= 0, flush=True)\n"
        "sock = socket.socket(fileno=fd)\n"
        "sock.setblocking(True)\n"
        "sock.sendall(encode_frame([Exited(b'member' + bytes(10), 1, 0), Exited(b'x', 1, 0)]))\n"
        "signal.pause()\n"
    )
    program = os.path.join(machine.directory, "lie.py")
    with open(program, "w") as file:
        file.write(lie)
    os.chmod(program, 0o644)
    ended = machine.phalanx(
        "ana", "run", "--name", "liar", "--", "sh", "-c", f"$PHALANX_PYTHON {program}"
    )
    assert ended.returncode and machine.job("liar")["state"] == "Failed", ended.stdout
    assert "took True" in ended.stdout, ended.stdout + ended.stderr
    eventually(lambda: not any("lie.py" in command_of(pid) for pid in processes_of(ANA)))
    assert machine.job("honest")["state"] == "Running"
    machine.said("bo", "cancel", "honest")
    assert str(ANA) in ran(machine, "ana", "after-lies", "id -u")


def test_options_that_do_not_go_together_are_refused(machine: SystemMachine) -> None:
    alone = machine.phalanx(NODE_USER, "start", "--head", "--system")
    assert alone.returncode == 2 and "--system needs --shared" in alone.stderr
    of_root = machine.phalanx("root", "start", "--head", "--shared", "--system")
    assert of_root.returncode == 2 and "whose account is not root" in of_root.stderr


def test_roots_program_may_end_and_start_again(machine: SystemMachine) -> None:
    machine.said("bo", "run", "-d", "--name", "goes-on", "--", "sleep", "600")
    eventually(lambda: machine.job("goes-on")["state"] == "Running")
    machine.phalanx("ana", "run", "--name", "cold", "--", "sh", "-c", "kill -9 -1")
    assert machine.launch is not None
    kill_launch(machine.launch)
    machine.said("ana", "run", "-d", "--name", "waits", "--", "id", "-u")
    eventually(lambda: "phalanx-launch" in machine.said(NODE_USER, "nodes"), "the node's reason")
    assert machine.job("waits")["state"] == "Pending"
    machine.start_launch()
    eventually(lambda: machine.job("waits")["state"] == "Completed")
    assert machine.said("ana", "logs", "waits") == f"{ANA}\n"
    assert machine.job("goes-on")["state"] == "Running"
    machine.said("bo", "cancel", "goes-on")


def test_commands_in_a_job_ask_as_its_account(machine: SystemMachine) -> None:
    phalanx = "$PHALANX_PYTHON -m phalanx"
    script = f"{phalanx} run -d --name within-ana -- id -u; {phalanx} queue create no; echo $?"
    said = ran(machine, "ana", "asks", script)
    assert said.split()[-1] == "4", said
    eventually(lambda: machine.job("within-ana")["state"] == "Completed")
    assert machine.job("within-ana")["user"] == "ana"
    assert machine.said("ana", "logs", "within-ana") == f"{ANA}\n"


def test_a_gang_on_two_nodes_and_a_node_that_would_run_it_as_itself(
    machine: SystemMachine,
) -> None:
    address = machine.head_address()
    words = ("start", "--address", address, "--node-name", "m2", "--num-cpus", "4")
    small = ("--num-gpus", "0", "--object-store-memory", "80000000")
    refused = machine.phalanx(NODE_USER, *words, *small)
    assert refused.returncode == 1, refused.stdout
    assert "jobs of this cluster run as their submitters" in refused.stdout + refused.stderr
    first = machine.launch
    where = f"{RUN}-2"
    machine.start_launch(node="m2", run=where, state=f"{where}-state")
    second, machine.launch = machine.launch, first
    assert second is not None
    try:
        command = [sys.executable, "-c", COMMAND, *words, *small, "--system"]
        done = machine.run(NODE_USER, *command, PHALANX_LAUNCH=f"{where}/socket")
        assert done.returncode == 0, done.stdout + done.stderr
        gang = ("--name", "wide", "--gang", "2", "--cpus", "3", "--", "id", "-u")
        machine.said("bo", "run", *gang)
        assert machine.said("bo", "logs", "wide").count(str(BO)) == 2
        members = json.loads(machine.said("bo", "job", "wide", "--json"))["members"]
        assert len({one["node"] for one in members}) == 2, members
        machine.said(NODE_USER, "drain", "m2")
    finally:
        kill_launch(second)


def command_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().replace("\0", " ")
    except OSError:
        return ""


def status_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/status") as file:
            return file.read()
    except OSError:
        return ""


def test_each_account_prepares_its_own_environment_and_packages(machine: SystemMachine) -> None:
    wheels = os.path.join(machine.directory, "wheels")
    build_wheel(Path(wheels), "greeting", "hello")
    for open_to_all in (Path(wheels), *Path(wheels).iterdir()):
        open_to_all.chmod(0o755)
    environment = json.dumps(pip_of(Path(wheels), "greeting"))
    for account in ("ana", "bo"):
        uid, home = ACCOUNTS[account], Path(machine.home(account))
        project = home / "project"
        project.mkdir(mode=0o700)
        (project / "data").write_text(f"of {account}")
        for path in (project, project / "data"):
            os.chown(path, uid, uid)
        code = "import greeting; print(greeting.TEXT, open('data').read()); open('new', 'w')"
        given = ("--runtime-env-json", environment, "--working-dir", str(project))
        ended = machine.phalanx(
            account, "run", "--name", f"env-{account}", *given, "--", "python", "-c", code
        )
        assert (ended.returncode, ended.stdout) == (0, f"hello of {account}\n"), ended.stderr
        cache = home / ".cache" / "phalanx" / "environments"
        assert {os.stat(path).st_uid for path in (cache, *cache.rglob("ready"))} == {uid}
        assert os.stat(cache.parent).st_mode & 0o077 == 0
    node = Path(machine.home(NODE_USER))
    assert not (node / ".cache" / "phalanx" / "environments").exists()
