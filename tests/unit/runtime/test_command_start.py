"""Commands are started by a child process. They get the environment and descriptors that they need,
and failed starts are reported.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from tests.command_starting import new_start, start_command, subreaper
from tests.polling import eventually
from tests.present import present
from tests.system.chaos.footprint import is_running

from phalanx.runtime.os import child_calls
from phalanx.runtime.os.command_groups import Limits, NoGroups, find_command_groups


@pytest.fixture(params=["calls of C", "Python"])
def start(request, monkeypatch):
    """Yield a starter of each kind: by calls of the C library, and in Python. The one in Python is
    used if the C library lacks the functions for the other, or if a start by the other fails.
    """
    if request.param == "Python":
        lacks = SimpleNamespace(getcontext=None)
        monkeypatch.setattr(child_calls, "_c", lacks)
        start = new_start()
        monkeypatch.undo()
    else:
        start = new_start()
    with subreaper():
        yield start


@pytest.fixture
def run(tmp_path, start):
    """Return a function that runs a command and returns (exit code, log)."""

    def run_command(argv, variables=(), directory=str(tmp_path), entrance=-1, umask=0o022):
        log = tmp_path / "log"
        one = start_command(argv, dict(variables), directory, str(log), entrance, start, umask)
        return one.wait(), log.read_text()

    return run_command


def test_a_command_leads_a_session_in_its_directory_with_its_variables_and_no_input(run, tmp_path):
    session = "$(cut -d' ' -f6 /proc/self/stat)"
    words = f'read line; echo "$? $(pwd) $GIVEN"; test $$ = "{session}" && kill -INT $$'
    code, printed = run(["sh", "-c", words], {"GIVEN": "this"})
    assert (code, printed) == (-signal.SIGINT, f"1 {tmp_path} this\n")


@pytest.mark.parametrize("umask", [0o002, 0o027, 0o077])
def test_a_command_makes_files_by_the_mask_that_it_is_given(run, tmp_path, umask):
    assert run(["sh", "-c", "umask; touch made"], umask=umask) == (0, f"{umask:04o}\n")
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o666 & ~umask
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_a_command_is_looked_for_where_its_own_path_leads(run, tmp_path):
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "greet"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o700)
    path = f"{tmp_path / 'no such'}{os.pathsep}bin"
    assert run(["greet"], {"PATH": path}) == (0, "found\n")


def test_what_a_command_could_not_be_started_for_stands_in_its_log(run, tmp_path):
    (tmp_path / "text").write_text("no program")
    said = [run(["no-such"]), run(["./text"]), run(["true"], directory=str(tmp_path / "gone"))]
    lines = [
        "phalanx: there is no command no-such\n",
        "phalanx: ./text could not be started: Permission denied\n",
        f"phalanx: there is no directory {tmp_path / 'gone'} on this node\n",
    ]
    codes = [code for code, _ in said]
    assert (codes, said[-1][1]) == ([127, 126, 126], "".join(lines))


def test_the_missing_interpreter_of_a_script_is_named(run, tmp_path):
    (tmp_path / "bin").mkdir()
    programs = {"script": b"#! /no/such/python -u\n", "plain": b"echo a\n"}
    for name, content in programs.items():
        program = tmp_path / "bin" / name
        program.write_bytes(content)
        program.chmod(0o700)
    said = "phalanx: the interpreter /no/such/python of bin/script is not on this node\n"
    assert run(["bin/script"]) == (127, said)
    assert run(["script"], {"PATH": "/no/such:bin"}) == (127, said * 2)
    code, printed = run(["bin/plain"])
    assert (code, printed.removeprefix(said * 2)) == (
        126,
        "phalanx: bin/plain is no program, and its first line does not name an interpreter, as "
        "#!/bin/sh does\n",
    )


def test_a_directory_that_cannot_be_entered_does_not_blame_the_command(run, tmp_path):
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        code, printed = run(["true"], directory=str(directory))
        assert code == 126
        assert printed.endswith(
            f"phalanx: the directory {directory} cannot be entered: Not a directory\n"
        )


def test_what_c_would_cut_off_is_refused(run):
    for argv, variables in ((["echo", "a\0b"], {}), (["true"], {"A": "b\0c"})):
        with pytest.raises(OSError, match="null byte"):
            run(argv, variables)


def test_a_pipe_for_a_log_holds_nobody_up(run, tmp_path):
    os.mkfifo(tmp_path / "log")
    with pytest.raises(OSError):
        run(["true"])


def test_a_command_is_in_its_group_before_it_begins(run):
    groups = find_command_groups(os.getpid())
    if isinstance(groups, NoGroups):
        pytest.skip("no cgroup v2 is mounted here that this process may write to")
    process = os.urandom(8)
    group = present(groups.make(process, Limits()))
    entrance = group.entrance()
    try:
        _, printed = run(["cat", "/proc/self/cgroup"], entrance=entrance)
        assert process.hex() in printed
    finally:
        os.close(entrance)
        group.end()


def _is_inheritable(fd):
    try:
        return os.get_inheritable(fd)
    except OSError:  # it is not open
        return False


def test_nothing_of_who_starts_it_stays_open_in_a_command(run):
    program = (
        "import os; listed = os.listdir('/proc/self/fd');"
        "print(sorted(int(fd) for fd in listed if os.path.exists('/proc/self/fd/' + fd)))"
    )
    passed_on = {fd for fd in range(3, 256) if _is_inheritable(fd)}
    code, printed = run([sys.executable, "-c", program])
    assert (code, printed) == (0, f"{[0, 1, 2, *sorted(passed_on)]}\n")


def test_who_starts_commands_keeps_nothing_of_them_open(start, tmp_path):
    before = set(os.listdir("/proc/self/fd"))
    for argv, directory in ((["true"], tmp_path), (["no-such"], tmp_path), (["true"], "/no")):
        start_command(argv, {}, str(directory), str(tmp_path / "log"), start=start).wait()
    assert set(os.listdir("/proc/self/fd")) == before
    assert not start.opened


STARTS = """
import sys
from tests.command_starting import start_command
print(start_command(["sleep", "1000"], {}, sys.argv[1], sys.argv[1] + "/log").pid, flush=True)
sys.stdin.read()
"""


def test_a_command_ends_with_who_started_it_though_nobody_else_ends_it(tmp_path):
    """The node may be killed at the same moment as the fork server, so that neither ends the
    command.
    """
    server = subprocess.Popen(
        [sys.executable, "-c", STARTS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        pid = int(present(server.stdout).readline())
        assert is_running(pid)
        server.kill()
        eventually(lambda: not is_running(pid), "the command's end")
    finally:
        server.kill()
        server.wait()
        present(server.stdin).close()
        present(server.stdout).close()


KEEPS = """
import os
command, (heard, said) = os.getpid(), os.pipe()
if os.fork() == 0:
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            os.sched_yield()
        os.write(said, b"%d" % (os.getppid() == command))
    os._exit(0)
os.wait()
print(os.read(heard, 1).decode())
"""


def test_who_loses_its_parent_stays_below_the_command(run):
    assert run([sys.executable, "-c", KEEPS]) == (0, "1\n")


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE])
def test_a_child_that_cannot_become_a_program_for_want_of_something_has_not_begun(
    tmp_path, monkeypatch, number
):
    def lacks(*given):
        raise OSError(number, os.strerror(number))

    start = new_start()
    start._calls = None
    monkeypatch.setattr(os, "execvpe", lacks)
    with pytest.raises(OSError) as raised:
        start_command(["true"], {}, str(tmp_path), str(tmp_path / "log"), start=start)
    assert raised.value.errno == number
    assert start.opened == set()
