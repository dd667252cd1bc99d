"""HyperNode manifests: network domains, whose members are given by name, by a pattern of names, or
by labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from phalanx.manifests.fields import Fields
from phalanx.manifests.names import qualified_fault
from phalanx.manifests.patterns import compiled, matches
from phalanx.scheduler.cycle.specs import HyperNodeSpec

SELECTORS = ("exactMatch", "regexMatch", "labelMatch")


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes or smaller domains that belong to a domain, given by name, by a pattern of names, or by
    labels.
    """

    kind: str
    exact: str = ""
    pattern: str = ""
    labels: tuple[tuple[str, str], ...] = ()


class HyperNode(msgspec.Struct, frozen=True, kw_only=True):
    """A domain as its manifest declares it; `resolve` finds its members."""

    name: str
    tier: int
    tier_name: str = ""
    members: tuple[Member, ...] = ()


def read_hypernode(at: Fields, name: str) -> HyperNode:
    """Return the domain in a manifest. Its tier is 0 or more, and 1 if the manifest gives none; the
    nodes of a domain of a low tier are close to each other.
    """
    tier = at.whole("tier", 1)
    if tier < 0:
        at.error("tier", "tier_invalid", f"a tier must be 0 or more, not {tier}")
    members = [_member(item) for item in at.items("members")]
    if not members:
        at.error("members", "no_members", "a domain needs at least one member")
    domain = HyperNode(
        name=name, tier=tier, tier_name=at.text("tierName"), members=tuple(filter(None, members))
    )
    at.warn_unknown()
    return domain


def _member(at: Fields) -> Member | None:
    kind = at.text("type")
    if kind not in ("Node", "HyperNode"):
        reason = f"a member must be a Node or a HyperNode, not {kind!r}"
        at.error("type", "member_type_invalid", reason)
    selector = at.fields("selector")
    at.warn_unknown()
    given = [key for key in SELECTORS if selector.has(key)]
    for key in SELECTORS:
        selector.raw(key)
    selector.warn_unknown()
    if len(given) != 1:
        reason = f"a member needs exactly one of {', '.join(SELECTORS)}, not {len(given)} of them"
        selector.error("", "not_one_selector", reason)
        return None
    inner = selector.fields(given[0])
    if given[0] == "exactMatch":
        name = inner.text("name")
        fault = qualified_fault(name) if name else "exactMatch needs a name"
        if fault is not None:
            inner.error("name", "member_name_invalid", fault)
        member = Member(kind=kind, exact=name)
    elif given[0] == "regexMatch":
        member = Member(kind=kind, pattern=_pattern(inner))
    else:
        member = Member(kind=kind, labels=inner.pairs("matchLabels"))
        inner.unused("matchExpressions", "nodes are matched by matchLabels")
        if not member.labels:
            inner.error("matchLabels", "no_labels", "labelMatch needs labels to match")
    inner.warn_unknown()
    return member


def _pattern(at: Fields) -> str:
    pattern = at.text("pattern")
    try:
        compiled(pattern)
    except ValueError as e:
        at.error("pattern", "regex_invalid", str(e))
        return ""
    if not pattern:
        at.error("pattern", "regex_missing", "regexMatch needs a pattern")
    return pattern


def resolve(
    domains: list[HyperNode],
    labels: Mapping[str, Mapping[str, str]],
    also: Mapping[str, Sequence[str]],
) -> tuple[HyperNodeSpec, ...]:
    """Return the domains, each with the names of its members among the existing nodes and domains.

    `labels`: the labels of each existing node, by the node's name. `also`: the other names of each
    node.
    """
    below = {d.name: _names(d, "HyperNode", [x.name for x in domains], {}) for d in domains}
    parent = {child: name for name, children in below.items() for child in children}
    return tuple(
        HyperNodeSpec(
            name=d.name,
            tier=d.tier,
            tier_name=d.tier_name,
            nodes=_names(d, "Node", list(labels), labels, also),
            children=below[d.name],
            parent=parent.get(d.name, ""),
        )
        for d in domains
    )


def _names(
    domain: HyperNode,
    kind: str,
    names: list[str],
    labels: Mapping[str, Mapping[str, str]],
    also: Mapping[str, Sequence[str]] = {},
) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for member in domain.members:
        if member.kind == kind:
            for name in names:
                words = (name, *also.get(name, ()))
                if any(_matches(member, word, labels.get(name, {})) for word in words):
                    found[name] = None
    return tuple(found)


def _matches(member: Member, name: str, labels: Mapping[str, str]) -> bool:
    if member.exact:
        return name == member.exact
    if member.pattern:
        return matches(member.pattern, name)
    return bool(member.labels) and all(labels.get(k) == v for k, v in member.labels)
