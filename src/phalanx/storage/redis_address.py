"""Addresses of Redis stores, parsed from URLs into a form that never shows the password."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import stat
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from phalanx.storage.errors import StorageAddressError

SCHEMES = ("redis", "rediss", "unix")
FORMS = (
    "redis://[USER]:PASSWORD@HOST:PORT[,HOST:PORT...]/DATABASE, rediss://... with TLS, or "
    "unix://PATH, each with ?name=NAME, password_file=PATH, replicas=COUNT, timeout_s=SECONDS, "
    "ca=PATH (rediss), database=NUMBER (unix)"
)
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RedisAddress:
    """The address of one shard: its server, or several servers, one of which is the primary."""

    servers: tuple[tuple[str, int], ...] = ()
    path: str = ""
    """The path of a Unix socket that is used instead of `servers`."""
    is_encrypted: bool = False
    certificates: str | None = None
    """The file with the certificate authorities to trust instead of the system's."""
    database: int = 0
    user: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    name: str = "default"
    """The name that keeps the stores of several clusters apart in one database."""
    replicas: int = 0
    """The number of replicas that must have a batch before the batch counts as written."""
    timeout_s: float = 30.0
    """The seconds for which a call is tried before the store counts as unreachable."""

    @property
    def file_name(self) -> str:
        """The name for files of this store on the head's machine; no other store has the same
        name.
        """
        place = repr((self.path or sorted(self.servers), self.database))
        return f"redis-{self.name}-{hashlib.sha256(place.encode()).hexdigest()[:16]}"

    def __str__(self) -> str:
        if self.path:
            return f"unix://{self.path}"
        scheme = "rediss" if self.is_encrypted else "redis"
        hosts = ",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in self.servers)
        return f"{scheme}://{hosts}/{self.database}"


def parse_redis_url(url: str) -> RedisAddress:
    """Return the address in a URL of one of FORMS. Errors for other URLs hide the password."""
    # A password may contain an @ by mistake, so the host begins after the last @.
    scheme, _, rest = url.partition("://")
    credentials, at, place = rest.rpartition("@")
    shown = f"{scheme}://{'***@' if at else ''}{place}"
    if "/" in credentials or "?" in credentials:
        raise StorageAddressError(
            f"{shown}: the user or password holds a / or ?; write them as %2F and %3F."
        )
    try:
        return _read(scheme, credentials if at else None, place)
    except ValueError as error:
        raise StorageAddressError(f"{shown}: {error}. Use {FORMS}.") from None


def _read(scheme: str, credentials: str | None, place: str) -> RedisAddress:
    if scheme not in SCHEMES:
        raise ValueError(f"{scheme}:// is not one of {', '.join(SCHEMES)}")
    where, _, query = place.partition("?")
    if scheme == "unix":
        if not where.startswith("/"):
            raise ValueError("a Unix socket's path begins with a /")
        fields: dict[str, Any] = {"path": unquote(where)}
    else:
        hosts, _, database = where.partition("/")
        fields = {
            "servers": tuple(_server(host) for host in hosts.split(",")),
            "database": _number("the database", database or "0"),
            "is_encrypted": scheme == "rediss",
        }
    if credentials is not None:
        user, colon, password = credentials.partition(":")
        if not colon:
            raise ValueError("a password stands after a colon, as in :PASSWORD@HOST")
        fields["user"] = unquote(user) or None
        fields["password"] = unquote(password) or None
    fields.update(_options(scheme, query))
    return RedisAddress(**fields)


def _server(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("a host is missing")
    return unquote(parts.hostname), parts.port or 6379


def _options(scheme: str, query: str) -> dict[str, Any]:
    readers: dict[str, tuple[str, Callable[[str], Any]]] = {
        "name": ("name", _store_name),
        "password_file": ("password", _password_in),
        "replicas": ("replicas", partial(_number, "replicas")),
        "timeout_s": ("timeout_s", _seconds),
    }
    if scheme == "rediss":
        readers["ca"] = ("certificates", str)
    if scheme == "unix":
        readers["database"] = ("database", partial(_number, "database"))
    fields: dict[str, Any] = {}
    for option, text in parse_qsl(query, keep_blank_values=True):
        if option not in readers:
            raise ValueError(f"there is no option {option!r} here")
        field, read = readers[option]
        fields[field] = read(text)
    return fields


def _store_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"name is {text!r}, which may have letters, digits and _.- only")
    return text


def _number(what: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{what} is {text!r}, which must be a whole number from 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise ValueError(f"timeout_s is {text!r}, which must be above 0 and at most 3600")
    return seconds


def _password_in(path: str) -> str:
    """Return the password in a file that others cannot read."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
                raise ValueError(f"password_file {path} must be a file of mode 0600")
            return file.read().rstrip("\n")
    except OSError as error:
        raise ValueError(f"password_file {path} cannot be read ({error.strerror})") from None
