"""Every field of every manifest with any value: the manifest is read, or refused with a message.
The head accepts those that are read, and continues with other people's work.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import msgspec
import pytest
from tests.fuzz.requests import KNOWN, SPECIAL
from tests.fuzz.running import try_out
from tests.fuzz.values import Maker
from tests.fuzz.world import PeopleWorld, is_meant

from phalanx.head.jobs.requests import KINDS
from phalanx.manifests.check import object_faults, read_for_submit
from phalanx.manifests.fields import Fields
from phalanx.manifests.findings import ManifestError
from phalanx.manifests.reading import Manifest, read_manifests
from phalanx.manifests.writing import as_data
from phalanx.model.jobs import states
from phalanx.protocol.requests import jobs as requests

Asked = dict[tuple[str | int, ...], set[str]]
"""The keys that readers ask for, by the path of their mapping."""


def asked_for(text: str) -> Asked:
    """Return the keys that the readers ask for in this file. Together they are the schema."""
    found: Asked = {}
    with pytest.MonkeyPatch.context() as patch:
        whole = Fields.raw

        def raw(self: Fields, key: str) -> Any:
            found.setdefault(self.path, set()).add(key)
            return whole(self, key)

        patch.setattr(Fields, "raw", raw)
        read_manifests(text)
    return found


def changed(maker: Maker, data: dict[str, Any]) -> dict[str, Any]:
    """Return the object with other values in a few of the fields that readers ask for."""
    data = copy.deepcopy(data)
    for _ in range(maker.rng.randint(0, 3)):
        asked = asked_for(json.dumps(data))
        if not asked:
            break  # what was put in before is no text
        path = maker.rng.choice(sorted(asked, key=repr))
        key = maker.rng.choice([*sorted(asked[path]), maker.text()])
        at: Any = data
        for step in path:
            if isinstance(at, dict):
                at = at.setdefault(step, {})
            else:
                at = (
                    at[step]
                    if isinstance(at, list) and isinstance(step, int) and step < len(at)
                    else None
                )
        if isinstance(at, dict):
            at[key] = maker.document()
    return data


def draw(rng: random.Random) -> list[str]:
    maker = Maker(rng, KNOWN, SPECIAL)
    texts = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice([*KINDS, "Job", "Job"])
        spec = maker.struct(KINDS[kind], rng.choice([0.5, 0.9]))
        try:
            written = as_data(
                Manifest(
                    kind=kind, name=spec.name, namespace=getattr(spec, "namespace", ""), spec=spec
                )
            )
        except (ValueError, OverflowError):
            continue  # a length of time that is no number
        text = json.dumps(changed(maker, written), ensure_ascii=rng.random() < 0.5)
        if maker.is_wild():
            at = rng.randrange(len(text))
            text = text[:at] + maker.text() + text[at + rng.randint(0, 5) :]
        texts.append(text)
    return texts


def test_manifests_harm_nobody_else() -> None:
    try_out(draw, are_read_or_refused, 150)


def are_read_or_refused(texts: list[str]) -> None:
    world = PeopleWorld()
    first = world.submit_bystander()
    for text in texts:
        try:
            manifests, _ = read_for_submit(text)
        except ManifestError as error:
            assert str(error).isprintable() or "\n" in str(error)
            continue
        for one in manifests:
            if one.kind not in KINDS or one.spec is None:
                continue
            if one.kind not in ("Queue", "JobTemplate"):
                assert object_faults(one.kind, one.spec) == [], "the head knows other rules"
            sent = requests.Manifest(one.kind, msgspec.msgpack.encode(one.spec))
            answer = world.request(requests.ApplyManifests([sent]))
            if answer.error is not None and not is_meant(answer.error):
                raise AssertionError(text[:500]) from answer.error
    world.forget_reservations()
    world.rounds()
    second = world.submit_bystander()
    world.rounds()
    assert world.state(first) == world.state(second) == states.RUNNING
    if world.internal_errors:
        raise AssertionError("defects") from world.internal_errors[0]
