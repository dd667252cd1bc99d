"""The commands `phalanx login`, `logout` and `whoami`: clusters on other machines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from phalanx.cli.cluster_start import PORT
from phalanx.cli.common_options import HeadAddress, Json
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import NOT_ALLOWED, NOT_FOUND, USAGE, ask, daemons_of, fail
from phalanx.cli.table import echo, say
from phalanx.errors import AuthenticationError, PhalanxError
from phalanx.model.nearest import nearest
from phalanx.protocol.requests.rights import AskRight
from phalanx.runtime.daemons import logins
from phalanx.runtime.daemons.daemon_files import REMOTE
from phalanx.runtime.daemons.logins import Login
from phalanx.runtime.daemons.trust import Trust, read_fingerprint, shown

_ANSWER_S = 20.0


def login(
    where: Annotated[
        str,
        Argument(
            metavar="HOST[:PORT]",
            help=f"Address of the head (port {PORT} by default), or the name of a login, which "
            "becomes the current one.",
        ),
    ] = "",
    name: Annotated[
        str, Option("--name", help="Name of the login. Default: the host's name.")
    ] = "",
    token_file: Annotated[
        str,
        Option(
            "--token-file",
            help="File with the token. Default: the command asks for it, or reads it from "
            "standard input.",
        ),
    ] = "",
    fingerprint: Annotated[
        str,
        Option(
            help="Fingerprint that the head's certificate must have (SHA256:HEX). Default: the "
            "command shows the certificate's fingerprint and asks."
        ),
    ] = "",
    ca: Annotated[
        Path | None,
        Option(
            "--ca",
            help="PEM file with certificate authorities. One of them must have signed the head's "
            "certificate. Cannot be combined with --fingerprint.",
        ),
    ] = None,
) -> None:
    """Log in to a cluster on another machine, so that commands and programs here use that cluster.

    The address, the token and the certificate's fingerprint are kept in a file of
    mode 0600; `phalanx logout` removes them. Without an argument, the command
    lists the logins.

    Exit 4: the token or the certificate is refused.
    """
    known = _read()
    if not where:
        _show(known)
        return
    if (chosen := known.named(where)) is not None and not (name or token_file or fingerprint or ca):
        _save(logins.Logins(current=chosen.name, logins=known.logins))
        say(f"login {chosen.name} ({chosen.address}) is the current one")
        return
    if fingerprint and ca is not None:
        fail("--fingerprint and --ca cannot be combined: each says which certificate is right.", 2)
    address = _address(where)
    title = name or address.rpartition(":")[0].strip("[]")
    if ":" in title and not name:
        fail(f"Give the login a name: phalanx login {where} --name NAME", USAGE)
    if not title or set(title) & set(": /") or title in ("auto", "local"):
        fail(f"{title!r} cannot be the name of a login: leave out ':', '/' and spaces.", USAGE)
    before = known.named(title)
    trust = _trusted(address, before, fingerprint, ca)
    made = Login(
        name=title, address=address, token=_token(token_file), fingerprint=trust[0], ca=trust[1]
    )
    _log_in(known, made)


def logout(
    name: Annotated[str, Argument(help="Name of the login. Default: the current one.")] = "",
) -> None:
    """Forget a login and its token. The token stays valid until `phalanx token revoke`."""
    known = _read()
    wanted = name or known.current
    if not wanted:
        fail("There is no current login. `phalanx login` lists the logins.", NOT_FOUND)
    if known.named(wanted) is None:
        near = nearest(wanted, [one.name for one in known.logins]) or "."
        fail(f"There is no login {wanted!r}{near} `phalanx login` lists the logins.", NOT_FOUND)
    _save(known.without(wanted))
    say(f"logged out of {wanted}")


def whoami(address: HeadAddress = None, json: Json = False) -> None:
    """Show the cluster that commands on this machine use, and your user (or token) and role there.

    With a login, and on the head's machine, the fingerprint of the head's
    certificate is shown, too.
    """
    found = ask(address, AskRight("see"))
    daemons = [one for _, one in daemons_of(address)]
    used = daemons[0]
    fingerprint = next((one.fingerprint for one in daemons if one.fingerprint), "")
    if used.kind == REMOTE and used.name:
        known = _read().named(used.name)
        fingerprint = "" if known is None else known.fingerprint
    if json:
        import json as text

        data = {"principal": found.principal, "role": found.role, "address": used.address}
        data |= {"login": used.name if used.kind == REMOTE else "", "fingerprint": fingerprint}
        echo(text.dumps(data, indent=1))
        return
    via = f" (login {used.name})" if used.kind == REMOTE and used.name else ""
    say(f"{found.principal}, role {found.role}, at {used.address}{via}")
    if fingerprint:
        say(f"certificate of the head: {shown(fingerprint)}")


def _log_in(known: logins.Logins, made: Login) -> None:
    from phalanx.runtime.daemons.remote import ask_remote

    try:
        right = ask_remote(made.address, made.secret, AskRight("see"), _ANSWER_S, made.trust)
    except AuthenticationError as error:
        fail(str(error), NOT_ALLOWED)
    except (OSError, PhalanxError) as error:
        fail(str(error))
    _save(known.adding(made))
    say(f"logged in to {made.address} as {right.principal}, role {right.role}")
    say(f"The login {made.name} is the current one: commands here use it without --address.")


def _trusted(address: str, before: Login | None, wanted: str, ca: Path | None) -> Trust:
    """Return the certificate that the head must show. A certificate that was neither given nor used
    before is returned only after the user has confirmed it.
    """
    from phalanx.runtime.daemons.remote import fingerprint_at

    if ca is not None:
        trust = Trust(ca=str(ca.resolve()))
    elif wanted:
        try:
            trust = Trust(read_fingerprint(wanted))
        except ValueError as error:
            fail(f"--fingerprint: {error}", USAGE)
    elif before is not None and before.address == address:
        trust = before.trust
    else:
        trust = Trust()
    try:
        found = fingerprint_at(address, _ANSWER_S, trust)
    except AuthenticationError as error:
        fail(str(error), NOT_ALLOWED)
    except OSError as error:
        fail(str(error))
    if found and trust == Trust():
        _confirm(address, found)
        return Trust(found)
    return trust if found else Trust()


def _confirm(address: str, fingerprint: str) -> None:
    """End the command unless the user says that the fingerprint is the head's."""
    say(f"The head at {address} shows a certificate with the fingerprint {shown(fingerprint)}")
    say("`phalanx whoami` on the head's machine shows the right one.")
    try:
        with open("/dev/tty") as typed, open("/dev/tty", "w") as shown_at:
            shown_at.write("Is it the same? [y/N] ")
            shown_at.flush()
            answer = typed.readline()
    except OSError:
        fail("There is no terminal to ask at: give the fingerprint with --fingerprint.", USAGE)
    if answer.strip().lower() not in ("y", "yes"):
        fail("The certificate was not confirmed; nothing was sent.", NOT_ALLOWED)


def _token(file: str) -> str:
    """Return the token from a file, standard input or the terminal."""
    from phalanx.runtime.daemons.cluster_token import read_text
    from phalanx.runtime.daemons.personal_token import parse

    try:
        if file:
            text = read_text(file)
        elif sys.stdin is not None and sys.stdin.isatty():
            from getpass import getpass

            text = getpass("Token (phx_…): ")
        else:
            text = sys.stdin.readline() if sys.stdin is not None else ""
    except AuthenticationError as error:
        fail(str(error), NOT_ALLOWED)
    found = parse(text)
    if found is None:
        fail(
            "The given text is not a token. A token looks like phx_ID_SECRET; `phalanx token "
            "create` makes a token on the cluster.",
            USAGE,
        )
    return str(found)


def _address(where: str) -> str:
    """Return HOST:PORT. Ends the command for anything else."""
    host, colon, port = where.removeprefix("phalanx://").rpartition(":")
    if not colon or (host.count(":") and not host.endswith("]")):
        host, port = where.removeprefix("phalanx://"), str(PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        fail(f"{where!r} is not an address: give HOST or HOST:PORT.", USAGE)
    return f"{host}:{port}"


def _show(known: logins.Logins) -> None:
    from phalanx.cli.table import table

    if not known.logins:
        say("There are no logins (phalanx login HOST).")
        return
    cells = [
        [
            "*" if one.name == known.current else "",
            one.name,
            one.address,
            one.ca or (shown(one.fingerprint) if one.fingerprint else "none: on this machine"),
        ]
        for one in known.logins
    ]
    echo(table(("", "NAME", "ADDRESS", "CERTIFICATE"), cells, ranks={"CERTIFICATE": 1}))


def _read() -> logins.Logins:
    try:
        return logins.read()
    except AuthenticationError as error:
        fail(str(error), NOT_ALLOWED)


def _save(known: logins.Logins) -> None:
    try:
        logins.save(known)
    except OSError as error:
        fail(f"{logins.path()} cannot be written: {error.strerror}")
