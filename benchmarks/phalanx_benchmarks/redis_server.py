"""A separate Redis server, in its own directory, for the benchmark and the tests."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from types import TracebackType

_START_S = 20.0


class RedisServer:
    """Debian's redis-server on a Unix socket, or a loopback port, with a random password.

    The server keeps its data in `directory`, and writes each change to disk before it answers, so
    that it may be killed and restarted. As a context manager, it kills the process at the end.
    """

    def __init__(
        self,
        directory: str,
        *,
        port: int | None = None,
        password: str | None = None,
        settings: str = "",
    ) -> None:
        """Does not start the server. `settings` are additional lines of the server's configuration
        file.
        """
        program = shutil.which("redis-server")
        if program is None:
            raise FileNotFoundError("redis-server is missing: on Debian, `make redis` installs it.")
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self.directory = directory
        self.port = port
        self.socket = os.path.join(directory, "redis.sock")
        self.password = password or secrets.token_hex(16)
        self.password_file = os.path.join(directory, "password")
        self._settings = os.path.join(directory, "redis.conf")
        self._command = (program, self._settings)
        self._process: subprocess.Popen[bytes] | None = None
        self._write_private(self.password_file, self.password + "\n")
        self._write_private(
            self._settings,
            f"port {port or 0}\nbind 127.0.0.1\nunixsocket {self.socket}\nunixsocketperm 700\n"
            f"dir {directory}\nrequirepass {self.password}\nmasterauth {self.password}\n"
            f"appendonly yes\nappendfsync always\nsave ''\nlogfile {directory}/log\n{settings}\n",
        )

    @property
    def url(self) -> str:
        """The address of the server's socket, which names the file with the password."""
        return f"unix://{self.socket}?password_file={self.password_file}"

    def is_running(self) -> bool:
        """Whether the server's process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server. Returns when it answers."""
        assert not self.is_running()
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        deadline_s = time.monotonic() + _START_S
        while b"PONG" not in self._try("PING"):
            if not self.is_running() or time.monotonic() > deadline_s:
                with open(os.path.join(self.directory, "log")) as log:
                    raise RuntimeError(f"redis-server does not start:\n{log.read()[-2000:]}")
            time.sleep(0.005)

    def kill(self) -> None:
        """Kill the server, as in a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask(self, *words: str) -> bytes:
        """Return the raw answer to a command, for settings such as REPLICAOF."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_START_S)
            connection.connect(self.socket)
            connection.sendall(_encoded("AUTH", self.password) + _encoded(*words))
            with connection.makefile("rb") as answers:
                answers.readline()
                first = answers.readline()
                length = int(first[1:]) + 2 if first.startswith(b"$") else 0
                return answers.read(length) if length > 0 else first

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def _try(self, *words: str) -> bytes:
        try:
            return self.ask(*words)
        except OSError:
            return b""

    def _write_private(self, path: str, text: str) -> None:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)


def _encoded(*words: str) -> bytes:
    parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
    return f"*{len(words)}\r\n{''.join(parts)}".encode()
