"""The commands `phalanx can`, `audit`, `roles` and `set-role`."""

from __future__ import annotations

from typing import Annotated

from phalanx.cli.common_options import Address, Json, rows_json
from phalanx.cli.ending import Ended
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import NOT_ALLOWED, ask
from phalanx.cli.table import echo, say, table
from phalanx.cli.times import moment
from phalanx.model.principals import ROLES
from phalanx.protocol.requests.rights import AskRight, ListAudit, ListRoles, SetRole


def can(
    verb: Annotated[
        str,
        Argument(
            help="Action to check, such as submit, cancel, logs, priority or drain; `queue` means "
            "to change queues."
        ),
    ],
    thing: Annotated[
        str,
        Argument(
            metavar="OBJECT",
            help="Name of the job or queue that the action is for. Default: the cluster.",
        ),
    ] = "",
    address: Address = None,
    json: Json = False,
) -> None:
    """Show whether you may do something, and by which rule.

    Exit 4: you may not.
    """
    found = ask(address, AskRight(verb, thing))
    if json:
        echo(rows_json(found))
    else:
        may = "may" if found.is_allowed else "may not"
        say(
            f"{found.principal} (role {found.role}) {may} {found.verb} {found.object}: {found.rule}"
        )
    if not found.is_allowed:
        raise Ended(NOT_ALLOWED)


def audit(
    principal: Annotated[
        str,
        Argument(
            help="Show only requests of this user, token or job: alice, token:ci or "
            "job:default/train. Default: all."
        ),
    ] = "",
    last: Annotated[
        int,
        Option("--last", "-n", min=1, help="Number of records to show, counted from the newest."),
    ] = 100,
    denied: Annotated[bool, Option("--denied", help="Show only refused requests.")] = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """List changes and refused requests: time, user, origin and result."""
    rows = ask(address, ListAudit(last, principal, denied))
    if json:
        echo(rows_json(rows))
    elif rows:
        cells = [
            [
                moment(row.at),
                row.principal,
                row.user or "-",
                row.origin,
                row.verb,
                row.what,
                row.result + (f": {row.why}" if row.why else ""),
            ]
            for row in rows
        ]
        head = ("TIME", "PRINCIPAL", "USER", "FROM", "VERB", "WHAT", "RESULT")
        echo(table(head, cells, ranks={"FROM": 3, "USER": 2, "VERB": 1}))
    else:
        say("The audit log has no such record.")


def roles(address: Address = None, json: Json = False) -> None:
    """List the users who were given a role.

    Root and the account of the head are admins. All other users without a row
    have the role `user`.
    """
    rows = ask(address, ListRoles())
    if json:
        echo(rows_json(rows))
    elif rows:
        echo(table(("USER", "ROLE"), [[row.user, row.role] for row in rows]))
    else:
        say("No user was given a role.")


def set_role(
    user: Annotated[str, Argument(help="Name of the user.")],
    role: Annotated[
        str,
        Argument(help=f"Role: {', '.join(ROLES)}; `default` removes the role that was given."),
    ],
    address: Address = None,
) -> None:
    """Give a user a role in a shared cluster."""
    ask(address, SetRole(user, "" if role == "default" else role))
    if role == "default":
        say(f"{user} has the usual role again")
    else:
        say(f"{user} has the role {role}")
