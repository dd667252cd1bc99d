"""What if there were more nodes, another weight, one job more?"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec

from phalanx.dashboard.watch import SessionView
from phalanx.head.jobs.what_if import Supposition
from phalanx.scheduler.forecast.what_if import Comparison, change_words, start_words

SHOWN = 200
MAX_MANIFEST = 8_000
"""Characters of a manifest that an address may carry."""
_FIELDS = ("add_nodes", "remove_node", "weight", "manifest")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A podgroup that waits, in words."""

    podgroup: str
    queue: str
    before: str
    after: str
    change: str


class WhatIfPage(msgspec.Struct, frozen=True, kw_only=True):
    """What was supposed, as it was written, and what would follow."""

    said: dict[str, str]
    queues: list[str]
    starts: list[Change] | None
    """None: nothing was supposed yet, or it is wrong."""
    in_all: int
    stopped: list[str]
    wrong: str


def supposition(words: Mapping[str, str]) -> Supposition:
    """From the words of an address. Raises ValueError for a manifest that is too long."""
    manifest = words.get("manifest", "").strip()
    if len(manifest) > MAX_MANIFEST:
        raise ValueError(
            f"The manifest has {len(manifest)} characters; here it may have {MAX_MANIFEST}. "
            "`phalanx what-if --submit FILE` takes longer ones."
        )
    return Supposition(
        add_nodes=tuple(words.get("add_nodes", "").split()),
        remove_nodes=tuple(words.get("remove_node", "").split()),
        weights=tuple(words.get("weight", "").split()),
        manifests=(("the manifest", manifest.encode()),) if manifest else (),
    )


def command(words: Mapping[str, str]) -> str:
    """That says the same."""
    parts = ["phalanx what-if"]
    parts += [f"--add-nodes {shlex.quote(one)}" for one in words.get("add_nodes", "").split()]
    parts += [f"--remove-node {shlex.quote(one)}" for one in words.get("remove_node", "").split()]
    parts += [f"--weight {shlex.quote(one)}" for one in words.get("weight", "").split()]
    parts += ["--submit FILE"] if words.get("manifest", "").strip() else []
    return " ".join(parts)


def what_if(
    picture: SessionView, words: Mapping[str, str], found: Comparison | None, wrong: str
) -> WhatIfPage:
    """`found`: what was worked out, if anything; `wrong`: why not."""
    stopped = set(found.stopped) if found is not None else set()
    starts = None if found is None else found.starts[:SHOWN]
    return WhatIfPage(
        said={name: words.get(name, "")[:MAX_MANIFEST] for name in _FIELDS},
        queues=sorted(queue.name for queue in picture.queues if queue.name != "root"),
        starts=None
        if starts is None
        else [
            Change(
                podgroup=one.podgroup,
                queue=one.queue,
                before="runs" if one.podgroup in stopped else start_words(one.before_s),
                after=start_words(one.after_s),
                change=change_words(one, stopped),
            )
            for one in starts
        ],
        in_all=0 if found is None else len(found.starts),
        stopped=sorted(stopped),
        wrong=wrong,
    )
