"""A reader of snapshot files. It refuses unknown keys and wrong amounts, and names their line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from phalanx.scheduler.cycle import specs as s
from phalanx.scheduler.cycle.amounts import MAX_IN_ALL, MAX_OF_ONE, units
from phalanx.scheduler.cycle.config import Known, read_config
from phalanx.scheduler.cycle.documents import Document, Place
from phalanx.scheduler.cycle.reading_tasks import ShapeReader, labels_of, matches_of, texts_of
from phalanx.scheduler.cycle.reading_tasks import amounts_of as amounts_of  # noqa: PLC0414 -- read from here
from phalanx.scheduler.devices.ports import LAST_PORT

FORMAT = "phalanx-snapshot/1"
PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
QUEUE_STATES = ("Open", "Closed", "Closing", "Unknown")
DEEPEST = 100
"""The greatest depth of any tree in a snapshot."""
T = TypeVar("T")


def read_snapshots(text: str, known_plugins: Known, file: str = "") -> tuple[s.Snapshot, ...]:
    """Read the snapshots of a file. The file contains one snapshot, or a list of them under
    `snapshots`.

    Raises BatchFileError with file, line and reason.
    """
    root = Document(text, file).root
    if isinstance(root.value, dict) and "snapshots" in root.value:
        root.keys("format", "name", "notes", "snapshots")
        _check_format(root)
        return tuple(_snapshot(p, known_plugins) for p in root.get("snapshots").items())
    _check_format(root)
    return (_snapshot(root, known_plugins),)


def holds_list(text: str) -> bool:
    """Whether a valid text contains a list of snapshots, and not a single snapshot."""
    return "snapshots" in text and "snapshots" in Document(text).root.members()


def _check_format(at: Place) -> None:
    if at.get("format").text(FORMAT) != FORMAT:
        at.get("format").fail(f"the format is {FORMAT!r}, not {at.get('format').value!r}")


def _snapshot(at: Place, known: Known) -> s.Snapshot:
    at.keys(
        "format", "name", "notes", "config", "nodes", "hypernodes", "queues", "podgroups",
        "tasks", "resource_quotas", "disruption_budgets", "reservations", "licenses", "now", "seed",
        "last_acted", "expect",
    )  # fmt: skip
    shapes = ShapeReader()
    snapshot = s.Snapshot(
        name=at.get("name").text(""),
        notes=at.get("notes").text(""),
        config=read_config(at.need("config"), known),
        nodes=_each(at, "nodes", _node),
        hypernodes=_each(at, "hypernodes", _hypernode),
        queues=_each(at, "queues", queue_of),
        podgroups=_each(at, "podgroups", _podgroup),
        tasks=tuple(_task(p, shapes) for p in at.get("tasks").items()),
        quotas=_each(at, "resource_quotas", _quota),
        budgets=_each(at, "disruption_budgets", _budget),
        reservations=_each(at, "reservations", _reservation),
        licenses=tuple(
            s.LicenseSpec(name=name, total=_count(total, 0))
            for name, total in at.get("licenses").members().items()
        ),
        now=at.get("now").number(0.0),
        seed=at.get("seed").whole(0),
        last_acted=tuple((k, v.number()) for k, v in at.get("last_acted").members().items()),
        expect=_expect(at.get("expect")) if at.has("expect") else None,
    )
    _check_names(at, snapshot)
    _check_sums(at.get("nodes"), (n.capacity for n in snapshot.nodes))
    _check_sums(at.get("tasks"), (t.shape.request for t in snapshot.tasks))
    _check_domains(at.get("hypernodes"), snapshot.hypernodes)
    return snapshot


def _each(at: Place, key: str, read: Callable[[Place], T]) -> tuple[T, ...]:
    return tuple(read(p) for p in at.get(key).items())


def _check_names(at: Place, snapshot: s.Snapshot) -> None:
    """Refuse duplicate names, and references to names that do not exist."""
    named: tuple[tuple[str, Iterable[str]], ...] = (
        ("nodes", (n.name for n in snapshot.nodes)),
        ("hypernodes", (h.name for h in snapshot.hypernodes)),
        ("queues", (q.name for q in snapshot.queues)),
        ("podgroups", (g.uid for g in snapshot.podgroups)),
        ("tasks", (t.uid for t in snapshot.tasks)),
        ("reservations", (r.name for r in snapshot.reservations)),
    )
    for key, names in named:
        seen: set[str] = set()
        for i, name in enumerate(names):
            if name in seen:
                at.get(key).items()[i].fail(f"{key} holds {name!r} twice")
            seen.add(name)
    nodes = {n.name for n in snapshot.nodes}
    for i, task in enumerate(snapshot.tasks):
        if task.node and task.node not in nodes:
            spot = at.get("tasks").items()[i].get("node")
            spot.fail(f"task {task.uid} is on node {task.node!r}, which is not listed")


def _check_sums(at: Place, rows: Iterable[s.Amounts]) -> None:
    """Refuse amounts whose total does not fit into 64 bits."""
    sums: dict[str, float] = {}
    for i, amounts in enumerate(rows):
        for name, x in amounts:
            sums[name] = sums.get(name, 0.0) + x
            if sums[name] > MAX_IN_ALL / units(name):
                most = f"{MAX_IN_ALL / units(name):g}"
                at.items()[i].fail(f"with this one there is more than {most} of {name} in all")


def _check_domains(at: Place, hypernodes: Sequence[s.HyperNodeSpec]) -> None:
    """Refuse domains that are nested too deeply, or that contain themselves."""
    parents = {h.name: h.parent for h in hypernodes}
    for h in sorted(hypernodes, key=lambda h: h.name):
        for child in h.children:
            parents[child] = parents.get(child) or h.name
    for i, h in enumerate(hypernodes):
        seen, name = set[str](), h.name
        while name and name not in seen and len(seen) <= DEEPEST:
            seen.add(name)
            name = parents.get(name, "")
        if name:
            found = f"lies within more than {DEEPEST} others, or within itself"
            at.items()[i].fail(f"hypernode {h.name!r} {found}")


def _maybe_amounts(at: Place, key: str) -> s.Amounts | None:
    return amounts_of(at.get(key)) if at.has(key) else None


def _maybe_number(at: Place, key: str) -> float | None:
    return at.get(key).number() if at.has(key) else None


def _count(at: Place, default: int) -> int:
    given = at.whole(default)
    if given < 0:
        at.fail(f"{at.path[-1]} must be 0 or more, not {given}")
    return given


def _one_of(at: Place, allowed: tuple[str, ...], default: str) -> str:
    value = at.text(default)
    if value not in allowed:
        at.fail(f"{value!r} is not allowed; allowed: {', '.join(allowed)}")
    return value


def _node(at: Place) -> s.NodeSpec:
    at.keys(
        "name", "capacity", "labels", "taints", "annotations", "unschedulable", "usage",
        "usage_at", "numa", "devices", "images", "ports",
    )  # fmt: skip
    return s.NodeSpec(
        name=at.need("name").text(),
        capacity=amounts_of(at.get("capacity"), MAX_OF_ONE),
        labels=labels_of(at.get("labels")),
        taints=_each(at, "taints", _taint),
        annotations=labels_of(at.get("annotations")),
        unschedulable=at.get("unschedulable").flag(False),
        usage=amounts_of(at.get("usage")),
        usage_at=_maybe_number(at, "usage_at"),
        numa=_each(at, "numa", amounts_of),
        devices=_each(at, "devices", _device),
        images=amounts_of(at.get("images")),
        ports=_each(at, "ports", _port_range),
    )


def _port_range(at: Place) -> tuple[int, int]:
    pair = [end.whole() for end in at.items()]
    if len(pair) != 2 or not 0 <= pair[0] <= pair[1] <= LAST_PORT:
        at.fail(f"a range of ports must be [first, last], within 0 and {LAST_PORT}")
    return pair[0], pair[1]


def _device(at: Place) -> tuple[float, float]:
    at.keys("memory", "used")
    return (at.need("memory").number(), at.get("used").number(0.0))


def _taint(at: Place) -> s.Taint:
    at.keys("key", "value", "effect", "timeAdded")
    effect = _one_of(
        at.get("effect"), ("NoSchedule", "PreferNoSchedule", "NoExecute"), "NoSchedule"
    )
    return s.Taint(key=at.need("key").text(), value=at.get("value").text(""), effect=effect)


def _hypernode(at: Place) -> s.HyperNodeSpec:
    at.keys("name", "tier", "tier_name", "nodes", "parent", "children")
    return s.HyperNodeSpec(
        name=at.need("name").text(),
        tier=at.need("tier").whole(),
        tier_name=at.get("tier_name").text(""),
        nodes=at.get("nodes").texts(),
        parent=at.get("parent").text(""),
        children=at.get("children").texts(),
    )


def queue_of(at: Place) -> s.QueueSpec:
    """Read one row of `queues`."""
    at.keys(
        "name", "weight", "priority", "state", "capability", "deserved", "guarantee",
        "reclaimable", "parent", "hierarchy_path", "hierarchy_weights", "affinity", "created",
        "cohort", "borrowing_limit", "lending_limit", "past_usage", "default_time_s", "max_time_s",
        "annotations", "users",
    )  # fmt: skip
    return s.QueueSpec(
        name=at.need("name").text(),
        weight=_count(at.get("weight"), 1),
        priority=at.get("priority").whole(0),
        state=_one_of(at.get("state"), QUEUE_STATES, "Open"),
        capability=amounts_of(at.get("capability")),
        deserved=amounts_of(at.get("deserved")),
        guarantee=amounts_of(at.get("guarantee")),
        reclaimable=at.get("reclaimable").flag(True),
        parent=at.get("parent").text(""),
        hierarchy_path=_path(at.get("hierarchy_path")),
        hierarchy_weights=_plain(at.get("hierarchy_weights")),
        affinity=_group_affinity(at.get("affinity")) if at.has("affinity") else None,
        created=_maybe_number(at, "created"),
        cohort=at.get("cohort").text(""),
        borrowing_limit=_maybe_amounts(at, "borrowing_limit"),
        lending_limit=_maybe_amounts(at, "lending_limit"),
        past_usage=at.get("past_usage").number(0.0),
        default_time_s=_maybe_number(at, "default_time_s"),
        max_time_s=_maybe_number(at, "max_time_s"),
        annotations=labels_of(at.get("annotations")),
        users=_users(at.get("users")),
    )


def _users(at: Place) -> tuple[s.UserShare, ...]:
    found: dict[str, s.UserShare] = {}
    for row in at.items():
        row.keys("name", "shares", "use", "at")
        name = row.need("name").text()
        if name in found:
            row.fail(f"the user {name!r} is given twice")
        shares, use = row.get("shares").number(1.0), row.get("use").number(0.0)
        for key, given in (("shares", shares), ("use", use)):
            if given < 0:
                row.fail(f"{key} of a user must be 0 or more, not {given:g}")
        when = _maybe_number(row, "at")
        if use and when is None:
            row.fail("a user's use needs the time 'at' for which it holds")
        found[name] = s.UserShare(name=name, shares=shares, use=use, at=when)
    return tuple(found.values())


def _path(at: Place) -> str:
    path = at.text("")
    if path.count("/") > DEEPEST:
        at.fail(f"a hierarchy_path has at most {DEEPEST} steps, not {path.count('/')}")
    return path


def _plain(at: Place) -> str:
    """Read a value as text, even if YAML has read it as a number (for example a weight "1")."""
    good = isinstance(at.value, int | float) and not isinstance(at.value, bool)
    return f"{at.value:g}" if good else at.text("")


def _group_affinity(at: Place) -> s.GroupAffinity:
    at.keys("nodegroup_affinity", "nodegroup_anti_affinity")
    near = at.get("nodegroup_affinity").keys("required", "preferred")
    far = at.get("nodegroup_anti_affinity").keys("required", "preferred")
    return s.GroupAffinity(
        required=near.get("required").texts(),
        preferred=near.get("preferred").texts(),
        anti_required=far.get("required").texts(),
        anti_preferred=far.get("preferred").texts(),
    )


def _topology(at: Place) -> s.NetworkTopology | None:
    if at.value is None:
        return None
    at.keys("mode", "highest_tier_allowed", "highest_tier_name")
    if at.has("highest_tier_allowed") and at.has("highest_tier_name"):
        at.fail("highest_tier_allowed and highest_tier_name exclude each other")
    mode = _one_of(at.get("mode"), ("hard", "soft", ""), "hard")
    if not mode:
        return None
    tier = at.get("highest_tier_allowed")
    return s.NetworkTopology(
        mode="hard" if mode == "hard" else "soft",
        highest_tier=tier.whole() if tier.value is not None else None,
        highest_tier_name=at.get("highest_tier_name").text(""),
    )


def _subgroup(at: Place) -> s.SubgroupPolicy:
    at.keys("name", "match_label_keys", "subgroup_size", "min_subgroups", "network_topology")
    size = at.get("subgroup_size")
    return s.SubgroupPolicy(
        name=at.need("name").text(),
        match_label_keys=at.get("match_label_keys").texts(),
        size=size.whole() if size.value is not None else None,
        minimum=at.get("min_subgroups").whole(0),
        topology=_topology(at.get("network_topology")),
    )


def _podgroup(at: Place) -> s.PodGroupSpec:
    at.keys(
        "name", "namespace", "queue", "minMember", "minTaskMember", "minResources", "priority",
        "priority_class", "phase", "annotations", "network_topology", "allocated_hypernode",
        "subgroup_policies", "created", "user", "group", "run_time_s", "started", "ran_s",
        "turn", "promised", "port_count", "ports", "tried", "reservation", "licenses",
    )  # fmt: skip
    minimums = at.get("minTaskMember").members()
    return s.PodGroupSpec(
        name=at.need("name").text(),
        namespace=at.get("namespace").text("default"),
        queue=at.get("queue").text("default"),
        min_member=at.get("minMember").whole(0),
        min_task_member=tuple((role, n.whole()) for role, n in minimums.items()),
        min_resources=_maybe_amounts(at, "minResources"),
        priority=at.get("priority").whole(0),
        priority_class=at.get("priority_class").text(""),
        phase=_one_of(at.get("phase"), (*PHASES, ""), "Pending") or "Pending",
        annotations=labels_of(at.get("annotations")),
        topology=_topology(at.get("network_topology")),
        allocated_hypernode=at.get("allocated_hypernode").text(""),
        subgroups=_each(at, "subgroup_policies", _subgroup),
        created=_maybe_number(at, "created"),
        user=at.get("user").text(""),
        group=at.get("group").text(""),
        run_time_s=_maybe_number(at, "run_time_s"),
        started=_maybe_number(at, "started"),
        ran_s=at.get("ran_s").number(0.0),
        turn=at.get("turn").whole() if at.has("turn") else None,
        promised=at.get("promised").flag(False),
        port_count=_count(at.get("port_count"), 0),
        ports=tuple(port.whole() for port in at.get("ports").items()),
        tried=tuple((node, amounts_of(x)) for node, x in at.get("tried").members().items()),
        reservation=at.get("reservation").text(""),
        licenses=tuple((n, _count(x, 0)) for n, x in at.get("licenses").members().items()),
    )


TASK_PHASES = ("Pending", "Running", "Releasing", "Succeeded", "Failed", "Unknown")


def _task(at: Place, shapes: ShapeReader) -> s.TaskSpec:
    at.keys(
        "name", "podgroup", "node", "phase", "priority", "preemptable", "preemption_policy",
        "created", "started", "nominated_node", "home", "card",
        *ShapeReader.KEYS,
    )  # fmt: skip
    phase = _one_of(at.get("phase"), TASK_PHASES, "Pending")
    return s.TaskSpec(
        name=at.need("name").text(),
        podgroup=at.get("podgroup").text(""),
        shape=shapes.read(at),
        node=at.get("node").text(""),
        phase=phase,
        priority=at.get("priority").whole(1),
        preemptable=at.get("preemptable").flag(True),
        preemption_policy=at.get("preemption_policy").text(""),
        created=_maybe_number(at, "created"),
        started=_maybe_number(at, "started"),
        nominated_node=at.get("nominated_node").text(""),
        home=at.get("home").text(""),
        card=at.get("card").whole(-1),
    )


def _reservation(at: Place) -> s.ReservationSpec:
    at.keys("name", "places", "windows", "users", "queues", "maintenance")
    return s.ReservationSpec(
        name=at.need("name").text(),
        places=tuple((node, amounts_of(x)) for node, x in at.get("places").members().items()),
        windows=_each(at, "windows", _window),
        users=at.get("users").texts(),
        queues=at.get("queues").texts(),
        maintenance=at.get("maintenance").flag(False),
    )


def _window(at: Place) -> tuple[float, float | None]:
    at.keys("begin", "end")
    begin = at.need("begin").number()
    end = at.get("end").number() if at.has("end") else None
    if end is not None and end <= begin:
        at.get("end").fail(f"a window must end after it begins, not at {end:g}")
    return begin, end


def _quota(at: Place) -> s.QuotaSpec:
    at.keys("name", "namespace", "hard")
    return s.QuotaSpec(
        name=at.get("name").text(""),
        namespace=at.get("namespace").text("default"),
        hard=amounts_of(at.get("hard")),
    )


def _budget(at: Place) -> s.BudgetSpec:
    at.keys("name", "namespace", "match_labels", "match_expressions", "min_available",
            "max_unavailable")  # fmt: skip
    return s.BudgetSpec(
        name=at.get("name").text(""),
        namespace=at.get("namespace").text("default"),
        matches=matches_of(at),
        min_available=_plain(at.get("min_available")),
        max_unavailable=_plain(at.get("max_unavailable")),
    )


def _expect(at: Place) -> s.Expectation:
    at.keys(
        "binds", "bind_count", "evicted", "evict_count", "pipelined", "phases",
        "binds_per_lowest_hypernode_sorted", "allocated_per_podgroup",
    )  # fmt: skip

    def count(key: str) -> int | None:
        return at.get(key).whole() if at.has(key) else None

    def table(key: str, read: Callable[[Place], Any]) -> dict[str, Any] | None:
        if not at.has(key):
            return None
        return {k: read(v) for k, v in at.get(key).members().items()}

    per_domain = at.get("binds_per_lowest_hypernode_sorted")
    return s.Expectation(
        binds=table("binds", lambda p: p.text()),
        bind_count=count("bind_count"),
        evicted=texts_of(at, "evicted"),
        evict_count=count("evict_count"),
        pipelined=table("pipelined", lambda p: p.texts()),
        phases=table("phases", lambda p: p.text()),
        binds_per_lowest_hypernode_sorted=(
            tuple(p.whole() for p in per_domain.items()) if per_domain.value is not None else None
        ),
        allocated_per_podgroup=table("allocated_per_podgroup", lambda p: p.value),
    )
