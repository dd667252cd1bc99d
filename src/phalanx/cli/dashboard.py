"""The command `phalanx dashboard`: the web page of a cluster and its one-time login address."""

from __future__ import annotations

import shlex
import time
import webbrowser
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from phalanx.cli.common_options import HeadAddress
from phalanx.cli.configuration.sources import read_sources, settle
from phalanx.cli.options import Option
from phalanx.cli.reach import USAGE, fail
from phalanx.cli.table import report, say

if TYPE_CHECKING:
    from phalanx.runtime.os.serving import Serving

HOST = "127.0.0.1"
GONE_S = 10.0
"""Seconds without an answer of the head after which a recording ends."""


def dashboard(
    address: HeadAddress = None,
    host: Annotated[
        str | None,
        Option(
            help="IP address to listen on. An address that other machines can reach needs "
            "--certificate and --key. Default: 127.0.0.1.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        Option(
            min=0,
            max=65535,
            help="TCP port to listen on. Default: 8266 or, if it is taken, any free port.",
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        Option(
            help="Additional host name under which browsers may open the page; may be repeated."
        ),
    ] = None,
    certificate: Annotated[
        Path | None, Option(help="File with the certificate for TLS, in PEM.")
    ] = None,
    key: Annotated[
        Path | None, Option(help="File with the certificate's private key, in PEM.")
    ] = None,
    read_only: Annotated[
        bool, Option("--read-only", help="Serve a page on which nothing can be changed.")
    ] = False,
    block: Annotated[
        bool,
        Option("--block", help="Stay in the foreground, and end the server at SIGTERM or Ctrl-C."),
    ] = False,
    browser: Annotated[bool, Option("--browser", help="Open the page in a browser.")] = False,
    stop: Annotated[bool, Option("--stop", help="End the servers of this cluster's page.")] = False,
    record: Annotated[
        Path | None,
        Option(
            help="File in which to record the cluster's state, until Ctrl-C or the cluster's end."
        ),
    ] = None,
    from_: Annotated[
        Path | None,
        Option(
            "--from", help="File written by --record, to show on the page instead of the cluster."
        ),
    ] = None,
) -> None:
    """Serve the web page of a cluster, and print an address that logs you in.

    The address works once, and only for a minute. If a server of this page
    already runs, no second server starts, and a new address is printed. The
    server ends when its cluster ends, or when the file given with --from is
    removed. Options that are not given come from the configuration
    (`phalanx config show`).
    """
    given = locals()
    if record is not None and from_ is not None:
        fail(
            "--record and --from cannot be combined: one writes a file, the other shows it.", USAGE
        )
    try:
        from phalanx.dashboard import serve
    except ModuleNotFoundError as error:
        fail(
            f"The page needs {error.name}: pip install 'phalanx[dashboard]', or in a checkout "
            "pip install '.[dashboard]'."
        )
    from phalanx.dashboard.login import make_code
    from phalanx.errors import AuthenticationError, SystemFailureError
    from phalanx.runtime.os import serving

    if record is not None:
        _record(address, record)
        return
    try:
        found = {
            k: one.value for k, one in settle("dashboard", given, read_sources(environ)).items()
        }
    except ValueError as error:
        fail(str(error), USAGE)
    host, certificate, key = found.get("host", HOST), found.get("certificate"), found.get("key")
    address = found.get("address")
    cluster = _cluster(address) if from_ is None else _file(from_)
    running = [one for one in serving.servers(serve.place()) if one.cluster == cluster]
    if stop:
        for one in running:
            serving.stop(one)
        report(f"{len(running)} ended." if running else "No page is served.")
        return
    _check_tls(certificate, key, serve.is_loopback(host), host)
    if running:
        one = running[-1]
    else:
        options = serve.Options(
            cluster=cluster,
            host=host,
            port=found.get("port"),
            names=found.get("name", []),
            may_act=not found.get("read_only") and from_ is None,
            record="" if from_ is None else cluster,
            certificate="" if certificate is None else str(certificate.absolute()),
            key="" if key is None else str(key.absolute()),
        )
        try:
            one = serve.start(options)
        except SystemFailureError as error:
            fail(str(error))
    try:
        secret = serve.secret(int(one.url.rpartition(":")[2]))
    except AuthenticationError as error:
        fail(str(error))
    link = f"{one.url}/login#code={make_code(secret, time.monotonic())}"
    say(f"The page of {cluster} is at {one.url}. This logs you in, once, within a minute:\n{link}")
    if browser:
        webbrowser.open(link)
    if block:
        _stay(one)


def _stay(server: Serving) -> None:
    from phalanx.runtime.daemons.blocking import Watched, wait_for_end
    from phalanx.runtime.os import serving

    if wait_for_end([Watched(server.pid, lambda: serving.stop(server))]) is not None:
        fail("The server has ended, because its cluster ended or its file was removed.")


def _check_tls(certificate: Path | None, key: Path | None, is_loopback: bool, host: str) -> None:
    """End the command if the page cannot be served safely with these options."""
    if bool(certificate) != bool(key):
        fail("--certificate and --key belong together.", USAGE)
    for file in (certificate, key):
        if file is not None and not file.is_file():
            fail(f"There is no file {file}.", USAGE)
    if not is_loopback and certificate is None:
        fail(
            f"On {host} the page needs TLS: give --certificate and --key, or keep 127.0.0.1 and "
            "reach the page through ssh -L.",
            USAGE,
        )


def _file(path: Path) -> str:
    if not path.is_file():
        fail(f"There is no file {path}.", USAGE)
    return str(path.resolve())


def _record(address: str | None, path: Path) -> None:
    from phalanx.dashboard.recording import Recording
    from phalanx.runtime.daemons.finding import HeadHere

    cluster = _cluster(address)
    if path.exists() and not path.is_file():
        fail(f"{path} is not a file.", USAGE)
    recording = Recording(HeadHere(cluster).ask, cluster, str(path))
    say(f"Recording {cluster} into {path}, until Ctrl-C or the cluster's end.", err=True)
    try:
        recording.run(GONE_S)
    except OSError as error:
        fail(f"{path}: {error.strerror}" if error.strerror else str(error))
    shown = shlex.join(("phalanx", "dashboard", "--from", str(path)))
    say(f"{path} has {recording.jobs} jobs: `{shown}` shows them.")


def _cluster(address: str | None) -> str:
    from phalanx.runtime.daemons.finding import find_daemons

    try:
        found = find_daemons(address, with_programs=True)
    except ConnectionError as error:
        fail(str(error))
    except ValueError as error:
        fail(str(error), USAGE)
    return found[0][1].address
