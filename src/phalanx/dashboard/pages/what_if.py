"""The data of the page What if: a supposed change, and the comparison of expected starts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec

from phalanx.dashboard.watch import ClusterSnapshot
from phalanx.head.jobs.what_if import Supposition
from phalanx.scheduler.forecast.what_if import Comparison, change_words, start_words

SHOWN = 200
MAX_MANIFEST = 8_000
"""The most characters of a manifest in an address."""
_FIELDS = ("add_nodes", "remove_node", "weight", "manifest")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting podgroup with its starts before and after the change, as texts."""

    podgroup: str
    queue: str
    before: str
    after: str
    change: str


class WhatIfPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page: the supposed change as the viewer wrote it, and its effects."""

    said: dict[str, str]
    queues: list[str]
    starts: list[Change] | None
    """The changed starts; None if no change was given yet, or if the change was invalid."""
    in_all: int
    stopped: list[str]
    wrong: str


def supposition(words: Mapping[str, str]) -> Supposition:
    """Return the supposed change that an address describes. Raises ValueError for a manifest that
    is too long.
    """
    manifest = words.get("manifest", "").strip()
    if len(manifest) > MAX_MANIFEST:
        raise ValueError(
            f"The manifest has {len(manifest)} characters; this page takes {MAX_MANIFEST}. "
            "`phalanx what-if --submit FILE` takes longer ones."
        )
    return Supposition(
        add_nodes=tuple(words.get("add_nodes", "").split()),
        remove_nodes=tuple(words.get("remove_node", "").split()),
        weights=tuple(words.get("weight", "").split()),
        manifests=(("the manifest", manifest.encode()),) if manifest else (),
    )


def command(words: Mapping[str, str]) -> str:
    """Return the command that makes the same comparison."""
    parts = ["phalanx what-if"]
    parts += [f"--add-nodes {shlex.quote(one)}" for one in words.get("add_nodes", "").split()]
    parts += [f"--remove-node {shlex.quote(one)}" for one in words.get("remove_node", "").split()]
    parts += [f"--weight {shlex.quote(one)}" for one in words.get("weight", "").split()]
    parts += ["--submit FILE"] if words.get("manifest", "").strip() else []
    return " ".join(parts)


def what_if(
    snapshot: ClusterSnapshot, words: Mapping[str, str], found: Comparison | None, wrong: str
) -> WhatIfPage:
    """Return the page. `found`: the comparison, or None. `wrong`: the reason why there is no
    comparison.
    """
    stopped = set(found.stopped) if found is not None else set()
    starts = None if found is None else found.starts[:SHOWN]
    return WhatIfPage(
        said={name: words.get(name, "")[:MAX_MANIFEST] for name in _FIELDS},
        queues=sorted(queue.name for queue in snapshot.queues if queue.name != "root"),
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
