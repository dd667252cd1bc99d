#!/usr/bin/python3 -IS
"""phalanx-launch: starts the work of other accounts for a node that is not root.

This is all of Phalanx that runs as root. It uses the standard library and no file of Phalanx, so a
copy of this file is the whole program (docs/explanation/security.md goes through it).

The node's account sends one message: a grant with the head's signature, and a socket. A child
becomes the account of the grant for good, and then executes the program that root has named in the
options; that program gets the socket, and nothing of root's. No other account is answered.

The program that runs ends with its node, unless the node sends a second socket, its *door*. Through
the door the node's next process may come.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import ctypes
import hashlib
import json
import os
import pwd
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from typing import Any, NamedTuple, NoReturn

LEAST_UID = 1000
MOST_UID = 2**32 - 2
MOST_BYTES = 1 << 16
MOST_RUNNING = 256
PATIENCE_S = 5.0
VALID_S = 180
"""The largest number of seconds for which a grant is valid: the head's 120, and 60 for the
difference between two clocks.
"""
KEPT_S = 600
"""Seconds for which the number of a grant is kept after the grant has expired."""
BEGUN, NO_ACCOUNT = b"begun", b"no account"
MOST_ORDER = 16
SOCKET = 3
DAEMONS = "phalanx-daemons"
"""The group of an account's fork server, below the control group of the account."""
CONTROLLERS = "+memory", "+pids", "+cpu", "+cpuset"
MOST_PROCESSES = 32_768
MOST_GROUPS = 10_000
GROUPS_FILE = "groups"
"""The file beside the socket that names the control group below which accounts have theirs."""
MOST_LINKS = 40
NOBODY = 65534
ASKED_S = 60.0
PROGRAM = "phalanx.runtime.worker.user_fork_server"
LIST_FILES = f"""
import site, sys, {PROGRAM}
loaded = list(sys.modules.values())
print(*sys.path, *site.getsitepackages(),
      *[place for m in loaded for place in m.__dict__.get("__path__", ())],
      *[m.__file__ for m in loaded if m.__dict__.get("__file__")],
      *[line.split(None, 5)[5].rstrip() for line in open("/proc/self/maps") if "/" in line],
      sep="\\0", end="")
"""
"""A program in Python that prints the places and files from which it loads its parts."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38


class RefusedError(Exception):
    """Raised if a request is not carried out. Its text is for root's log alone."""


class AccountError(RefusedError):
    """Raised if the machine has no account that matches the grant."""


class Grant(NamedTuple):
    """The fields of a grant, which the head has signed."""

    v: int
    user: str
    uid: int
    job: str
    attempt: int
    node: str
    devices: list[int]
    expires: int
    nonce: str


class Options(NamedTuple):
    """The options that root has chosen."""

    node_uid: int
    node: str
    key: bytes
    program: list[str]
    used: str
    groups: str
    """The directory of the control group below which each account gets one; "" for none."""


Point = tuple[int, int, int, int]
"""A point of the curve in extended coordinates."""

# ---- Ed25519 (RFC 8032), verification only: it handles nothing secret ----------------------------

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT_OF_MINUS_1 = pow(2, (P - 1) // 4, P)


def add(one: Point, other: Point) -> Point:
    """Add two points."""
    a = (one[1] - one[0]) * (other[1] - other[0]) % P
    b = (one[1] + one[0]) * (other[1] + other[0]) % P
    c, d = 2 * one[3] * other[3] * D % P, 2 * one[2] * other[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def sum_of(s: int, one: Point, h: int, other: Point) -> Point:
    """Return s times a point plus h times another."""
    found, both = (0, 1, 1, 0), add(one, other)
    for bit in reversed(range(256)):
        found = add(found, found)
        which = s >> bit & 1, h >> bit & 1
        if any(which):
            found = add(found, both if all(which) else one if which[0] else other)
    return found


def is_same(one: Point, other: Point) -> bool:
    """Whether two points are the same."""
    x, y = one[0] * other[2] - other[0] * one[2], one[1] * other[2] - other[1] * one[2]
    return not x % P and not y % P


def point_of(data: bytes) -> Point | None:
    """Return the point that 32 bytes represent; None if they represent no point."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT_OF_MINUS_1 % P
    if (x * x - square) % P or (not x and sign):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


BASE = point_of((4 * pow(5, P - 2, P) % P).to_bytes(32, "little")) or (0, 1, 1, 0)


def is_signed(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the holder of the private half of `key` has signed these bytes."""
    if len(key) != 32 or len(signature) != 64:
        return False
    a, r = point_of(key), point_of(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= ORDER:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
    minus_a = P - a[0], a[1], a[2], P - a[3]
    return is_same(sum_of(s, BASE, h, minus_a), r)


# ---- the grant -----------------------------------------------------------------------------------


def read_grant(data: bytes, options: Options, now: float) -> Grant:
    """Return a grant that is valid here and now. Nothing is parsed before the signature is
    checked.
    """
    signature, body = data[:64], data[64:]
    if not is_signed(options.key, body, signature):
        raise RefusedError("the signature is not the head's")
    fields = json.loads(body)
    if type(fields) is not dict or fields.keys() != set(Grant._fields):
        raise RefusedError("the fields are not those of a grant")
    grant = Grant(**fields)
    kinds = (int, str, int, str, int, str, list, int, str)
    if any(type(value) is not kind for value, kind in zip(grant, kinds, strict=True)):
        raise RefusedError("a field has another type than in a grant")
    if grant.v != 1 or len(grant.nonce) != 32 or set(grant.nonce) - set("0123456789abcdef"):
        raise RefusedError("the version or the number is not one of a grant")
    if grant.node != options.node:
        raise RefusedError("the grant is for another node")
    if not now < grant.expires <= now + VALID_S:
        raise RefusedError("the grant has expired, or is valid for too long")
    if not LEAST_UID <= grant.uid <= MOST_UID or grant.uid == options.node_uid:
        raise RefusedError("work may not run as this account")
    return grant


def use_up(grant: Grant, directory: str) -> None:
    """Record that the grant is used. A grant works only once, even if this program starts again."""
    if grant.expires <= floor_of(directory):
        raise RefusedError("the grant is older than the oldest remembered grant")
    path = os.path.join(directory, f"{grant.expires}-{grant.nonce}")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
    except FileExistsError:
        raise RefusedError("the grant was used before") from None


def floor_of(directory: str) -> int:
    """Return the latest expiry of the grants that were forgotten. Only a grant that expires later
    is valid, even if a clock is set back.
    """
    return max((int(name[6:]) for name in os.listdir(directory) if name[:6] == "floor-"), default=0)


def forget_old(directory: str, now: float) -> None:
    """Forget grants that expired long ago."""
    numbers = [name.partition("-")[0] for name in os.listdir(directory)]
    old = [int(one) for one in numbers if one.isdigit() and int(one) + KEPT_S < now]
    if not old:
        return
    os.close(os.open(os.path.join(directory, f"floor-{max(old)}"), os.O_CREAT | os.O_WRONLY, 0o600))
    for name in os.listdir(directory):
        begin, _, end = name.partition("-")
        number = int(end) if begin == "floor" else int(begin)
        if number < max(old) or (number == max(old) and begin != "floor"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, name))


def account_of(grant: Grant) -> tuple[pwd.struct_passwd, list[int]]:
    """Return the account of a grant as this machine knows it, with the account's groups."""
    try:
        account = pwd.getpwnam(grant.user)
    except (KeyError, ValueError):
        raise AccountError("there is no such account here") from None
    if account.pw_uid != grant.uid:
        raise AccountError("the account has another number here")
    return account, os.getgrouplist(account.pw_name, account.pw_gid)


# ---- one request ---------------------------------------------------------------------------------


def receive(connection: socket.socket) -> tuple[bytes, list[socket.socket]]:
    """Return the first message of a connection, and the one or two sockets that come with it."""
    room = socket.CMSG_SPACE(4 * 8)
    data, extra, flags, _ = connection.recvmsg(MOST_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    passed: array.array[int] = array.array("i")
    for level, kind, body in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            passed.frombytes(body[: len(body) // 4 * 4])
    cut = flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
    is_whole = not cut and len(passed) in (1, 2)
    if not is_whole or not all(stat.S_ISSOCK(os.fstat(fd).st_mode) for fd in passed):
        for fd in passed:
            os.close(fd)
        raise RefusedError("a message is one grant with one or two sockets")
    sockets = [socket.socket(fileno=fd) for fd in passed]
    for door in sockets[1:]:
        is_door = door.family == socket.AF_UNIX and door.type == socket.SOCK_SEQPACKET
        if not is_door or not door.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            for one in sockets:
                one.close()
            raise RefusedError("the second socket is no door")
        door.settimeout(0.0)
    return data, sockets


def handle(connection: socket.socket, options: Options) -> None:
    """Carry out the request of a connection. Returns when all processes that were started for it
    have ended.
    """
    connection.settimeout(PATIENCE_S)
    try:
        data, (passed, *doors) = receive(connection)
        now = time.time()
        grant = read_grant(data, options, now)
        use_up(grant, options.used)
        account, groups = account_of(grant)
    except AccountError as error:
        say(error)
        connection.send(NO_ACCOUNT)
        return
    except (RefusedError, OSError, ValueError, RecursionError) as error:
        say(error)
        return
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    guard = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            if options.groups:
                enter_group(options.groups, account.pw_uid, options.node_uid)
            become(account, groups, guard)
            execute(account, passed.fileno(), options.program)
        except OSError as error:
            say(f"{grant.user} gets no process: {error}")
        finally:
            os._exit(126)
    passed.close()
    say(f"started {pid} as {grant.user} for {grant.job!r}, attempt {grant.attempt}")
    watch(connection, doors, pid, options.node_uid)
    if options.groups:
        leave_group(options.groups, account.pw_uid)


def become(account: pwd.struct_passwd, groups: list[int], guard: int) -> None:
    """Become an account for good: first its groups, then gid, then uid. If any right of root is
    left, end this process.
    """
    uid, gid = account.pw_uid, account.pw_gid
    os.setsid()
    os.umask(0o077)
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    is_whole = os.getresuid() == (uid,) * 3 and os.getresgid() == (gid,) * 3
    if not is_whole or set(os.getgroups()) != set(groups):
        os._exit(126)
    ways_back: list[tuple[Any, ...]] = [(os.setuid, 0), (os.seteuid, 0), (os.setreuid, -1, 0)]
    ways_back += [(os.setgroups, [0])] if gid == 0 else [(os.setgroups, [0]), (os.setgid, 0)]
    for call, *arguments in ways_back:
        with contextlib.suppress(PermissionError):
            call(*arguments)
            os._exit(126)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    # changes of ids clear this setting, so it comes after them
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(126)


def execute(account: pwd.struct_passwd, passed: int, program: list[str]) -> NoReturn:
    """Execute the program with the passed socket, and with no other file that this process had
    open.
    """
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    kept = os.dup(passed)
    while kept <= SOCKET:  # this descriptor must be above the numbers that will be overwritten
        kept = os.dup(passed)
    for number in range(3):
        os.dup2(null, number)
    os.dup2(kept, SOCKET)
    os.set_inheritable(SOCKET, True)
    os.closerange(SOCKET + 1, os.sysconf("SC_OPEN_MAX"))
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    name = account.pw_name
    environment = {"USER": name, "LOGNAME": name, "HOME": account.pw_dir, "PATH": os.defpath}
    environment["SHELL"] = account.pw_shell or "/bin/sh"
    os.execve(program[0], program, environment)


def watch(node: socket.socket, doors: list[socket.socket], pid: int, node_uid: int) -> None:
    """Wait until the program has ended, or has to end. Then end everything that it has left."""
    ended = os.pidfd_open(pid)
    with contextlib.suppress(OSError):
        node.send(BEGUN)
    nodes = [node]
    if not follow(nodes, doors, ended, node_uid):
        select.select([ended], [], [], PATIENCE_S)  # it ends by itself when its node has ended
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(ended, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            for left in own_children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)
            time.sleep(0.01)


def follow(
    nodes: list[socket.socket], doors: list[socket.socket], ended: int, node_uid: int
) -> bool:
    """Wait until the program has ended, and return True, or until it must be ended, and return
    False.

    The program must be ended when the node sends anything. Without a door, it must also be ended
    when the node's connection ends. With a door, it then continues until the node's next process
    comes through the door. A process counts as the node if it belongs to the node's account; the
    last one that comes replaces the earlier ones.

    `nodes`: the node's connection, which stays open until everything has ended; empty while there
    is no node.
    """
    while True:
        watched: list[Any] = [ended, *doors, *nodes]
        ready, _, _ = select.select(watched, [], [])
        if ended in ready:
            return True
        for one in [one for one in nodes if one in ready]:
            if said(one) or not doors:
                return False
            one.close()
            nodes.remove(one)
        for door in doors:
            with contextlib.suppress(OSError):  # the one who came has already left
                came, _ = door.accept()
                is_node = peer_uid(came) == node_uid
                for left in [*nodes] if is_node else [came]:
                    left.close()
                nodes[:] = [came] if is_node else nodes


def said(node: socket.socket) -> bytes:
    """Return a message of the node; b"" at the end of the connection."""
    with contextlib.suppress(OSError):
        return node.recv(MOST_ORDER)
    return b""


def peer_uid(connection: socket.socket) -> int:
    """Return the account at the other end of a connection, as the kernel knows it."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", peer)[1])


def own_children() -> list[int]:
    """Return the children of this process. They include its descendants whose parents have
    ended.
    """
    found, me = [], os.getpid()
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
            found += [int(name)] if parent == me else []
    return found


def prctl(option: int, value: int) -> None:
    """Call prctl(2). Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def say(text: object) -> None:
    """Write a line to root's log. Characters that are not printable are replaced."""
    line = f"phalanx-launch: {text}"
    with contextlib.suppress(OSError):
        os.write(2, "".join(c if c.isprintable() else "?" for c in line).encode() + b"\n")


# ---- control groups (cgroups(7)) -----------------------------------------------------------------


def enter_group(groups: str, uid: int, node_uid: int) -> None:
    """Move this process into the control group of an account, which is made if it is missing.

    The account may divide its group, but cannot leave it or change its limits. The node's account
    sets the group's share of CPU time. Raises OSError.
    """
    group = f"{groups}/account-{uid}"
    for directory in (group, f"{group}/{DAEMONS}"):
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o755)
        os.chmod(directory, 0o755)
    for name in ("", "/cgroup.procs", "/cgroup.threads", "/cgroup.subtree_control"):
        os.chown(group + name, uid, -1, follow_symlinks=False)
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
        most = min(MOST_PROCESSES, int(file.read()) // 4)
    write(f"{group}/cgroup.max.descendants", str(MOST_GROUPS))
    with contextlib.suppress(FileNotFoundError):  # the kernel does not limit this kind here
        write(f"{group}/pids.max", str(most))
    for name in ("cpu.weight", "cpuset.cpus"):
        with contextlib.suppress(FileNotFoundError):
            os.chown(f"{group}/{name}", node_uid, -1, follow_symlinks=False)
    write(f"{group}/{DAEMONS}/cgroup.procs", "0")


def leave_group(groups: str, uid: int) -> None:
    """Remove the control group of an account, and those below it, if no process is in them."""
    group = f"{groups}/account-{uid}"
    with contextlib.suppress(OSError):
        for name in os.listdir(group):
            if os.path.isdir(f"{group}/{name}"):
                os.rmdir(f"{group}/{name}")
        os.rmdir(group)


def find_groups(given: str) -> str:
    """Return the directory of the control group below which accounts get theirs; "" if there is
    none. `given`: root's choice, or "" for the group of this process. Raises PermissionError if
    an account other than root can change the group.

    The kernel limits groups only below a group without processes. So the processes of the returned
    group are moved into a group below it.
    """
    groups = given or own_group()
    if not os.path.isdir(groups):
        say(f"no control group {groups or 'here'}: nothing holds accounts to their limits")
        return ""
    check_trusted(groups)
    if groups != top_group():
        with contextlib.suppress(FileExistsError):
            os.mkdir(f"{groups}/{DAEMONS}")
        with open(f"{groups}/cgroup.procs", encoding="ascii") as file:
            inside = file.read().split()
        for pid in inside:
            with contextlib.suppress(ProcessLookupError):
                write(f"{groups}/{DAEMONS}/cgroup.procs", pid)
    for one in CONTROLLERS:
        with contextlib.suppress(OSError):
            write(f"{groups}/cgroup.subtree_control", one)
    return groups


def top_group() -> str:
    """Return the directory in which control groups (cgroup v2) are mounted; "" if they are not."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.split() for line in file if " - cgroup2 " in line]
    return lines[0][4] if lines else ""


def own_group() -> str:
    """Return the directory of the control group of this process; "" if it has none."""
    with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        own = [line[4:].strip() for line in file if line.startswith("0::/")]
    top = top_group()
    if not own or not top:
        return ""
    found = f"{top}/{own[0]}".rstrip("/").removesuffix(f"/{DAEMONS}")
    return found if os.access(f"{found}/cgroup.procs", os.W_OK) else ""


def write(path: str, text: str) -> None:
    """Write to a file of the kernel. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


# ---- the daemon ----------------------------------------------------------------------------------


def check_part(path: str, found: os.stat_result) -> None:
    """Raise PermissionError for a part of a path that an account other than root can change.

    The mode of a link does not matter. If an access list gives rights to other accounts, the mode
    shows these as rights of the group.
    """
    if found.st_uid or (found.st_mode & 0o022 and not stat.S_ISLNK(found.st_mode)):
        how = "can be changed by other accounts"
        if found.st_uid:
            how = f"belongs to the account with the number {found.st_uid}"
        raise PermissionError(f"{path} {how}: it must be root's, and writable by root alone")


def check_trusted(path: str) -> None:
    """Raise PermissionError for a path with a part that an account other than root can change, and
    for a path with a link.
    """
    parts = os.path.abspath(path).split(os.sep)
    for count in range(1, len(parts) + 1):
        part = os.sep.join(parts[:count]) or os.sep
        found = os.lstat(part)
        if stat.S_ISLNK(found.st_mode):
            raise PermissionError(f"{part} must be root's, no link, and writable by root alone")
        check_part(part, found)


def trusted_end(path: str) -> str:
    """Return the file to which a path leads. Raises PermissionError if an account other than root
    can change a part of the path, or of the path of a link on the way.
    """
    if not path.startswith(os.sep):
        raise PermissionError(f"{path} must begin with {os.sep}")
    check_part(os.sep, os.lstat(os.sep))
    found, left, links = os.sep, path.split(os.sep)[::-1], 0
    while left:
        name = left.pop()
        if name in ("", "."):
            continue
        if name == "..":
            found = os.path.dirname(found)
            continue
        part = os.path.join(found, name)
        status = os.lstat(part)
        check_part(part, status)
        if not stat.S_ISLNK(status.st_mode):
            found = part
            continue
        links += 1
        if links > MOST_LINKS:
            raise PermissionError(f"{path} has too many links")
        target = os.readlink(part)
        found = os.sep if target.startswith(os.sep) else found
        left += target.split(os.sep)[::-1]
    return found


def check_files(path: str, seen: set[str]) -> None:
    """Raise PermissionError if an account other than root can change a file at or below a path, or
    a file to which a link there leads. A path without a file is allowed if only root can make one
    there.
    """
    left = [path]
    while left:
        try:
            directory = trusted_end(left.pop())
        except (FileNotFoundError, NotADirectoryError):
            continue
        if directory in seen or not os.path.isdir(directory):
            continue
        seen.add(directory)
        with os.scandir(directory) as entries:
            for entry in entries:
                check_part(entry.path, entry.stat(follow_symlinks=False))
                if entry.is_symlink() or entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)


def check_itself(seen: set[str]) -> None:
    """Check all files from which this program has loaded its parts, or may load more."""
    loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        mapped = [line.split(None, 5)[5].rstrip() for line in file if " /" in line]
    for path in (sys.executable, __file__, *sys.path, *filter(None, loaded), *mapped):
        check_files(os.path.abspath(path), seen)


def check_python(python: str, seen: set[str]) -> None:
    """Check the Python that starts the work of users, and all files that it loads.

    First come the files that a Python finds by fixed rules, because they decide where it looks for
    others. Then the Python itself is asked for the rest, under an account without rights.
    """
    starts = [os.path.dirname(python), os.path.dirname(trusted_end(python))]
    for directory in (starts[0], os.path.dirname(starts[0])):
        config = os.path.join(directory, "pyvenv.cfg")
        check_files(config, seen)
        with contextlib.suppress(FileNotFoundError), open(config, encoding="utf-8") as file:
            pairs = [line.partition("=") for line in file]
            homes = [value.strip() for name, _, value in pairs if name.strip().lower() == "home"]
            for home in homes:
                end = os.path.join(home, os.path.basename(python))
                check_files(end, seen)
                starts += [home, os.path.dirname(os.path.realpath(end))]
    for start in starts:
        check_files(os.path.join(start, "pybuilddir.txt"), seen)
        above = start
        while above != os.sep:
            above = os.path.dirname(above)
            for library in ("lib", "lib64"):
                with contextlib.suppress(FileNotFoundError):
                    place = trusted_end(os.path.join(above, library))
                    for name in os.listdir(place):
                        if name.startswith("python"):
                            check_files(os.path.join(place, name), seen)
    for path in files_of(python):
        check_files(path, seen)


def files_of(python: str) -> list[str]:
    """Return the files from which a Python loads the program that it starts. Raises OSError if the
    account nobody cannot run the Python: every account must be able to run it.
    """
    who: dict[str, Any] = (
        {"user": NOBODY, "group": NOBODY, "extra_groups": ()} if os.getuid() == 0 else {}
    )
    asked = subprocess.run(
        [python, "-I", "-c", LIST_FILES],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=ASKED_S,
        cwd=os.sep,
        env={},
        start_new_session=True,
        **who,
    )
    if asked.returncode or not asked.stdout:
        said = asked.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(
            f"not every account can run Phalanx with {python}: {said or 'it says nothing'}"
        )
    return [one for one in os.fsdecode(asked.stdout).split("\0") if one.startswith(os.sep)]


def read_key(path: str) -> bytes:
    """Return the head's public key: 64 hexadecimal digits in a file that only root can change."""
    check_trusted(path)
    with open(path, encoding="ascii") as file:
        key = bytes.fromhex(file.read(100).strip())
    if len(key) != 32 or point_of(key) is None:
        raise ValueError(f"{path} has no public key")
    return key


def own_directory(path: str, mode: int) -> None:
    """Make a directory that belongs to root. Raises PermissionError if another account can change
    it.
    """
    check_trusted(os.path.dirname(os.path.abspath(path)))
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
    check_trusted(path)
    os.chmod(path, mode)


def serve(door: socket.socket, options: Options) -> NoReturn:
    """Accept requests of the node's account. Each is handled in a process of its own."""
    running: set[int] = set()
    forgotten = 0.0
    while True:
        try:
            connection, _ = door.accept()
        except OSError:  # the peer has already left, or no descriptors are left
            time.sleep(0.05)
            continue
        while running and (ended := os.waitpid(-1, os.WNOHANG)[0]):
            running.discard(ended)
        if time.monotonic() - forgotten > KEPT_S:
            forgotten = time.monotonic()
            forget_old(options.used, time.time())
        with connection:
            if peer_uid(connection) != options.node_uid or len(running) >= MOST_RUNNING:
                continue  # strangers get no answer
            with contextlib.suppress(OSError):
                pid = os.fork()
                if pid == 0:
                    try:
                        door.close()
                        handle(connection, options)
                    finally:
                        os._exit(0)
                running.add(pid)


def main() -> NoReturn:
    """Read root's options, and serve."""
    parser = argparse.ArgumentParser(prog="phalanx-launch", description=__doc__)
    parser.add_argument("--user", required=True, help="account of the node, such as phalanx")
    parser.add_argument("--key", required=True, help="file with the head's public key")
    parser.add_argument(
        "--python", required=True, help="path of a Python in which phalanx is installed"
    )
    parser.add_argument("--node", default=socket.gethostname(), help="name of the node")
    parser.add_argument("--run", default="/run/phalanx-launch", help="directory of the socket")
    parser.add_argument(
        "--state", default="/var/lib/phalanx-launch", help="directory of used grants"
    )
    parser.add_argument(
        "--groups",
        default="",
        help="directory of the control group below which each account gets one, such as that of "
        "a unit with Delegate=yes; by default the group of this program",
    )
    given = parser.parse_args()
    if os.getuid():
        parser.error("only root can start work as other accounts")
    os.umask(0o077)
    try:
        node_uid = pwd.getpwnam(given.user).pw_uid
        key = read_key(given.key)
        seen: set[str] = set()
        check_itself(seen)
        check_python(given.python, seen)
        own_directory(given.run, 0o755)
        own_directory(given.state, 0o700)
        groups = find_groups(given.groups)
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        parser.error(str(error))
    program = [given.python, "-I", "-m", PROGRAM]
    options = Options(node_uid, given.node, key, program, given.state, groups)
    path = os.path.join(given.run, "socket")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.bind(path)
    os.chown(path, node_uid, -1)
    door.listen(64)
    with open(os.path.join(given.run, GROUPS_FILE), "w", encoding="utf-8") as file:
        file.write(groups)
    os.chmod(file.name, 0o644)
    say(f"serves {given.user} for the node {given.node}")
    serve(door, options)


if __name__ == "__main__":
    main()
