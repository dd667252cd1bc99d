"""Texts that are refused before they are parsed, each with the line of the fault and the reason."""

from __future__ import annotations

import pytest

from phalanx.manifests.findings import ManifestError
from phalanx.manifests.reading import read_manifests
from phalanx.manifests.text import MAX_BYTES, load

BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)

REFUSED = {
    "too_large": "a: " + "x" * MAX_BYTES,
    "alias": "a: &x 1\nb: *x\n",
    "too_deep": "[" * 51 + "]" * 51,
    "too_many_nodes": "- [a, b, c]\n" * 30_000,
    "too_many_lines": "- a\n" * 100_001,
    "too_many_documents": "---\n" * 1_001,
    "key_twice": "a: 1\nb: 2\na: 3\n",
    "key_not_text": "? [a]\n: 1\n",
    "not_yaml": "a: [1\n",
    "not_text": "a: \x00\n",
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_is_out_of_bounds_is_refused(code) -> None:
    with pytest.raises(ManifestError) as refusal:
        load(REFUSED[code], "f.yaml")
    (finding,) = refusal.value.findings
    assert finding.code == code
    assert "f.yaml" in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (BOMB, "alias"),
        ("[" * 100_000, "too_deep"),
        ("- " * 400_000, "too_deep"),
        ("? " * 400_000, "too_deep"),
        ("a:\n" + "".join(" " * i + "a:\n" for i in range(1, 1000)), "too_deep"),
        (b"\xff\xfe\x00\x00", "not_text"),
        (b"a: \xc3\x28", "not_text"),
        ("a: !!python/object/apply:os.system [ls]", "not_yaml"),
        ("a: !!timestamp x", "bad_value"),
        ("- &a [*a]", "alias"),
    ],
)
def test_bombs_and_garbage(text, code) -> None:
    with pytest.raises(ManifestError) as refusal:
        load(text)
    assert [f.code for f in refusal.value.findings] == [code]


def test_the_largest_that_is_allowed() -> None:
    (document,) = load("- a\n" * 99_999)
    assert len(document.value) == 99_999
    (document,) = load("[" * 50 + "]" * 50)
    assert load("") == []
    assert load("---\n---\n# nothing\n") == []


def test_lines() -> None:
    """A refusal names the line of the fault."""
    with pytest.raises(ManifestError) as refusal:
        load("a: &x 1\n\nb: *x\n")
    assert refusal.value.findings[0].line == 3
    (document,) = load("a:\n  b:\n  - c: 1\n  - d: 2\n")
    assert document.line() == 1
    assert document.line(("a", "b", 1, "d")) == 4
    assert document.line(("a", "b", 1, "nothing")) == 4
    assert document.line(("a", "b", 7)) == 2


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2026-11-21", "2026-11-21"),
        ("12:30:00", "12:30:00"),
        ("12:30", "12:30"),
        ("0x10", 16),
        ("1_000", 1000),
        ("1.5", 1.5),
        (".5", 0.5),
        ("true", True),
        ("~", None),
    ],
)
def test_dates_and_times_of_day_stay_text(written, value) -> None:
    (document,) = load(f"a: {written}")
    assert document.value["a"] == value


def test_a_refused_file_is_a_report_with_one_error() -> None:
    manifests, report = read_manifests(REFUSED["alias"])
    assert manifests == []
    assert [f.line for f in report.errors] == [2]
    assert "*x" in report.errors[0].reason
