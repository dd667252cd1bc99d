"""The file that describes a cluster for `phalanx up`: its machines, and how they are reached."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from phalanx.cli.cluster_start import PORT
from phalanx.cli.configuration.keys import TABLES, keys
from phalanx.cli.configuration.lines import SyntaxFault, key_lines, read_toml
from phalanx.cli.configuration.sources import Fault
from phalanx.cli.configuration.values import OF_HEAD
from phalanx.model.nearest import nearest

VENV = "~/.phalanx/venv"
"""The default place of the software on the machines."""
PARALLEL = 8
"""The default number of machines on which steps run at the same time."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_WORD = re.compile(r"[^\s-][^\s]*")
_WHEEL = re.compile(r"(?P<path>.*\.whl)(?P<extras>\[[A-Za-z0-9_,. -]*\])?")

_KINDS: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    list: "a list of texts",
    dict: "a table",
}
_TOP = {"head": str, "standby": str, "install": dict, "ssh": dict, "start": dict, "machines": dict}
_INSTALL = {"package": str, "venv": str, "python": str, "pip": list}
_SSH = {"user": str, "port": int, "options": list, "parallel": int}
_MACHINE = {
    "host": str,
    "address": str,
    "node": bool,
    "user": str,
    "port": int,
    "options": list,
}
_GIVEN = frozenset({"head", "address", "no_node", "block", "host", "standby", "node_name"})
"""The options of `phalanx start` that follow from the rest of the file."""
_OF_ALL = tuple(name for name in TABLES["start"] if name not in _GIVEN)
_OF_NODE = tuple(name for name in _OF_ALL if name not in OF_HEAD and name != "port")


class Machine(NamedTuple):
    """One machine: how ssh reaches it, and what runs there."""

    name: str
    """The name of the machine's node."""
    host: str
    """The host for ssh: a name, an address, or a host of the user's ssh configuration."""
    address: str
    """The IP address at which the other machines reach this one."""
    user: str = ""
    port: int = 0
    """The port of ssh; 0 for ssh's own choice."""
    options: tuple[str, ...] = ()
    """Options of ssh, such as `ConnectTimeout=5`."""
    has_node: bool = True
    start: Mapping[str, Any] = {}
    """Options of `phalanx start` that are different on this machine."""


class Install(NamedTuple):
    """How machines get the software."""

    package: str = ""
    """A wheel or a requirement for pip; empty if machines have the software already."""
    venv: str = VENV
    python: str = "python3"
    pip: tuple[str, ...] = ()
    """Further options of `pip install`."""

    @property
    def wheel(self) -> str:
        """The path of the wheel on this machine; empty for a requirement."""
        found = _WHEEL.fullmatch(self.package)
        return found["path"] if found else ""

    @property
    def extras(self) -> str:
        """The extras of a wheel, such as `[cluster]`."""
        found = _WHEEL.fullmatch(self.package)
        return (found["extras"] or "") if found else ""


class Cluster(NamedTuple):
    """The description of a cluster."""

    head: str
    """The name of the head's machine."""
    machines: Mapping[str, Machine]
    standby: str = ""
    """The name of the standby's machine; empty for a cluster without a standby."""
    install: Install = Install()
    start: Mapping[str, Any] = {}
    """Options of `phalanx start` on all machines."""
    parallel: int = PARALLEL

    @property
    def heads(self) -> tuple[str, ...]:
        """The names of the machines with a head: the head's and the standby's."""
        return (self.head, self.standby) if self.standby else (self.head,)

    def head_address(self, name: str) -> str:
        """Return HOST:PORT of the head on the machine `name`."""
        return f"{self.machines[name].address}:{self.start.get('port', PORT)}"

    @property
    def addresses(self) -> tuple[str, ...]:
        """HOST:PORT of the head, and of the standby."""
        return tuple(map(self.head_address, self.heads))

    def options(self, name: str) -> str:
        """Return the options of `phalanx start` on a machine, as a configuration file."""
        values = {**self.start, **self.machines[name].start}
        values.pop("port", None)
        lines = [f"{key} = {_toml(value)}" for key, value in sorted(values.items())]
        return "\n".join(["[start]", *lines, ""])


class FileFaultsError(ValueError):
    """Raised for a file with faults."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


def read_cluster(text: str, name: str) -> Cluster:
    """Return the cluster that a file describes. `name`: the file's name, for faults. Raises
    FileFaultsError with all faults, each with its line.
    """
    try:
        found = read_toml(text)
    except SyntaxFault as fault:
        place = f"{name}, line {fault.line}"
        raise FileFaultsError([Fault(place, f"is no TOML: {fault}.")]) from None
    reader = _Reader(name, key_lines(text))
    cluster = reader.cluster(found)
    if reader.faults:
        raise FileFaultsError([fault for _, fault in sorted(reader.faults)])
    return cluster


class _Reader:
    """Reads the tables of one file, and notes the faults."""

    def __init__(self, name: str, lines: Mapping[tuple[str, ...], int]) -> None:
        self._name = name
        self._lines = lines
        self.faults: list[tuple[int, Fault]] = []
        """The faults with their lines."""

    def cluster(self, found: dict[str, Any]) -> Cluster:
        top = self._table((), found, _TOP)
        install = self._table(("install",), top.get("install", {}), _INSTALL)
        ssh = self._table(("ssh",), top.get("ssh", {}), _SSH)
        start = self._options(("start",), top.get("start", {}), _OF_ALL)
        declared = top.get("machines", {})
        machines = {
            one: self._machine(one, given, ssh)
            for one, given in declared.items()
            if self._is_named(one, given)
        }
        if ("machines" in top and not top["machines"]) or "machines" not in found:
            self._fault((), "there is no machine: a table [machines.NAME] describes each machine.")
        for word in ("package", "venv", "python"):
            if not install.get(word, "x").strip() or install.get(word, "").startswith("-"):
                self._fault(("install", word), f"install.{word} is empty or begins with -.")
        if not 1 <= ssh.get("parallel", PARALLEL) <= 256:
            self._fault(("ssh", "parallel"), "ssh.parallel is a number from 1 to 256.")
        head, standby = top.get("head", ""), top.get("standby", "")
        self._check_heads(head, standby, declared, start, "head" in found)
        for one in machines.values():
            if not one.has_node and one.name not in (head, standby):
                self._fault(
                    ("machines", one.name, "node"),
                    f"machines.{one.name} has neither a head nor a node: node = false is for the "
                    "machines of the head and of the standby.",
                )
        return Cluster(
            head=head,
            machines=machines,
            standby=standby,
            install=Install(**{**install, "pip": tuple(install.get("pip", ()))}),
            start=start,
            parallel=ssh.get("parallel", PARALLEL),
        )

    def _check_heads(
        self,
        head: str,
        standby: str,
        declared: Mapping[str, Any],
        start: Mapping[str, Any],
        has_head: bool,
    ) -> None:
        if not has_head:
            self._fault((), 'there is no head: head = "NAME" names the machine of the head.')
        for key, name in (("head", head), ("standby", standby)):
            if name and declared and name not in declared:
                near = nearest(name, declared) or "."
                self._fault((key,), f"{key}: there is no machine {name!r}{near}")
        if standby and standby == head:
            self._fault(("standby",), "the standby's machine is not the head's machine.")
        elif standby and not _is_reached_by_both(start.get("store", [])):
            self._fault(
                ("standby",),
                "the standby needs a store that both machines reach, such as store = "
                '"redis://10.0.0.9:6379/0" in [start].',
            )

    def _is_named(self, name: str, given: Any) -> bool:
        path = ("machines", name)
        if not _NAME.fullmatch(name):
            self._fault(
                path,
                f"{name!r} is no name of a machine: use 1 to 63 letters, digits, '-', '_' and '.', "
                "beginning and ending with a letter or digit.",
            )
        elif not isinstance(given, dict):
            self._fault(path, f"machines.{name} takes a table, not {_shown(given)}.")
        else:
            return True
        return False

    def _machine(self, name: str, given: dict[str, Any], ssh: dict[str, Any]) -> Machine:
        path = ("machines", name)
        own = self._table(path, {k: v for k, v in given.items() if k in _MACHINE}, _MACHINE)
        rest = {k: v for k, v in given.items() if k not in _MACHINE}
        start = self._options(path, rest, _OF_NODE, tuple(_MACHINE))
        host = own.get("host", "")
        if "host" not in given:
            self._fault(path, f"machines.{name} has no host: host names it for ssh.")
        for word in ("host", "user"):
            if own.get(word) is not None and not _WORD.fullmatch(own[word]):
                self._fault((*path, word), f"machines.{name}.{word}: {own[word]!r} is no {word}.")
        address = own.get("address", host)
        if host and not _is_address(address):
            key = "address" if "address" in own else "host"
            self._fault(
                (*path, key),
                f"machines.{name}: {address!r} is no IP address. address takes the IP address at "
                "which the other machines reach this one, such as 10.0.0.1.",
            )
        return Machine(
            name=name,
            host=host,
            address=address,
            user=own.get("user", ssh.get("user", "")),
            port=own.get("port", ssh.get("port", 0)),
            options=(*own.get("options", ()), *ssh.get("options", ())),
            has_node=own.get("node", True),
            start=start,
        )

    def _table(self, path: tuple[str, ...], given: Any, kinds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a table that have the right names and kinds."""
        found: dict[str, Any] = {}
        for key, value in given.items():
            kind = kinds.get(key)
            if kind is None:
                self._unknown(path, key, tuple(kinds))
            elif type(value) is not kind or (
                kind is list and not all(isinstance(one, str) for one in value)
            ):
                name = ".".join((*path, key))
                self._fault((*path, key), f"{name} takes {_KINDS[kind]}, not {_shown(value)}.")
            elif key == "port" and not 0 < value < 65536:
                self._fault((*path, key), f"{'.'.join((*path, key))}: {value} is no port.")
            else:
                found[key] = value
        return found

    def _options(
        self,
        path: tuple[str, ...],
        given: Any,
        names: tuple[str, ...],
        others: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """Return the valid options of `phalanx start` in a table."""
        found: dict[str, Any] = {}
        for name, value in given.items():
            if name not in names:
                self._unknown(path, name, (*others, *names))
                continue
            try:
                keys()[f"start.{name}"].read(value, "/")
            except (TypeError, ValueError) as error:
                text = str(error)
                end = "" if text.endswith((".", "?")) else "."
                self._fault((*path, name), f"{'.'.join((*path, name))}: {text}{end}")
                continue
            if name == "token_file" and not value.startswith(("/", "~")):
                self._fault((*path, name), f"token_file is a path from / or ~, not {value!r}.")
            found[name] = value
        return found

    def _unknown(self, path: tuple[str, ...], key: str, known: tuple[str, ...]) -> None:
        near = nearest(key, known) or "."
        of = f" in [{'.'.join(path)}]" if path else ""
        reason = f"there is no key {key!r}{of}{near}"
        if key in _GIVEN and key not in known:
            reason = f"{key} follows from the rest of the file, and is not given{of}."
        elif key in _OF_ALL and path[:1] == ("machines",):
            reason = f"{key} is for the head, and belongs to [start]."
        self._fault((*path, key), reason)

    def _fault(self, path: tuple[str, ...], text: str) -> None:
        while path and path not in self._lines:
            path = path[:-1]
        line = self._lines.get(path, 1)
        self.faults.append((line, Fault(f"{self._name}, line {line}", text)))


def _is_reached_by_both(store: Any) -> bool:
    """Whether two machines can both reach the store."""
    from phalanx.storage.lease import needs_beats

    stores = [store] if isinstance(store, str) else store
    return bool(stores) and all(needs_beats([one]) for one in stores)


def _is_address(text: str) -> bool:
    try:
        return not ipaddress.ip_address(text).is_unspecified
    except ValueError:
        return False


def _shown(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _toml(value: Any) -> str:
    """Return a value in TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_shown(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return _shown(value)
