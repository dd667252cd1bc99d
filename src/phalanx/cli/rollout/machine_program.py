"""The program that `phalanx up` runs on each machine, over ssh.

Its text and a request arrive on standard input, because arguments of a process can be read by all
users of a machine. The machine may have no Phalanx yet, so the program imports nothing but Python's
own modules. The program prints one line that begins with `ANSWER`, followed by JSON.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

ANSWER = "phalanx-up: "
_SHOWN_LINES = 12
_STOP_S = 60.0
_LOOK_EVERY_S = 0.1
_FACTS = """
import json
from phalanx import __version__
from phalanx.protocol.messages import PROTOCOL_VERSION
from phalanx.runtime.daemons.local import local_daemons
rows = [
    {"kind": one.kind, "name": one.name, "pid": one.pid, "started": one.started,
     "addresses": [one.address, *one.standbys]}
    for _, one in local_daemons()
]
print(json.dumps({"version": __version__, "protocol": PROTOCOL_VERSION, "daemons": rows}))
"""
"""The program that asks the installed Phalanx about itself and about the daemons here."""


class FailedError(Exception):
    """Raised with a reason, and with the last lines of the tool that failed."""


class Place:
    """The paths of the files of `phalanx up` on this machine."""

    def __init__(self, name: str, venv: str, token: str) -> None:
        """`name`: the machine's name in the file. It is a part of the paths, because several
        machines may share a home.
        """
        self.folder = os.path.expanduser("~/.phalanx/up")
        self.venv = os.path.abspath(os.path.expanduser(venv))
        self.versions = f"{self.venv}.d"
        self.options = os.path.join(self.folder, f"{name}.toml")
        self.record = os.path.join(self.folder, f"{name}.json")
        self.token = os.path.expanduser(token)

    @property
    def python(self) -> str:
        """The path of the Python of the linked software. It stays the same after an upgrade."""
        return os.path.join(self.venv, "bin", "python")

    def version(self, mark: str) -> str:
        return os.path.join(self.versions, mark)

    def linked(self) -> str:
        """Return the mark of the software to which the link at `venv` leads; "" if there is no
        link.
        """
        try:
            return os.path.basename(os.readlink(self.venv))
        except OSError:
            return ""

    def link(self, mark: str) -> None:
        """Make the link at `venv` lead to the software with this mark."""
        if not mark or self.linked() == mark:
            return
        if os.path.lexists(self.venv) and not os.path.islink(self.venv):
            raise FailedError(f"{self.venv} is not of `phalanx up`: name another venv in [install]")
        new = f"{self.venv}.new-{os.getpid()}"
        os.symlink(os.path.join(os.path.basename(self.versions), mark), new)
        os.rename(new, self.venv)

    def recorded(self) -> dict[str, Any]:
        try:
            with open(self.record) as file:
                return dict(json.load(file))
        except (OSError, ValueError):
            return {}

    def note(self, **changes: Any) -> None:
        private_file(self.record, json.dumps({**self.recorded(), **changes}))


def private_file(path: str, text: str) -> None:
    """Replace a file as a whole. Only this user may read the file."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    fd, draft = tempfile.mkstemp(dir=folder, prefix=".up-")  # its mode is 0600
    try:
        with os.fdopen(fd, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def run(words: list[str], what: str, **variables: str) -> str:
    """Run a command, and return its output. Raises FailedError with the last lines of its
    output.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env={**os.environ, **variables}, cwd=os.path.expanduser("~"), check=False,
            )  # fmt: skip
        except OSError as error:
            raise FailedError(f"{what}: {words[0]}: {error.strerror}") from None
        output.seek(0)
        text = output.read().rstrip()
    if done.returncode:
        raise FailedError("\n".join([what + " failed:", *text.splitlines()[-_SHOWN_LINES:]]))
    return text


def token_mark(path: str) -> str:
    """Return a mark of the token in the file at a path; "" for a file that cannot be read. Nobody
    can find out the token from the mark.
    """
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(b"phalanx up" + file.read()).hexdigest()[:16]
    except OSError:
        return ""


def facts_of(python: str) -> dict[str, Any] | None:
    """Return the facts about the Phalanx that is installed for this Python; None if none is
    installed.
    """
    if not os.path.exists(python):
        return None
    said = run([python, "-c", _FACTS], "the installed Phalanx")
    return dict(json.loads(said.splitlines()[-1]))


def daemons(place: Place) -> list[dict[str, Any]]:
    """Return the living daemons of this user, each with the record of its start."""
    facts = facts_of(place.python)
    noted = place.recorded().get("daemons", {})
    rows = facts["daemons"] if facts else []
    return [{**one, **noted.get(key_of(one), {})} for one in rows]


def key_of(daemon: dict[str, Any]) -> str:
    return f"{daemon['pid']}:{daemon['started']}"


def note_started(place: Place, package: str, options: str, kinds: Iterable[str]) -> None:
    """Record the software and options of the running daemons. Daemons of these `kinds` get
    `package` and `options`; all others keep their records. If `options` is empty, as after a
    restart, recorded options are kept.
    """
    found = {}
    for one in daemons(place):
        about = {"package": one.get("package", ""), "options": one.get("options", "")}
        if one["kind"] in kinds:
            about = {"package": package, "options": options or about["options"]}
        if any(about.values()):
            found[key_of(one)] = about
    place.note(daemons=found)


def look(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    installed = {}
    for path in glob.glob(os.path.join(glob.escape(place.versions), "*", "phalanx-up.json")):
        try:
            with open(path) as file:
                installed[os.path.basename(os.path.dirname(path))] = json.load(file)["protocol"]
        except (OSError, ValueError, KeyError):
            continue
    if not request["package"] and not os.path.exists(place.python):
        raise FailedError(
            f"there is no Phalanx at {place.venv}: package in [install] names what to install"
        )
    return {
        "package": place.linked(),
        "installed": installed,
        "token": token_mark(place.token),
        "own_token": place.recorded().get("token", ""),
        "daemons": daemons(place),
    }


def prepare(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    """Make the directory into which the wheel is copied."""
    folder = os.path.join(place.folder, request["mark"])
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return {}


def install(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    """Install software in a directory of its own, so that running processes keep the files of older
    software.
    """
    mark, target = request["mark"], place.version(request["mark"])
    uploads = os.path.join(place.folder, mark)
    os.makedirs(place.versions, mode=0o755, exist_ok=True)
    with open(os.path.join(place.versions, ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # machines may share the directory
        done = os.path.join(target, "phalanx-up.json")
        if not os.path.exists(done):
            shutil.rmtree(target, ignore_errors=True)
            run([request["python"], "-m", "venv", target], "python -m venv")
            python = os.path.join(target, "bin", "python")
            package = request["package"]
            if request["wheel"]:
                package = os.path.join(uploads, request["wheel"]) + request["extras"]
            pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            run([*pip, *request["pip"], package], "pip install")
            facts = facts_of(python) or {}
            about = {"version": facts["version"], "protocol": facts["protocol"]}
            private_file(done, json.dumps(about))
            tidy(place, mark)
    shutil.rmtree(uploads, ignore_errors=True)
    return {}


def tidy(place: Place, mark: str) -> None:
    """Delete all installed software except three kinds: the software `mark`, the linked software,
    and software that daemons on any machine with this home run.
    """
    keep = {mark, place.linked()}
    for path in glob.glob(os.path.join(glob.escape(place.folder), "*.json")):
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            keep |= {one["package"] for one in json.load(file).get("daemons", {}).values()}
    for path in glob.glob(os.path.join(glob.escape(place.versions), "*", "phalanx-up.json")):
        if os.path.basename(os.path.dirname(path)) not in keep:
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)


def read_token(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    try:
        with open(place.token) as file:
            return {"token": file.read()}
    except OSError as error:
        raise FailedError(f"the token cannot be read: {error}") from None


def write_token(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    private_file(place.token, request["token"])
    os.chmod(os.path.dirname(place.token), 0o700)
    place.note(token=token_mark(place.token))
    return {}


def start(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    """Start a daemon with the options of the file."""
    place.link(request["mark"])
    private_file(place.options, request["options"])
    words = [place.python, "-m", "phalanx", "start", *request["words"]]
    run(words, "phalanx start", PHALANX_CONFIG=place.options)
    note_started(place, request["mark"], request["options_mark"], request["kinds"])
    return {}


def restart_head(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    """End the head's process, and start it again with the software and options of the file."""
    for one in daemons(place):
        if one["kind"] in request["kinds"]:
            end(one)
    return start(place, request)


def end(daemon: dict[str, Any]) -> None:
    """End a process with SIGTERM, and wait for its end."""
    deadline = time.monotonic() + _STOP_S
    os.kill(daemon["pid"], signal.SIGTERM)
    while started_at(daemon["pid"]) == daemon["started"]:
        if time.monotonic() > deadline:
            raise FailedError(f"the {daemon['kind']} did not end within {_STOP_S:.0f} s")
        time.sleep(_LOOK_EVERY_S)


def started_at(pid: int) -> str | None:
    """Return the start time of a living process, as the kernel writes it; None for a dead
    process.
    """
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def restart_node(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    """Restart the processes of the nodes with the software of the file. Commands of jobs
    continue.
    """
    place.link(request["mark"])
    run([place.python, "-m", "phalanx", "restart"], "phalanx restart")
    note_started(place, request["mark"], "", ["node"])
    return {}


def stop(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    run([place.python, "-m", "phalanx", "stop"], "phalanx stop")
    place.note(daemons={})
    return {}


def nodes(place: Place, request: dict[str, Any]) -> dict[str, Any]:
    """Return the names of the nodes that the head knows, with their states."""
    words = [place.python, "-m", "phalanx", "nodes", "--json", "--address", request["address"]]
    rows = json.loads(run(words, "phalanx nodes"))
    return {"nodes": [[one["name"], one["state"]] for one in rows]}


def main(request: dict[str, Any]) -> None:
    place = Place(request["name"], request["venv"], request["token_file"])
    known: tuple[Callable[[Place, dict[str, Any]], dict[str, Any]], ...] = (
        look, prepare, install, read_token, write_token, start, restart_head, restart_node, stop,
        nodes,
    )  # fmt: skip
    try:
        answer = {one.__name__: one for one in known}[request["do"]](place, request)
    except (FailedError, OSError, ValueError) as error:
        answer = {"failure": str(error)}
    print(ANSWER + json.dumps(answer), flush=True)
