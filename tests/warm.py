"""Forks programs from one warm parent, instead of starting each with a new interpreter.

Half a second of the start of every daemon and every command goes into importing modules, and tests
start hundreds of them. The parent has imported the modules already. A program that it forks does
not differ in anything else from one that a new interpreter runs. `pytest --cold` starts everything
as a user does; `make test-slow` does the same.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from phalanx.runtime.os.accounts import current_umask

PRELOADED = (
    "phalanx.cli.typer_app",
    "phalanx.cli.job_list",
    "phalanx.runtime.gateway.process",
    "phalanx.runtime.head.process",
    "phalanx.runtime.node.process",
    "phalanx.runtime.worker.fork_server",
    "phalanx.head.gangs.gang_scheduler",
    "phalanx.storage.opening",
    "runpy",
)
STARTERS = ("phalanx.runtime.daemons.starting", "phalanx.runtime.driver.own_node")
"""The modules whose new processes are forked from the parent."""
_PARENT = "PHALANX_TESTS_WARM_PARENT"
"""The environment variable that holds the path of the parent's socket, for programs that run in a
test.
"""
_REQUEST_BYTES = 1 << 18


def _settings(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment's settings for the interpreter itself, without those that this process
    also has.
    """
    found = {name: value for name, value in env.items() if name.startswith("PYTHON")}
    if set(found.get("PYTHONPATH", "").split(os.pathsep)) <= {"", *sys.path}:
        found.pop("PYTHONPATH", None)
    return found


_SETTINGS = _settings(os.environ)
_STATUS = struct.Struct("i")


class WarmPopen(subprocess.Popen[Any]):
    """`subprocess.Popen` for `[sys.executable, "-m" or "-c", ...]`: the parent forks the process.

    Any other program is started without the parent, and so is one for which a setting of the
    interpreter is changed.
    """

    _parent: socket.socket | None = None

    @staticmethod
    def serves(arguments: list[str], env: Mapping[str, str]) -> bool:
        """Whether the parent can fork an interpreter with these arguments and this environment."""
        return arguments[:1] in (["-m"], ["-c"]) and _settings(env) == _SETTINGS

    def _execute_child(self, args: Any, *rest: Any) -> None:
        # The order of these arguments is the same from Python 3.9 on.
        names = (
            *("executable", "preexec_fn", "close_fds", "pass_fds", "cwd", "env", "startupinfo"),
            *("creationflags", "shell", "p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread"),
            *("errwrite", "restore_signals", "gid", "gids", "uid", "umask", "start_new_session"),
        )
        given = dict(zip(names, rest, strict=False))
        env = dict(os.environ if given["env"] is None else given["env"])
        if list(args[:1]) != [sys.executable] or not self.serves(list(args[1:]), env):
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        standard = {0: given["p2cread"], 1: given["c2pwrite"], 2: given["errwrite"]}
        fds = {number: fd if fd >= 0 else number for number, fd in standard.items()}
        fds |= {fd: fd for fd in given["pass_fds"]}
        path = _path_of_parent()
        request = {
            "arguments": list(args[1:]),
            "env": env | {_PARENT: path},
            "cwd": os.path.abspath(given["cwd"] or "."),
            "umask": given["umask"] if given["umask"] >= 0 else current_umask(),
            "is_leader": bool(given["start_new_session"]),
            "fds": list(fds),
        }
        parent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent.connect(path)
        socket.send_fds(parent, [json.dumps(request).encode()], list(fds.values()))
        (self.pid,) = _STATUS.unpack(parent.recv(_STATUS.size))
        self._parent = parent
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in names[9:15]))  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._parent is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc,no-any-return]
        if wait_flags & os.WNOHANG and not select.select([self._parent], [], [], 0)[0]:
            return 0, 0
        answer = self._parent.recv(_STATUS.size)
        self._parent.close()
        if not answer:  # the parent has ended, and with it all that it had started
            return self.pid, int(signal.SIGKILL)
        (status,) = _STATUS.unpack(answer)
        return self.pid, status

    def _internal_poll(self, *args: Any, **options: Any) -> int | None:
        if self._parent is None:
            return super()._internal_poll(*args, **options)  # type: ignore[misc,no-any-return]
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class Parent:
    """The parent's process. It ends with the object, or with the process that holds it."""

    def __init__(self) -> None:
        self.directory = tempfile.mkdtemp(prefix="phw-", dir="/tmp")
        self.path = os.path.join(self.directory, "s")
        alive, self._ours = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.warm import main; main()", self.path, str(alive)],
            stdout=subprocess.PIPE,
            pass_fds=(alive,),
            start_new_session=True,
            cwd=Path(__file__).parents[1],
        )
        os.close(alive)
        assert self._process.stdout is not None
        assert self._process.stdout.read(1) == b".", "the warm parent did not start"
        self._process.stdout.close()

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, although this process has not reaped it."""
        return self._process.poll() is not None

    def end(self) -> None:
        """End the parent. Processes that it has forked continue."""
        os.close(self._ours)
        self._process.wait()
        shutil.rmtree(self.directory)


_parents: list[Parent] = []


def _path_of_parent() -> str:
    """Return the path of the parent's socket. The first call starts the parent."""
    if path := os.environ.get(_PARENT):
        return path
    if not _parents:
        _parents.append(Parent())
    return _parents[0].path


def forget_ended_parent() -> bool:
    """Whether the parent has ended by itself. The next process then comes from a new one."""
    if not (_parents and _parents[0].has_ended):
        return False
    _parents.pop().end()
    return True


@contextlib.contextmanager
def warm_starts() -> Iterator[None]:
    """Let `STARTERS` fork their processes from a parent, which is started with the first of
    them.
    """
    _use(WarmPopen)
    try:
        yield
    finally:
        _use(subprocess.Popen)
        while _parents:
            _parents.pop().end()


@contextlib.contextmanager
def cold_starts() -> Iterator[None]:
    """Let everything be started by a new interpreter, for tests that look at the processes."""
    before = popen_in_use()
    _use(subprocess.Popen)
    try:
        yield
    finally:
        _use(before)


def popen_in_use() -> type[subprocess.Popen[Any]]:
    """Return the class with which this process starts daemons."""
    found: type[subprocess.Popen[Any]] = importlib.import_module(STARTERS[0]).subprocess.Popen
    return found


def _use(popen: type[subprocess.Popen[Any]]) -> None:
    names = {**vars(subprocess), "Popen": popen}
    for starter in STARTERS:
        module: Any = importlib.import_module(starter)
        module.subprocess = types.SimpleNamespace(**names)


# ---- in the parent -----------------------------------------------------------------------------


def main() -> None:
    """Run as the parent's program: fork what is requested until the pipe closes."""
    path, alive = sys.argv[1], int(sys.argv[2])
    for name in PRELOADED:
        importlib.import_module(name)
    _use(WarmPopen)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(path)
    listening.listen(64)
    gc.collect()
    gc.freeze()  # so that no child copies pages only to look at what the parent made
    os.write(1, b".")
    request = _serve(listening, alive)
    if request is not None:
        _become(request)


def _serve(listening: socket.socket, alive: int) -> dict[str, Any] | None:
    """Serve requests. Returns None at the end, and in a forked child the request that it is to
    run.
    """
    waiting: dict[int, tuple[int, socket.socket]] = {}
    poll = select.poll()
    for fd in (listening.fileno(), alive):
        poll.register(fd, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == alive:
                return None
            if fd != listening.fileno():
                pid, asker = waiting.pop(fd)
                poll.unregister(fd)
                os.close(fd)
                with asker, contextlib.suppress(OSError):
                    asker.send(_STATUS.pack(os.waitpid(pid, 0)[1]))
                continue
            asker, _ = listening.accept()
            data, fds, _, _ = socket.recv_fds(asker, _REQUEST_BYTES, 64)
            request: dict[str, Any] = json.loads(data)
            pid = os.fork()
            if pid == 0:
                for one in (listening, asker, *(asker for _, asker in waiting.values())):
                    one.detach()
                _arrange(fds, request["fds"])
                return request
            for received in fds:
                os.close(received)
            with contextlib.suppress(OSError):
                asker.send(_STATUS.pack(pid))
            ended = os.pidfd_open(pid)
            waiting[ended] = (pid, asker)
            poll.register(ended, select.POLLIN)


def _arrange(received: list[int], wanted: list[int]) -> None:
    """Move the received descriptors to the wanted numbers, and close all others."""
    high = max(*received, *wanted) + 1
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, high) for fd in received]
    last = -1
    for number, fd in sorted(zip(wanted, moved, strict=True)):
        if number > last + 1:  # an empty range would be taken for all
            os.closerange(last + 1, number)
        os.dup2(fd, number)
        last = number
    os.closerange(last + 1, max(moved) + 1024)


def _become(request: dict[str, Any]) -> NoReturn:
    """Run the program in this process, which was forked for it."""
    if request["is_leader"]:
        os.setsid()
    os.umask(request["umask"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 1
    try:
        _run(*request["arguments"])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    # The interpreter's work at its end, but for taking apart the modules: that takes 0.1 s.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


def _run(kind: str, text: str, *arguments: str) -> None:
    """Run the module (`-m`) or the code (`-c`) as the main program."""
    sys.path[0] = ""
    if kind == "-m":
        sys.argv = [text, *arguments]
        runpy.run_module(text, run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c", *arguments]
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        exec(compile(text, "<string>", "exec"), module.__dict__)
