"""The commands `phalanx token ...`: tokens of people and programs."""

from __future__ import annotations

import time
from typing import Annotated

from phalanx.cli.common_options import Address, Json, rows_json
from phalanx.cli.listing import fitted_table
from phalanx.cli.options import Argument, Group, Option
from phalanx.cli.reach import FAILED, USAGE, ask, fail
from phalanx.cli.table import echo, say
from phalanx.cli.times import moment
from phalanx.model.nearest import nearest
from phalanx.model.principals import ROLES
from phalanx.protocol.requests.tokens import CreateToken, ListTokens, RevokeToken, RotateToken
from phalanx.runtime.daemons import personal_token

app = Group(name="token", help="Create, list, rotate and revoke tokens.")

Name = Annotated[
    str, Argument(help="Name of the token, such as alice (a person) or ci (a program).")
]
File = Annotated[
    str,
    Option(
        "--file",
        help="File to write the token to, with mode 0600. Default: the token is printed once.",
    ),
]


@app.command()
def create(
    name: Name,
    role: Annotated[
        str,
        Option(
            help=f"Role of the token: {', '.join(ROLES)}. With the role `node`, only the node "
            f"named NAME can join with the token (`phalanx start --token-file`)."
        ),
    ] = "user",
    queues: Annotated[
        str,
        Option(
            help="Queues that the token may use, separated by commas; the queues below them are "
            "included. Default: all queues that the token's rights allow."
        ),
    ] = "",
    expires: Annotated[
        str,
        Option(
            help="Time after which the token is invalid: 90d, 12h or 30 (minutes). Default: never."
        ),
    ] = "",
    file: File = "",
    address: Address = None,
) -> None:
    """Create a token, with which a person or program uses the cluster from any machine."""
    from phalanx.manifests.times import read_length

    try:
        ends = time.time() + read_length(expires) if expires else None
    except ValueError as error:
        fail(f"--expires: {error}", USAGE)
    token = personal_token.new_token()
    only = [one.strip() for one in queues.split(",") if one.strip()] or None
    ask(address, CreateToken(name, token.id, token.secret_hash, role, only, ends))
    _hand_out(name, token, file)


@app.command("list")
def list_tokens(address: Address = None, json: Json = False) -> None:
    """List all tokens, without their secrets."""
    rows = ask(address, ListTokens())
    if json:
        echo(rows_json(rows))
    elif rows:
        cells = [
            [
                row.name,
                row.role,
                "all" if row.queues is None else ",".join(row.queues),
                moment(row.created),
                "never" if row.expires is None else moment(row.expires),
                moment(row.last_used) if row.last_used else "never",
                str(row.secrets),
            ]
            for row in rows
        ]
        head = ("NAME", "ROLE", "QUEUES", "CREATED", "EXPIRES", "LAST-USED", "SECRETS")
        ranks = {"SECRETS": 4, "CREATED": 3, "QUEUES": 2, "LAST-USED": 1}
        echo(fitted_table(head, cells, ranks))
    else:
        say("There are no tokens (phalanx token create).")


@app.command()
def rotate(name: Name, file: File = "", address: Address = None) -> None:
    """Give a token a new secret; the previous secret stays valid until the next rotation."""
    rows = ask(address, ListTokens())
    known = next((row for row in rows if row.name == name), None)
    if known is None:
        near = nearest(name, [row.name for row in rows]) or ":"
        fail(f"There is no token {name!r}{near} `phalanx token list` lists the tokens.", FAILED)
    token = personal_token.new_token(known.id)
    ask(address, RotateToken(name, token.secret_hash))
    _hand_out(name, token, file)


@app.command()
def revoke(name: Name, address: Address = None) -> None:
    """Make a token invalid at once, and end its connections."""
    ask(address, RevokeToken(name))
    say(f"token {name} is revoked")


@app.command()
def cluster(
    step: Annotated[
        str,
        Argument(
            help="Step: `add` (daemons accept a new token, too), `show` (daemons present the new "
            "token, and still accept the old token) or `drop` (the old token becomes invalid).",
        ),
    ],
    file: Annotated[
        str,
        Option(
            "--file",
            help="File with the cluster's token. Default: PHALANX_TOKEN_FILE, or ~/.phalanx/token.",
        ),
    ] = "",
) -> None:
    """Replace the cluster's token in three steps: accept a new one, use it, drop the old one.

    After each step, copy the token's file to all other machines of the cluster.
    Running daemons notice that the file has changed. See
    docs/howto/operations.md.
    """
    from phalanx.errors import AuthenticationError
    from phalanx.runtime.daemons import cluster_token

    path = file or cluster_token.default_path()
    steps = {
        "add": (cluster_token.add_next, "accepts a new token, too, and shows the one before"),
        "show": (cluster_token.show_next, "shows the new token, and accepts the one before, too"),
        "drop": (cluster_token.drop_last, "has only the new token"),
    }
    if step not in steps:
        near = nearest(step, steps) or "."
        fail(f"There is no step {step!r}{near} The steps are add, show and drop.", USAGE)
    take, done = steps[step]
    try:
        take(path)
    except (AuthenticationError, OSError, ValueError) as error:
        fail(str(error))
    say(f"{path} {done}. Copy it to all other machines before the next step.")


def _hand_out(name: str, token: personal_token.PersonalToken, file: str) -> None:
    if not file:
        echo(str(token))
        return
    try:
        personal_token.write(file, token)
    except OSError as error:
        fail(f"The token {name} was created, but could not be written: {error}. Rotate it.")
    say(f"token {name} is in {file}")
