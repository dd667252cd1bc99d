"""The configuration of cycles: the actions to run, the plugins in each tier, and the hooks that are
switched on.

The file format is Volcano's scheduler configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from phalanx.scheduler.cycle.accepted import DURATION, FLAG, WHOLE, Accepted, check_arguments
from phalanx.scheduler.cycle.documents import Document, Place

_EVICTING: Accepted = {"chargeRetries": FLAG}
_OF_GANGS: Accepted = {"maxDomains": WHOLE, "allowWholeBundle": FLAG, **_EVICTING}

ACTIONS: Mapping[str, Accepted] = {
    "enqueue": {},
    "allocate": {"predicateErrorCacheEnable": FLAG},
    "backfill": {"predicateErrorCacheEnable": FLAG},
    "preempt": {
        "predicateErrorCacheEnable": FLAG,
        "enableTopologyAwarePreemption": FLAG,
        "topologyAwarePreemptWorkerNum": WHOLE,
        "minCandidateNodesPercentage": WHOLE,
        "minCandidateNodesAbsolute": WHOLE,
        "maxCandidateNodesAbsolute": WHOLE,
        **_EVICTING,
    },
    "reclaim": {"predicateErrorCacheEnable": FLAG, **_EVICTING},
    "shuffle": _EVICTING,
    "gangpreempt": _OF_GANGS,
    "gangreclaim": _OF_GANGS,
    "consolidate": {
        "maxMoves": WHOLE,
        "mostLost": DURATION,
        "settle": DURATION,
        "after": DURATION,
        **_EVICTING,
    },
}
"""The actions by name, each with the arguments that it takes."""

Known: TypeAlias = "Mapping[str, Accepted | None]"
"""The plugins that a configuration may name, each with its arguments. The value is None for a
plugin that does not declare its arguments.
"""

SWITCHES = (
    "jobOrder",
    "hierarchy",
    "jobReady",
    "jobPipelined",
    "taskOrder",
    "preemptable",
    "reclaimable",
    "preemptive",
    "queueOrder",
    "predicate",
    "bestNode",
    "nodeOrder",
    "batchNodeOrder",
    "targetJob",
    "reservedNodes",
    "jobEnqueued",
    "victim",
    "jobStarving",
    "overused",
    "allocatable",
    "hyperNodeOrder",
    "subJobReady",
    "subJobPipelined",
    "subJobOrder",
    "hyperNodeGradient",
    "clusterOrder",
)
OFF_BY_DEFAULT = frozenset({"hierarchy"})

CHART_YAML = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""The configuration that Volcano's chart installs. In it, nodes that are already in use are
preferred, and neither gang nor drf may veto preemption.
"""


class PluginOption(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin in a tier. `enabled`: the switches that are on; None for the default, which is all
    switches except hierarchy.
    """

    name: str
    arguments: Mapping[str, Any] = {}
    enabled: frozenset[str] | None = None

    def is_on(self, switch: str) -> bool:
        if self.enabled is None:
            return switch not in OFF_BY_DEFAULT
        if switch == "nodeOrder" and "batchNodeOrder" in self.enabled:
            return True  # a scorer scores all nodes at once, so both switches mean the same
        return switch in self.enabled


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a cycle. `compat`: with "volcano", the outcomes are the same as Volcano's,
    including its quirks; with "none", the quirks are avoided.
    """

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    action_arguments: Mapping[str, Mapping[str, Any]] = {}
    compat: Literal["volcano", "none"] = "volcano"

    def plugin_names(self) -> list[str]:
        return [p.name for tier in self.tiers for p in tier]

    def arguments_of(self, action: str) -> Mapping[str, Any]:
        return self.action_arguments.get(action, {})


def parse_volcano(
    text: str, known_plugins: Known, file: str = "", most_values: int | None = None
) -> Configuration:
    """Read Volcano's YAML (`actions`, `tiers`, `configurations`) as a Configuration.

    Raises BatchFileError with file, line and reason.
    """
    root = Document(text, file, most_values).root
    root.keys("actions", "tiers", "configurations", "metrics")
    actions = _actions(root.need("actions"))
    tiers = tuple(
        tuple(_volcano_plugin(p) for p in tier.keys("plugins").need("plugins").items())
        for tier in root.need("tiers").items()
    )
    arguments: dict[str, Mapping[str, Any]] = {}
    for entry in root.get("configurations").items():
        entry.keys("name", "arguments")
        name = entry.need("name").text()
        arguments[name] = entry.get("arguments").mapping()
        check_arguments(entry.get("arguments"), ACTIONS.get(name, {}))
    config = Configuration(actions=actions, tiers=tiers, action_arguments=arguments)
    check(config, root, known_plugins)
    for tier, place in zip(config.tiers, root.get("tiers").items(), strict=True):
        options = {p.name: p for p in tier}
        if "proportion" in options and "drf" in options and options["drf"].is_on("hierarchy"):
            place.fail("drf with hierarchy and proportion cannot share a tier: both rank queues")
    return config


def read_config(at: Place, known_plugins: Known) -> Configuration:
    """Read the `config` of a snapshot.

    A snapshot records the configuration of a past cycle, so tiers that `parse_volcano` would refuse
    are allowed. Raises BatchFileError.
    """
    at.keys("actions", "action_arguments", "tiers", "compat")
    tiers = tuple(
        tuple(_snapshot_plugin(p) for p in tier.keys("plugins").need("plugins").items())
        for tier in at.get("tiers").items()
    )
    compat = at.get("compat").text("volcano")
    if compat not in ("volcano", "none"):
        at.get("compat").fail(f"compat is volcano or none, not {compat!r}")
    given = at.get("action_arguments").members()
    for name, place in given.items():
        check_arguments(place, ACTIONS.get(name, {}))
    config = Configuration(
        actions=_actions(at.need("actions")),
        tiers=tiers,
        action_arguments={k: v.mapping() for k, v in given.items()},
        compat="none" if compat == "none" else "volcano",
    )
    check(config, at, known_plugins)
    return config


def check(config: Configuration, at: Place, known: Known) -> None:
    """Raise BatchFileError for a plugin that does not exist, for a plugin's argument of the wrong
    kind, and for arguments of an unknown action.
    """
    for tier, place in zip(config.tiers, at.get("tiers").items(), strict=True):
        for option, spot in zip(tier, place.get("plugins").items(), strict=True):
            if option.name not in known:
                spot.get("name").fail(
                    f"there is no plugin {option.name!r}; known plugins: {', '.join(sorted(known))}"
                )
            accepted = known[option.name]
            if accepted is not None:
                check_arguments(spot.get("arguments"), accepted)
    for name in config.action_arguments:
        if name not in ACTIONS:
            at.fail(f"arguments are given for {name!r}, which is not an action")


def _actions(at: Place) -> tuple[str, ...]:
    names = [a.text() for a in at.items()] if at.is_list() else at.text().split(",")
    actions = tuple(n.strip() for n in names if n.strip())
    for name in actions:
        if name not in ACTIONS:
            at.fail(f"there is no action {name!r}; known actions: {', '.join(ACTIONS)}")
    if not actions:
        at.fail("no action is named")
    return actions


def _volcano_plugin(at: Place) -> PluginOption:
    on = set(SWITCHES) - OFF_BY_DEFAULT
    for key, value in at.members().items():
        if key in ("name", "arguments"):
            continue
        switch = _switch_of(key)
        if switch is None:
            value.fail(f"{key!r} is not a setting of a plugin")
        elif value.flag():
            on.add(switch)
        else:
            on.discard(switch)
    return PluginOption(
        name=at.need("name").text(),
        arguments=at.get("arguments").mapping(),
        enabled=frozenset(on),
    )


def _switch_of(key: str) -> str | None:
    """Return the switch that a key of a plugin's entry sets: jobOrder for enableJobOrder, victim
    for enabledVictim. None for any other key.
    """
    for prefix in ("enabled", "enable"):
        if key.startswith(prefix) and len(key) > len(prefix):
            rest = key[len(prefix) :]
            switch = rest[0].lower() + rest[1:]
            if switch in SWITCHES:
                return switch
    return None


def _snapshot_plugin(at: Place) -> PluginOption:
    at.keys("name", "arguments", "enabled")
    enabled = None
    if at.has("enabled"):
        for switch in at.get("enabled").items():
            if switch.text() not in SWITCHES:
                switch.fail(
                    f"{switch.text()!r} is not an extension point; allowed: {', '.join(SWITCHES)}"
                )
        enabled = frozenset(s.text() for s in at.get("enabled").items())
    return PluginOption(
        name=at.need("name").text(), arguments=at.get("arguments").mapping(), enabled=enabled
    )
