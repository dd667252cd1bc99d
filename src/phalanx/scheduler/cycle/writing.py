"""A writer of snapshot files, which `reading` reads. `phalanx snapshot` uses it on live clusters.

Only fields that differ from their defaults are written, so that the file is easy to read. Reading
the file returns an equal snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from phalanx.scheduler.cycle import specs as s
from phalanx.scheduler.cycle.config import Configuration, PluginOption
from phalanx.scheduler.cycle.reading import FORMAT

Written = dict[str, Any]


def as_data(snapshot: s.Snapshot) -> Written:
    """Return the snapshot as plain mappings and lists, in the format `phalanx-snapshot/1`."""
    lists: dict[str, Iterable[Written]] = {
        "nodes": map(_node, snapshot.nodes),
        "hypernodes": map(_plain, snapshot.hypernodes),
        "queues": map(_queue, snapshot.queues),
        "podgroups": map(_podgroup, snapshot.podgroups),
        "tasks": map(_task, snapshot.tasks),
        "resource_quotas": map(_plain, snapshot.quotas),
        "disruption_budgets": map(_budget, snapshot.budgets),
        "reservations": map(_reservation, snapshot.reservations),
    }
    head = {"name": snapshot.name, "notes": snapshot.notes}
    tail = {
        "licenses": {one.name: one.total for one in snapshot.licenses},
        "now": snapshot.now,
        "seed": snapshot.seed,
        "last_acted": dict(snapshot.last_acted),
    }
    body = {"config": _config(snapshot.config)} | {k: list(v) for k, v in lists.items()}
    kept = {k: v for k, v in (head | body | tail).items() if v}
    if snapshot.expect is not None:
        kept["expect"] = {
            k: v for k, v in msgspec.to_builtins(snapshot.expect).items() if v is not None
        }
    return {"format": FORMAT} | kept


def _config(config: Configuration) -> Written:
    out: Written = {"actions": list(config.actions)}
    if config.action_arguments:
        out["action_arguments"] = {k: dict(v) for k, v in config.action_arguments.items()}
    out["tiers"] = [{"plugins": [_plugin(p) for p in tier]} for tier in config.tiers]
    if config.compat != "volcano":
        out["compat"] = config.compat
    return out


def _plugin(option: PluginOption) -> Written:
    out: Written = {"name": option.name}
    if option.enabled is not None:
        out["enabled"] = sorted(option.enabled)
    if option.arguments:
        out["arguments"] = dict(option.arguments)
    return out


def _plain(value: msgspec.Struct, **special: Callable[[Any], Any]) -> Written:
    """Return the fields that differ from their defaults. Pairs become mappings. `special`: for each
    field that is written in another form, the function that writes it.
    """
    out: Written = {}
    for field in msgspec.structs.fields(value):
        given = getattr(value, field.name)
        if given == field.default:
            continue
        write = special.get(field.name, _simple)
        out[field.name] = write(given)
    return out


def _simple(given: Any) -> Any:
    if isinstance(given, tuple):
        if given and isinstance(given[0], tuple) and isinstance(given[0][0], str):
            return dict(given)
        return [_simple(x) for x in given]
    return _plain(given) if isinstance(given, msgspec.Struct) else given


def _pairs(given: Any) -> Any:
    return dict(given)


def _renamed(written: Written, names: Mapping[str, str]) -> Written:
    return {names.get(k, k): v for k, v in written.items()}


def _node(node: s.NodeSpec) -> Written:
    return _plain(
        node,
        capacity=_pairs,
        numa=lambda parts: [dict(p) for p in parts],
        devices=lambda cards: [{"memory": m, "used": u} for m, u in cards],
        ports=lambda ranges: [list(one) for one in ranges],
    )


def _queue(queue: s.QueueSpec) -> Written:
    return _plain(queue, affinity=_group_affinity, borrowing_limit=_pairs, lending_limit=_pairs)


def _group_affinity(affinity: s.GroupAffinity) -> Written:
    return {
        "nodegroup_affinity": {
            "required": list(affinity.required),
            "preferred": list(affinity.preferred),
        },
        "nodegroup_anti_affinity": {
            "required": list(affinity.anti_required),
            "preferred": list(affinity.anti_preferred),
        },
    }


def _podgroup(group: s.PodGroupSpec) -> Written:
    written = _plain(
        group,
        min_resources=_pairs,
        topology=_topology,
        subgroups=lambda policies: [
            _renamed(
                _plain(p, topology=_topology),
                {
                    "size": "subgroup_size",
                    "minimum": "min_subgroups",
                    "topology": "network_topology",
                },
            )
            for p in policies
        ],
        tried=lambda places: {node: dict(amounts) for node, amounts in places},
    )
    names = {
        "min_member": "minMember",
        "min_task_member": "minTaskMember",
        "min_resources": "minResources",
        "topology": "network_topology",
        "subgroups": "subgroup_policies",
    }
    return _renamed(written, names)


def _topology(topology: s.NetworkTopology) -> Written:
    written = _plain(topology) | {"mode": topology.mode}
    return _renamed(written, {"highest_tier": "highest_tier_allowed"})


def _task(task: s.TaskSpec) -> Written:
    written = _plain(task)
    del written["shape"]
    shape = _plain(task.shape, affinity=_affinity, spread=lambda given: [_spread(x) for x in given])
    return written | _renamed(shape, {"selector": "nodeSelector", "spread": "topology_spread"})


def _matches(matches: Iterable[s.Match]) -> list[Written]:
    return [{"key": m.key, "op": m.op, "values": list(m.values)} for m in matches]


def _affinity(affinity: s.Affinity) -> Written:
    terms = {
        f"{kind}_{strength}": getattr(affinity, f"{short}_{strength}")
        for kind, short in (("pod_affinity", "pod"), ("pod_anti_affinity", "pod_anti"))
        for strength in ("required", "preferred")
    }
    out: Written = {
        "node_affinity_required": [
            {"match_expressions": _matches(m)} for m in affinity.node_required
        ],
        "node_affinity_preferred": [
            {"weight": p.weight, "match_expressions": _matches(p.matches)}
            for p in affinity.node_preferred
        ],
    } | {k: [_term(t) for t in v] for k, v in terms.items()}
    return {k: v for k, v in out.items() if v}


def _term(term: s.PodTerm) -> Written:
    return {
        "weight": term.weight,
        "topology_key": term.topology_key,
        "namespaces": list(term.namespaces),
        "match_expressions": _matches(term.matches),
    }


def _spread(spread: s.Spread) -> Written:
    return {
        "max_skew": spread.max_skew,
        "topology_key": spread.topology_key,
        "when_unsatisfiable": "DoNotSchedule" if spread.hard else "ScheduleAnyway",
        "match_expressions": _matches(spread.matches),
    }


def _reservation(reservation: s.ReservationSpec) -> Written:
    return _plain(
        reservation,
        places=lambda places: {node: dict(amounts) for node, amounts in places},
        windows=lambda given: [
            {"begin": begin} | ({} if end is None else {"end": end}) for begin, end in given
        ],
    )


def _budget(budget: s.BudgetSpec) -> Written:
    written = _plain(budget, matches=_matches)
    return _renamed(written, {"matches": "match_expressions"})
