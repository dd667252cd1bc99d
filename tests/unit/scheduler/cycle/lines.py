"""A language for cases of the scheduler, with one line for each thing, and its translation into
snapshots.

    use ACTION, ACTION(key=value) | PLUGIN, PLUGIN(key=value) | PLUGIN    plugins by tier
    case NAME {more of the snapshot}                     begins a case; `use` before it stays
    node NAME 4c 8G 2gpu pods=10 label=value !taint=value:Effect
    net NAME TIER n1,n2                                  or names of smaller domains
    queue NAME w=1 prio=0 cap=4c,4G des=2c gua=1c parent=P closed keep
    gang NAME QUEUE min=2 prio=5 roles=a:1,b:2 res=2c,2G phase=Pending hard=1 soft=2
    task NAME GANG 1c 1G @node prio=5 role=r sel.key=value fixed phase=Releasing x3
    quota NAMESPACE 4c,4G
    now SECONDS
    binds task:node ...    bound N    evicts task ...    evicted N    promised gang:node,node
    scores task node:value ...    what all scorers give (only in scores.txt); task@domain: where the
                                  rest of its gang is; domains:gang: what domains get for it
    phase gang:Phase ...    domains 2 2 (tasks bound per lowest domain)    hold gang:2 ...

Names of gangs and tasks may have a namespace (`ns/name`). `x3` makes three tasks NAME-0 to NAME-2.
A line may end in a mapping in braces, which is merged into the object that the line describes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from phalanx.scheduler.cycle.reading import read_snapshots
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.replay import Outcome, replay
from phalanx.scheduler.forecast.planner import lent

UNITS = {"c": ("cpu", 1.0), "m": ("cpu", 1e-3), "G": ("memory", 1e9), "Gi": ("memory", 2.0**30)}
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(c|m|Gi|G|[a-z][A-Za-z0-9./_:-]*)$")


def cases(text: str) -> list[dict[str, Any]]:
    """Return the snapshots that a table describes, with the expected results."""
    out: list[dict[str, Any]] = []
    config: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split(" #")[0].strip()
        if not line or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        try:
            if word == "use":
                config = _config(rest)
            elif word == "case":
                name, brace, more = rest.partition(" {")
                extra = yaml.safe_load("{" + more) if brace else {}
                out.append({"name": name, "config": config} | extra)
            else:
                _add(out[-1], word, rest)
        except Exception as e:
            raise ValueError(f"line {number}: {line}: {e}") from e
    return out


def _config(rest: str) -> dict[str, Any]:
    first, *tiers = rest.split("|")
    arguments: dict[str, Any] = {}
    actions = []
    for name, given in _calls(first):
        actions.append(name)
        if given:
            arguments[name] = given
    config: dict[str, Any] = {"actions": actions, "tiers": [_tier(t) for t in tiers]}
    if arguments:
        config["action_arguments"] = arguments
    return config


def _tier(text: str) -> dict[str, Any]:
    plugins = []
    for name, given in _calls(text):
        plugin: dict[str, Any] = {"name": name}
        if "on" in given:
            plugin["enabled"] = given.pop("on")
        if given:
            plugin["arguments"] = given
        plugins.append(plugin)
    return {"plugins": plugins}


def _calls(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, inside in re.findall(r"([\w-]+)(?:\(([^)]*)\))?", text):
        pairs = (p.split("=", 1) for p in inside.split(";") if p.strip())
        yield name, {k.strip(): yaml.safe_load(v) for k, v in pairs}


def _add(case: dict[str, Any], word: str, rest: str) -> None:
    more: dict[str, Any] = {}
    if rest.endswith("}"):
        at = rest.index("{")
        more = yaml.safe_load(rest[at:])
        rest = rest[:at]
    words = rest.split()
    if word in EXPECTED:
        EXPECTED[word](case.setdefault("expect", {}), words)
    elif word == "now":
        case["now"] = float(words[0])
    elif word == "task":
        case.setdefault("tasks", []).extend(_tasks(words, more))
    else:
        case.setdefault(PLACES[word], []).append(MAKERS[word](words) | more)


def _amounts(words: str) -> dict[str, float]:
    out = {}
    for w in words.split(","):
        if "=" in w:
            name, _, value = w.partition("=")
            out[name] = float(value)
        elif w:
            name, out[name] = _amount(w)
    return out


def _amount(word: str) -> tuple[str, float]:
    match = AMOUNT.match(word)
    if match is None:
        raise ValueError(f"no amount: {word}")
    number, unit = match.groups()
    name, scale = UNITS.get(unit, (unit, 1.0))
    return name, float(number) * scale


def _split(name: str) -> dict[str, str]:
    namespace, _, short = name.rpartition("/")
    return {"name": short} | ({"namespace": namespace} if namespace else {})


def _node(words: list[str]) -> dict[str, Any]:
    node: dict[str, Any] = {"name": words[0], "capacity": {"pods": 100.0}, "labels": {}}
    for w in words[1:]:
        if w.startswith("!"):
            pair, effect = w[1:].rsplit(":", 1)
            key, _, value = pair.partition("=")
            node.setdefault("taints", []).append({"key": key, "value": value, "effect": effect})
        elif w.startswith("pods="):
            node["capacity"]["pods"] = float(w[5:])
        elif "=" in w:
            key, value = w.split("=", 1)
            node["labels"][key] = value
        else:
            name, number = _amount(w)
            node["capacity"][name] = number
    return node


def _net(words: list[str]) -> dict[str, Any]:
    name, tier, members = words
    key = "nodes" if int(tier) <= 1 else "children"
    return {"name": name, "tier": int(tier), key: members.split(",")}


def _queue(words: list[str]) -> dict[str, Any]:
    queue: dict[str, Any] = {"name": words[0]}
    long = {"cap": "capability", "des": "deserved", "gua": "guarantee"}
    for w in words[1:]:
        key, _, value = w.partition("=")
        if key in long:
            queue[long[key]] = _amounts(value)
        elif key == "closed":
            queue["state"] = "Closed"
        elif key == "keep":
            queue["reclaimable"] = False
        elif key in ("w", "prio"):
            queue["weight" if key == "w" else "priority"] = int(value)
        else:
            queue[key] = value
    return queue


def _gang(words: list[str]) -> dict[str, Any]:
    gang: dict[str, Any] = _split(words[0]) | {"queue": words[1], "phase": "Inqueue"}
    for w in words[2:]:
        key, _, value = w.partition("=")
        if key == "min":
            gang["minMember"] = int(value)
        elif key == "roles":
            pairs = (p.split(":") for p in value.split(","))
            gang["minTaskMember"] = {role: int(n) for role, n in pairs}
        elif key == "res":
            gang["minResources"] = _amounts(value)
        elif key == "prio":
            gang["priority"] = int(value)
        elif key in ("hard", "soft"):
            gang["network_topology"] = {"mode": key}
            if value:
                gang["network_topology"]["highest_tier_allowed"] = int(value)
        elif key == "class":
            gang["priority_class"] = value
        elif key == "at":
            gang["allocated_hypernode"] = value
        else:
            gang[key] = value
    return gang


def _tasks(words: list[str], more: dict[str, Any]) -> list[dict[str, Any]]:
    task: dict[str, Any] = _split(words[0])
    gang = _split(words[1])
    task["podgroup"] = gang["name"]
    if "namespace" in gang:
        task["namespace"] = gang["namespace"]
    task |= {"request": {}, "phase": "Pending"}
    count = 0
    for w in words[2:]:
        key, _, value = w.partition("=")
        if w.startswith("@"):
            task["node"] = w[1:]
            task["phase"] = "Running"
        elif re.fullmatch(r"x\d+", w):
            count = int(w[1:])
        elif w == "fixed":
            task["preemptable"] = False
        elif w == "never":
            task["preemption_policy"] = "Never"
        elif key.startswith("sel."):
            task.setdefault("nodeSelector", {})[key[4:]] = value
        elif key.startswith("lab."):
            task.setdefault("labels", {})[key[4:]] = value
        elif key == "prio":
            task["priority"] = int(value)
        elif value:
            task[key] = value
        else:
            name, number = _amount(w)
            task["request"][name] = number
    task |= more
    if not count:
        return [task]
    return [task | {"name": f"{task['name']}-{i}"} for i in range(count)]


def _quota(words: list[str]) -> dict[str, Any]:
    return {"name": "quota", "namespace": words[0], "hard": _amounts(words[1])}


PLACES = {"node": "nodes", "net": "hypernodes", "queue": "queues", "gang": "podgroups",
          "quota": "resource_quotas"}  # fmt: skip
MAKERS = {"node": _node, "net": _net, "queue": _queue, "gang": _gang, "quota": _quota}


def _full(name: str) -> str:
    return name if "/" in name else f"default/{name}"


def _pairs(words: list[str]) -> dict[str, str]:
    return {_full(k): v for k, v in (w.rsplit(":", 1) for w in words)}


def _binds(expect: dict[str, Any], words: list[str]) -> None:
    expect["binds"] = _pairs(words)
    expect["bind_count"] = len(words)


def _evicts(expect: dict[str, Any], words: list[str]) -> None:
    expect["evicted"] = [_full(w) for w in words]
    expect["evict_count"] = len(words)


EXPECTED: dict[str, Any] = {
    "binds": _binds,
    "evicts": _evicts,
    "bound": lambda e, w: e.update(bind_count=int(w[0])),
    "evicted": lambda e, w: e.update(evict_count=int(w[0])),
    "promised": lambda e, w: e.update(
        pipelined={k: v.split(",") for k, v in _pairs(w).items()}
    ),
    "phase": lambda e, w: e.update(phases=_pairs(w)),
    "hold": lambda e, w: e.update(
        allocated_per_podgroup={k: int(v) for k, v in _pairs(w).items()}
    ),
    "scores": lambda e, w: e.setdefault("scores", {}).update(
        {_full(w[0]): {k: float(v) for k, v in (x.rsplit(":", 1) for x in w[1:])}}
    ),
    "domains": lambda e, w: e.update(binds_per_lowest_hypernode_sorted=[int(x) for x in w]),
}  # fmt: skip


def replay_text(text: str, file: str = "", cycles: int = 1) -> list[Outcome]:
    """Decide on every snapshot in a text. Raises BatchFileError."""
    return [replay(s, cycles, lent()) for s in read_snapshots(text, known_plugins(), file)]
