"""A Sphinx extension that writes the reference pages whose source is the code.

The pages lie in `docs/reference/generated` while the site is built. Git ignores that folder.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from sphinx.application import Sphinx

from phalanx import errors
from phalanx.cli import registry
from phalanx.cli.configuration.keys import TABLES, keys, shown
from phalanx.cli.typer_app import app as command_line

INTERFACE = {
    "Start and stop": ["init", "shutdown", "is_initialized"],
    "Tasks and actors": ["remote", "method", "get_actor", "kill", "cancel"],
    "Values": ["get", "put", "wait"],
    "Jobs": ["submit", "submit_manifests", "jobs", "Job", "JobHandle"],
    "Queues": [
        "create_queue",
        "update_queue",
        "delete_queue",
        "open_queue",
        "close_queue",
        "queues",
    ],
    "Reasons and expected starts": ["explain", "planned_starts"],
    "The cluster": [
        "nodes",
        "cluster_resources",
        "available_resources",
        "cluster_status",
        "cluster_events",
        "timeline",
    ],
    "Inside a task": ["get_runtime_context", "get_gpu_ids"],
}
"""Names of `phalanx` by topic, in the order of the page."""

UTILITIES = {
    "util.placement_group": "Placement groups",
    "util.scheduling_strategies": "Scheduling strategies",
    "util.actor_pool": "Pools of actors",
    "util.queue": "Queues between tasks",
    "util.executor": "An executor of concurrent.futures",
    "util.multiprocessing": "The pool of multiprocessing",
    "util.metrics": "Metrics of a program",
}
"""Modules of `phalanx` with a section of their own, and the titles of the sections."""


def write_pages(site: Sphinx) -> None:
    """Write the generated pages. A file whose text did not change is not written, so that Sphinx
    does not read it again.
    """
    folder = Path(site.srcdir) / "reference" / "generated"
    folder.mkdir(exist_ok=True)
    pages = {
        "interface.rst": "\n".join(_interface()),
        "utilities.rst": "\n".join(_utilities()),
        "configuration.md": "\n".join(_configuration()),
        "errors.rst": "\n".join(_errors()),
        **{f"commands-{_anchor(panel)}.md": "\n".join(_panel(panel)) for panel in registry.PANELS},
    }
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _title(text: str, line: str = "=") -> list[str]:
    return [text, line * len(text), ""]


def _interface() -> Iterator[str]:
    yield from _title("The interface of a program")
    yield "Each name is an attribute of ``phalanx``."
    yield "Names and meanings are Ray's where Ray has them."
    yield ""
    for topic, names in INTERFACE.items():
        yield from _title(topic, "-")
        for name in names:
            found = getattr(importlib.import_module("phalanx"), name)
            kind = "autoclass" if inspect.isclass(found) else "autofunction"
            yield f".. {kind}:: phalanx.{name}"
            if kind == "autoclass":
                yield "   :members:"
            yield ""


def _utilities() -> Iterator[str]:
    yield from _title("Utilities")
    for module, title in UTILITIES.items():
        yield from _title(title, "-")
        yield f".. automodule:: phalanx.{module}"
        yield "   :members:"
        yield ""


def _configuration() -> Iterator[str]:
    yield "# Keys of the configuration file"
    yield ""
    yield "[The configuration file](../../howto/configuration.md) says where the file lies, and"
    yield "which of several values holds."
    for table, names in TABLES.items():
        yield from (
            "",
            f"## `[{table}]`",
            "",
            "| key | form | default | meaning |",
            "|---|---|---|---|",
        )
        for name in names:
            key = keys()[f"{table}.{name}"]
            default = "" if key.default in (None, "", []) else f"`{shown(key.default)}`"
            yield f"| `{name}` | {key.form} | {default} | {_cell(key.help)} |"


def _errors() -> Iterator[str]:
    yield from _title("Errors")
    yield "Every error of Phalanx is a ``phalanx.errors.PhalanxError``. ``phalanx.exceptions`` has"
    yield "the same classes under Ray's names."
    yield ""
    for name, found in vars(errors).items():
        if inspect.isclass(found) and found.__module__ == errors.__name__ and name[0] != "_":
            yield f".. autoexception:: phalanx.errors.{name}"
            yield "   :show-inheritance:"
            yield ""


def _panel(panel: str) -> Iterator[str]:
    group: Any = typer.main.get_command(command_line)
    yield f"# Commands: {panel.lower()}"
    yield ""
    for name, entry in registry.PANELS[panel].items():
        command = group.get_command(None, name)
        yield f"## `phalanx {name}`"
        yield ""
        if not hasattr(command, "list_commands"):
            yield from _command(command, f"phalanx {name}")
            continue
        yield entry.summary
        yield ""
        for part in command.list_commands(None):
            yield f"### `phalanx {name} {part}`"
            yield ""
            yield from _command(command.get_command(None, part), f"phalanx {name} {part}")


def _command(command: Any, path: str) -> Iterator[str]:
    context = typer.Context(command, info_name=path)
    yield inspect.cleandoc(command.help or "")
    yield ""
    yield "```console"
    yield f"$ {path} {' '.join(command.collect_usage_pieces(context))}"
    yield "```"
    yield ""
    rows = [p.get_help_record(context) for p in command.params]
    rows = [row for row in rows if row and "--help" not in row[0]]
    if not rows:
        return
    yield "| argument or option | meaning |"
    yield "|---|---|"
    for name, meaning in rows:
        yield f"| `{_cell(name)}` | {_cell(meaning)} |"
    yield ""


def _cell(text: str) -> str:
    return (
        re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;" if "`" in text else "<")
    )


def _anchor(panel: str) -> str:
    return panel.lower().replace(" ", "-")


LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def _name_files(site: Sphinx, page: str, source: list[str]) -> None:
    """In links to files outside the site, replace the link by the name of the file in the
    repository.

    Raises FileNotFoundError for a link to a file that does not exist.
    """
    root = Path(site.srcdir).parent
    folder = Path(site.env.doc2path(page)).parent

    def shown(match: re.Match[str]) -> str:
        text, target = match[1], (folder / match[2]).resolve()
        if target.is_relative_to(site.srcdir):
            return match[0]
        if not target.exists():
            raise FileNotFoundError(f"{page} links to {match[2]}")
        name = str(target.relative_to(root))
        return f"`{name}`" if text.strip("`") in (name, target.name) else f"{text} (`{name}`)"

    source[0] = LINK.sub(shown, source[0])


def _code_blocks(
    app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]
) -> None:
    """Show the section `Example:` of a docstring as code. The code is the indented lines below that
    word.
    """
    for index, line in enumerate(lines):
        if line.strip() in ("Example:", "Examples:"):
            lines[index : index + 1] = [f"{line.strip()}:", ""]
            return


def setup(site: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    site.connect("builder-inited", write_pages)
    site.connect("source-read", _name_files)
    site.connect("autodoc-process-docstring", _code_blocks)
    return {"parallel_read_safe": True}
