"""The commands `phalanx limits` and `set-limits`: limits of users in queues."""

from __future__ import annotations

from typing import Annotated

from phalanx.cli.common_options import Address, Json, rows_json
from phalanx.cli.listing import fitted_table
from phalanx.cli.options import Argument
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import echo, say
from phalanx.manifests.times import read_limit
from phalanx.model.nearest import nearest
from phalanx.model.readable import amount, length_text
from phalanx.model.rows.user_limits import UserLimitInfo
from phalanx.model.user_limits import ANY_USER
from phalanx.protocol.requests.user_limits import ListLimits, SetLimits

_WORDS = {
    "running": "running",
    "waiting": "waiting",
    "gpus": "gpus",
    "priority": "priority",
    "time": "time_s",
    "submits": "submits_per_s",
}
"""The fields of `UserLimits`, by the names that commands give the limits."""
_NONE = "none"


def limits(
    queue: Annotated[str, Argument(help="Show only this queue. Default: all queues.")] = "",
    address: Address = None,
    json: Json = False,
) -> None:
    """List the limits of users in queues, and the amounts that count against them now.

    The user * stands for all users without a row of their own. A limit counts the
    work in the queue and in the queues below it.
    """
    rows = ask(address, ListLimits(queue))
    if json:
        echo(rows_json(rows))
    elif rows:
        heads = [word.upper() for word in _WORDS]
        cells = [[row.queue, row.user, *(_cell(row, word) for word in _WORDS)] for row in rows]
        ranks = {name: rank for rank, name in enumerate(heads, start=1)}
        echo(fitted_table(("QUEUE", "USER", *heads), cells, ranks, right=heads))
    else:
        say("No user has a limit (phalanx set-limits).")


def set_limits(
    queue: Annotated[str, Argument(help="Name of the queue.")],
    user: Annotated[
        str, Argument(help="Name of the user, or '*' for all users without limits of their own.")
    ],
    given: Annotated[
        list[str],
        Argument(
            metavar="LIMIT...",
            help="Limits as NAME=VALUE: running=2 (running jobs), waiting=100 (waiting jobs), "
            "gpus=4 (GPUs that running jobs hold), priority=10 (highest priority of a job), "
            "time=1d (longest time limit of a job; jobs without a limit get it) or submits=5 "
            "(submissions per second). NAME=none removes a limit.",
        ),
    ],
    address: Address = None,
) -> None:
    """Set limits of a user in a queue and the queues below it. Limits that are not given keep their
    values.

    Jobs beyond the limits `running` and `gpus` wait; jobs beyond another limit
    are refused at submission.
    """
    ask(address, SetLimits(queue, user, dict(map(_limit, given))))
    who = "users without a row" if user == ANY_USER else user
    say(f"the limits of {who} in queue {queue} are changed")


def _limit(word: str) -> tuple[str, float | None]:
    """Return the field and the number for NAME=NUMBER. Ends the command for any other text."""
    name, sign, text = word.partition("=")
    if not sign or name not in _WORDS:
        near = nearest(name, _WORDS)
        fail(
            f"{word!r}: limits are NAME=NUMBER, and NAME is one of {', '.join(_WORDS)}{near}", USAGE
        )
    if text == _NONE:
        return _WORDS[name], None
    try:
        return _WORDS[name], read_limit(text) if name == "time" else float(text)
    except ValueError as error:
        fail(f"{word!r}: {error}", USAGE)


def _cell(row: UserLimitInfo, word: str) -> str:
    number = row[_WORDS[word]]
    if number is None:
        return "-"
    if word == "time":
        return length_text(number)
    now = {"running": row.now_running, "waiting": row.now_waiting}.get(word)
    return amount(number) if now is None else f"{now} of {amount(number)}"
