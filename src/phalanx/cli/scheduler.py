"""The commands `phalanx scheduler ...`: the configuration by which the scheduler decides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from phalanx.cli.common_options import Address, Json, rows_json
from phalanx.cli.cycles import cycle, cycles
from phalanx.cli.options import Argument, Group
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import echo, say
from phalanx.model.rows.work import RulesInfo
from phalanx.protocol.requests.gangs import GetRules, SetRules

app = Group(
    name="scheduler",
    help="Show and change the scheduler's configuration, and show its cycles.",
)


@app.command()
def show(address: Address = None, json: Json = False) -> None:
    """Print the scheduler's actions and plugins, in Volcano's format.

    The output can be edited and given to `phalanx scheduler set`.
    """
    _print(ask(address, GetRules()), as_json=json)


@app.command("set")
def set_(
    file: Annotated[Path, Argument(help="File with a scheduler configuration in Volcano's YAML.")],
    address: Address = None,
    json: Json = False,
) -> None:
    """Use the scheduler configuration in FILE from now on, also after restarts of the head.

    First a trial cycle runs with the new configuration; its decisions are not
    carried out. If the trial fails, the new configuration is refused and the old
    one stays.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        fail(f"{file}: {error.strerror}", USAGE)
    except UnicodeDecodeError:
        fail(f"{file}: the file is not UTF-8 text", USAGE)
    _print(ask(address, SetRules(text, str(file))), as_json=json)


@app.command()
def reset(address: Address = None, json: Json = False) -> None:
    """Use the cluster's default scheduler configuration again."""
    _print(ask(address, SetRules(None)), as_json=json)


app.command()(cycles)
app.command()(cycle)


def _print(rules: RulesInfo, *, as_json: bool) -> None:
    if as_json:
        echo(rows_json(rules))
        return
    whose = f"set from {rules.file}" if rules.is_own else "those that come with the cluster"
    if rules.trouble:
        say(f"# not gone by: {rules.trouble}")
    say(f"# {whose}; on are {', '.join(rules.plugins)}\n{rules.text.rstrip()}")
