"""Rules that judge whether a machine can run Phalanx. They return a finding for each thing that may
be wrong, with its remedy.

`phalanx.runtime.daemons.machine_facts` collects the facts. The rules read nothing else, so that a
test can pass any facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from phalanx.model.readable import size
from phalanx.observe.health import BAD, LOOK, WELL

LEAST_FILES = 4096
"""The limit of open files below which a node with many workers has too few, since each worker takes
about ten.
"""
LEAST_SHARED_BYTES = 256 << 20
"""Free shared memory below which the object store holds only small values."""
LEAST_FREE_BYTES = 1 << 30
"""Free bytes of a directory below which writing the output of jobs or the store soon fails."""
PRIVATE = 0o077
"""The permission bits that a private file or directory must not have."""


class PathFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a file or directory; `mode` is None if it does not exist."""

    path: str
    mode: int | None = None
    """The permission bits of the mode, without the bits for the kind of file."""
    is_ours: bool = True
    is_link: bool = False
    free_bytes: int | None = None
    """Free bytes of the file system; None if unknown."""
    is_in_memory: bool = False


class DaemonFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon of this user, as it announced itself."""

    kind: str
    """The kind of the daemon: head or node."""
    pid: int
    address: str
    is_alive: bool


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a machine as one user sees them."""

    python: tuple[int, int]
    missing: Mapping[str, Sequence[str]]
    """The missing packages of each extra, such as `phalanx[redis]`, by the extra's name."""
    runtime: PathFacts
    """The directory of sessions, with sockets and small files."""
    runtime_fault: str = ""
    """Why no directory of sessions can be used; "" if one can."""
    output: PathFacts
    """The directory for jobs' output and spilled objects."""
    store: PathFacts
    token: PathFacts
    shared_free_bytes: int
    open_files: tuple[int, int]
    """The soft and the hard limit of open files; -1 for no limit."""
    gpus: int
    gpu_fault: str = ""
    """Why NVIDIA's driver gave no list of GPUs; "" if the driver gave a list, or if no driver
    exists.
    """
    has_command_groups: bool
    """Whether the user may create control groups below the group of the user's processes."""
    container_tool: str = ""
    """The path of the program that runs images of jobs; "" without such a program."""
    hostname: str
    host_addresses: Sequence[str]
    """The addresses to which the host name resolves; empty if it does not resolve."""
    port_is_free: bool
    """Whether the head's usual port is free."""
    daemons: Sequence[DaemonFacts] = ()


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The finding about one thing that was checked."""

    what: str
    state: str
    """The state: `WELL`, `LOOK` or `BAD`."""
    said: str
    cure: str = ""
    """The remedy; "" if nothing is wrong."""
    is_security: bool = False


def check_machine(facts: MachineFacts) -> list[Check]:
    """Return all findings. The findings that matter most to a person who starts Phalanx come
    first.
    """
    return [
        _python(facts),
        *_extras(facts),
        _runtime(facts),
        _room("space for sessions", facts.runtime),
        _room("output of jobs", facts.output),
        _private("store", facts.store),
        _private("token", facts.token),
        _shared_memory(facts),
        _open_files(facts),
        _gpus(facts),
        _groups(facts),
        _containers(facts),
        _host(facts),
        _daemons(facts),
    ]


def _python(facts: MachineFacts) -> Check:
    version = ".".join(map(str, facts.python))
    if facts.python >= (3, 11):
        return Check(what="Python", state=WELL, said=version)
    return Check(what="Python", state=BAD, said=version, cure="Install Python 3.11 or newer.")


def _extras(facts: MachineFacts) -> Iterator[Check]:
    for extra, packages in facts.missing.items():
        if not packages:
            yield Check(what=f"extra {extra}", state=WELL, said="installed")
            continue
        yield Check(
            what=f"extra {extra}",
            state=LOOK,
            said=f"{', '.join(packages)} not installed",
            cure=f"Install 'phalanx[{extra}]' if this machine needs it.",
        )


def _runtime(facts: MachineFacts) -> Check:
    if facts.runtime_fault:
        return Check(
            what="session directory",
            state=BAD,
            said=facts.runtime_fault,
            cure="Remove or repair that directory, or set XDG_RUNTIME_DIR to a private one.",
            is_security=True,
        )
    return _private("session directory", facts.runtime)


def _private(what: str, path: PathFacts) -> Check:
    if path.mode is None:
        said = f"{path.path} does not exist yet"
        return Check(what=what, state=WELL, said=said, is_security=True)
    if path.is_link or not path.is_ours:
        why = "is a symbolic link" if path.is_link else "belongs to another user"
        return Check(
            what=what,
            state=BAD,
            said=f"{path.path} {why}",
            cure="Remove it; Phalanx makes a new one.",
            is_security=True,
        )
    if path.mode & PRIVATE:
        wanted = path.mode & ~PRIVATE
        return Check(
            what=what,
            state=BAD,
            said=f"{path.path} has mode {path.mode:04o}: others can read or change it",
            cure=f"chmod {wanted:04o} {path.path}",
            is_security=True,
        )
    said = f"{path.path}, mode {path.mode:04o}"
    return Check(what=what, state=WELL, said=said, is_security=True)


def _room(what: str, path: PathFacts) -> Check:
    if path.free_bytes is None:
        return Check(what=what, state=WELL, said=path.path)
    said = f"{path.path}, {size(path.free_bytes)} free"
    if path.free_bytes < LEAST_FREE_BYTES:
        cure = f"Free some space: below {size(LEAST_FREE_BYTES)} output of jobs is soon lost."
        return Check(what=what, state=LOOK, said=said, cure=cure)
    if path.is_in_memory and what == "output of jobs":
        cure = "Set TMPDIR to a directory on a disk: output of jobs takes memory here."
        return Check(what=what, state=LOOK, said=f"{said}, in memory", cure=cure)
    return Check(what=what, state=WELL, said=said)


def _shared_memory(facts: MachineFacts) -> Check:
    said = f"{size(facts.shared_free_bytes)} free in /dev/shm"
    if facts.shared_free_bytes >= LEAST_SHARED_BYTES:
        return Check(what="shared memory", state=WELL, said=said)
    cure = "Give /dev/shm more space; in a container, with --shm-size."
    return Check(what="shared memory", state=LOOK, said=said, cure=cure)


def _open_files(facts: MachineFacts) -> Check:
    soft, hard = facts.open_files
    said = f"{_limit(soft)}, at most {_limit(hard)}"
    if hard < 0 or hard >= LEAST_FILES:
        return Check(what="open files", state=WELL, said=said)
    cure = f"Raise the hard limit (ulimit -Hn) to {LEAST_FILES} or more."
    return Check(what="open files", state=LOOK, said=said, cure=cure)


def _limit(value: int) -> str:
    return "unlimited" if value < 0 else str(value)


def _gpus(facts: MachineFacts) -> Check:
    if facts.gpu_fault:
        cure = "See whether nvidia-smi works; after an update of the driver, restart the machine."
        return Check(what="GPUs", state=BAD, said=facts.gpu_fault, cure=cure)
    said = f"{facts.gpus} found" if facts.gpus else "none found: no driver of NVIDIA"
    return Check(what="GPUs", state=WELL, said=said)


def _groups(facts: MachineFacts) -> Check:
    if facts.has_command_groups:
        said = "each command gets one, which ends as a whole (`phalanx status` shows its limits)"
        return Check(what="control groups", state=WELL, said=said)
    return Check(
        what="control groups",
        state=LOOK,
        said="not writable: memory limits are watched twice a second instead of held",
        cure="Start Phalanx in a unit with Delegate=yes, or by systemd-run --user --scope.",
    )


def _containers(facts: MachineFacts) -> Check:
    said = f"by {facts.container_tool}" if facts.container_tool else "none: jobs have no images"
    return Check(what="containers", state=WELL, said=said)


def _host(facts: MachineFacts) -> Check:
    name = facts.hostname
    if not facts.host_addresses:
        cure = "Add the name to /etc/hosts, or give addresses to --host and --address."
        return Check(what="host name", state=LOOK, said=f"{name} does not resolve", cure=cure)
    shown = ", ".join(facts.host_addresses)
    if all(one.startswith("127.") or one == "::1" for one in facts.host_addresses):
        cure = "Give this machine's address to --host before other machines join."
        return Check(what="host name", state=LOOK, said=f"{name} is only {shown}", cure=cure)
    return Check(what="host name", state=WELL, said=f"{name} is {shown}")


def _daemons(facts: MachineFacts) -> Check:
    alive = [one for one in facts.daemons if one.is_alive]
    dead = [one for one in facts.daemons if not one.is_alive]
    if dead:
        named = ", ".join(f"{one.kind} {one.pid}" for one in dead)
        said = f"ended without a word: {named}"
        return Check(what="daemons", state=LOOK, said=said, cure="phalanx logs --head or --node")
    if alive:
        named = ", ".join(f"{one.kind} of {one.address}" for one in alive)
        return Check(what="daemons", state=WELL, said=f"run here: {named}")
    if not facts.port_is_free:
        said = "none run, and another program listens on the head's usual port, 6380"
        return Check(what="daemons", state=LOOK, said=said, cure="phalanx start --head --port N")
    return Check(what="daemons", state=WELL, said="none run here")
