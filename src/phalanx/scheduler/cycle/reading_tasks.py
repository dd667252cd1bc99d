"""A reader of the fields of a task that determine where it may run."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from phalanx.scheduler.cycle import specs as s
from phalanx.scheduler.cycle.amounts import MAX_IN_ALL, MAX_OF_ONE, units
from phalanx.scheduler.cycle.documents import Place

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


class ShapeReader:
    """Reads shapes. Equal tasks share one Shape object, so thousands of tasks need only a few
    objects.
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "namespace", "request", "limits", "images", "role", "labels", "nodeSelector",
        "tolerations", "affinity", "revocable_zone", "topology_spread", "ports", "annotations",
    )  # fmt: skip

    def __init__(self) -> None:
        self._seen: dict[bytes, s.Shape] = {}

    def read(self, at: Place) -> s.Shape:
        written: dict[str, Any] = {k: at.value.get(k) for k in self.KEYS}
        try:
            key = msgspec.json.encode(written)
        except TypeError:
            key = repr(written).encode()
        shape = self._seen.get(key)
        if shape is None:
            shape = self._seen[key] = _shape(at)
        return shape


def _shape(at: Place) -> s.Shape:
    return s.Shape(
        namespace=at.get("namespace").text("default"),
        request=amounts_of(at.get("request"), MAX_OF_ONE),
        limits=amounts_of(at.get("limits")),
        images=at.get("images").texts(),
        role=at.get("role").text(""),
        labels=labels_of(at.get("labels")),
        selector=labels_of(at.get("nodeSelector")),
        tolerations=tuple(_toleration(p) for p in at.get("tolerations").items()),
        affinity=_affinity(at.get("affinity")) if at.has("affinity") else None,
        spread=tuple(_spread(p) for p in at.get("topology_spread").items()),
        ports=tuple(p.whole() for p in at.get("ports").items()),
        revocable_zone=at.get("revocable_zone").text(""),
        annotations=labels_of(at.get("annotations")),
    )


def amounts_of(at: Place, most: int = MAX_IN_ALL) -> s.Amounts:
    """Read `{name: number}`. Negative amounts are refused, and so are amounts above `most` counted
    units.
    """
    pairs = []
    for name, value in at.members().items():
        x = value.number()
        if not 0 <= x <= most / units(name):
            value.fail(f"an amount of {name} must be from 0 to {most / units(name):g}, not {x:g}")
        pairs.append((name, x))
    return tuple(pairs)


def labels_of(at: Place) -> s.Labels:
    """Read `{key: value}`, sorted by key. Numbers and flags become the text that YAML writes for
    them.
    """
    pairs = []
    for key, value in at.members().items():
        v = value.value
        if isinstance(v, bool):
            v = "true" if v else "false"
        elif isinstance(v, int | float):
            v = f"{v:g}"
        elif not isinstance(v, str):
            value.fail(f"the value of label {key!r} must be text")
        pairs.append((key, v))
    return tuple(sorted(pairs))


def texts_of(at: Place, key: str) -> tuple[str, ...] | None:
    return at.get(key).texts() if at.get(key).value is not None else None


def matches_of(at: Place) -> tuple[s.Match, ...]:
    """Read `match_labels` and `match_expressions` (or `matchLabels`, `matchExpressions`)
    together."""
    out = []
    for key in ("match_labels", "matchLabels"):
        out += [s.Match(key=k, op="In", values=(v,)) for k, v in labels_of(at.get(key))]
    for key in ("match_expressions", "matchExpressions"):
        for e in at.get(key).items():
            e.keys("key", "op", "operator", "values")
            op = e.get("op").text(e.get("operator").text("In"))
            if op not in OPERATORS:
                e.fail(f"{op!r} is not an operator; allowed: {', '.join(OPERATORS)}")
            values = tuple(str(v.value) for v in e.get("values").items())
            out.append(s.Match(key=e.need("key").text(), op=op, values=values))
    return tuple(out)


def _toleration(at: Place) -> s.Toleration:
    at.keys("key", "operator", "op", "value", "effect", "tolerationSeconds")
    return s.Toleration(
        key=at.get("key").text(""),
        operator=at.get("operator").text(at.get("op").text("Equal")),
        value=at.get("value").text(""),
        effect=at.get("effect").text(""),
    )


def _spread(at: Place) -> s.Spread:
    at.keys(
        "max_skew", "maxSkew", "topology_key", "topologyKey", "when_unsatisfiable",
        "whenUnsatisfiable", *_SELECTING,
    )  # fmt: skip
    key = at.get("topology_key").text(at.get("topologyKey").text(""))
    if not key:
        at.fail("a topology spread lacks 'topology_key'")
    missed = at.get("when_unsatisfiable").text(at.get("whenUnsatisfiable").text("DoNotSchedule"))
    return s.Spread(
        max_skew=at.get("max_skew").whole(at.get("maxSkew").whole(1)),
        topology_key=key,
        matches=_selected(at),
        hard=missed == "DoNotSchedule",
    )


_MATCHING = ("match_labels", "matchLabels", "match_expressions", "matchExpressions")


def _affinity(at: Place) -> s.Affinity:
    """Read an affinity. The form is either short (`pod_affinity_required`: a list of terms) or that
    of Kubernetes.
    """
    at.keys(
        "node_required", "node_affinity_required", "node_preferred", "node_affinity_preferred",
        "pod_affinity_required", "pod_affinity_preferred", "pod_anti_affinity_required",
        "pod_anti_affinity_preferred", "nodeAffinity", "podAffinity", "podAntiAffinity",
    )  # fmt: skip
    must, may = "requiredDuringSchedulingIgnoredDuringExecution", _PREFERRED
    node = at.get("nodeAffinity").keys(must, may)
    near = at.get("podAffinity").keys(must, may)
    apart = at.get("podAntiAffinity").keys(must, may)
    required = node.get(must)
    if required.value is not None:
        required = required.keys("nodeSelectorTerms").get("nodeSelectorTerms")

    def both(place: Place, *keys: str) -> list[Place]:
        return [*place.items(), *(p for key in keys for p in at.get(key).items())]

    return s.Affinity(
        node_required=tuple(
            matches_of(p.keys(*_MATCHING))
            for p in both(required, "node_required", "node_affinity_required")
        ),
        node_preferred=tuple(
            s.PreferredNode(weight=p.get("weight").whole(1), matches=_preference(p))
            for p in both(node.get(may), "node_preferred", "node_affinity_preferred")
        ),
        pod_required=tuple(_term(p) for p in both(near.get(must), "pod_affinity_required")),
        pod_preferred=tuple(_term(p) for p in both(near.get(may), "pod_affinity_preferred")),
        pod_anti_required=tuple(
            _term(p) for p in both(apart.get(must), "pod_anti_affinity_required")
        ),
        pod_anti_preferred=tuple(
            _term(p) for p in both(apart.get(may), "pod_anti_affinity_preferred")
        ),
    )


_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _preference(at: Place) -> tuple[s.Match, ...]:
    at.keys("weight", "preference", *_MATCHING)
    inner = at.get("preference")
    return matches_of(inner.keys(*_MATCHING)) if inner.value is not None else matches_of(at)


def _term(at: Place) -> s.PodTerm:
    weight = at.get("weight").whole(1)
    for name in ("podAffinityTerm", "term"):
        if at.has(name):
            at = at.keys("weight", name).get(name)
    at.keys("weight", "topology_key", "topologyKey", "namespaces", *_SELECTING)
    key = at.get("topology_key").text(at.get("topologyKey").text(""))
    if not key:
        at.fail("a pod affinity term lacks 'topology_key'")
    return s.PodTerm(
        matches=_selected(at),
        topology_key=key,
        namespaces=at.get("namespaces").texts(),
        weight=weight,
    )


def _selected(at: Place) -> tuple[s.Match, ...]:
    """Return the requirements at this place in a file, and those in the label selector there."""
    out = matches_of(at)
    for key in ("label_selector", "labelSelector"):
        out += matches_of(at.get(key).keys(*_MATCHING))
    return out


_SELECTING = (*_MATCHING, "label_selector", "labelSelector")
