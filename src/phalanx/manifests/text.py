"""The reading of YAML. Harmful text is refused before any value is built.

A manifest has at most a megabyte, 100,000 lines and nodes, 1,000 documents and 50 levels. Aliases
are not allowed, because three hundred bytes of aliases can mean billions of values. These bounds
are checked on the parser's events, before any value is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from phalanx.manifests.document import Text
from phalanx.manifests.findings import Finding, ManifestError

MAX_BYTES = 1_000_000
MAX_NODES = 100_000
"""The largest number of scalars, lists and mappings together. The same bound applies to lines,
which are faster to count.
"""
MAX_DOCUMENTS = 1_000
MAX_DEPTH = 50
MAX_DIGITS = 80
"""The largest number of digits of a whole number."""

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_NUMBERS = {
    f"{_TAG}int": re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)$"),
    f"{_TAG}float": re.compile(r"[-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+][0-9]+)?$"),
}


class _Loader(_BASE):  # type: ignore[misc]
    """A safe loader that leaves dates and times of day as text, like all readers of manifests."""

    yaml_implicit_resolvers = {  # noqa: RUF012 -- PyYAML's own way of narrowing a loader
        first: [(tag, _NUMBERS.get(tag, rule)) for tag, rule in pairs if tag != f"{_TAG}timestamp"]
        for first, pairs in _BASE.yaml_implicit_resolvers.items()
    }


def _whole(loader: Any, node: yaml.ScalarNode) -> int:
    """Return a whole number of at most 64 bits. A much longer number could not even be printed by
    Python.
    """
    value: int = loader.construct_yaml_int(node) if len(node.value) <= MAX_DIGITS else 2**64
    if abs(value) >= 2**63:
        shown = node.value if len(node.value) <= MAX_DIGITS else f"{node.value[:20]}..."
        reason = f"{shown} is not between -2^63 and 2^63"
        raise _refusal("number_too_large", reason, node.start_mark.line + 1, "")
    return value


_Loader.add_constructor(f"{_TAG}int", _whole)


def load(text: str | bytes, file: str = "") -> list[Text]:
    """Return the documents of a file that are not empty. Raises ManifestError."""
    try:
        raw = text if isinstance(text, bytes) else text.encode()
        size, lines = len(raw), raw.count(b"\n")
        if size > MAX_BYTES:
            reason = f"this has {size} bytes; a manifest may have at most {MAX_BYTES}"
            raise _refusal("too_large", reason, 1, file)
        if lines > MAX_NODES:
            reason = f"this has {lines} lines; a manifest may have at most {MAX_NODES}"
            raise _refusal("too_many_lines", reason, MAX_NODES, file)
        _check(text, file)
        return list(_documents(text, file))
    except yaml.MarkedYAMLError as e:
        line = e.problem_mark.line + 1 if e.problem_mark else None
        raise _refusal("not_yaml", f"this is not YAML: {e.problem or e}", line, file) from e
    except yaml.reader.ReaderError as e:
        reason = f"this is not text: {e.reason} at character {e.position}"
        raise _refusal("not_text", reason, None, file) from e
    except UnicodeError as e:
        raise _refusal("not_text", f"this is not text: {e}", None, file) from e


def _refusal(code: str, reason: str, line: int | None, file: str) -> ManifestError:
    return ManifestError([Finding(path="", code=code, reason=reason, line=line)], file)


def _check(text: str | bytes, file: str) -> None:
    """Check the parser's events against the bounds. Unlike building the values, this needs no
    recursion, so deep nesting does no harm. Raises ManifestError at the first event that exceeds a
    bound.
    """
    nodes = depth = documents = 0
    loader = _Loader(text)
    try:
        while (event := loader.get_event()) is not None:
            kind = event.__class__
            if kind is yaml.ScalarEvent:
                nodes += 1
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                nodes += 1
                depth += 1
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                depth -= 1
            elif kind is yaml.AliasEvent:
                line = event.start_mark.line + 1
                reason = f"aliases are not followed; write out what *{event.anchor} stands for"
                raise _refusal("alias", reason, line, file)
            elif kind is yaml.DocumentStartEvent:
                documents += 1
            elif kind is yaml.StreamEndEvent:
                return
            over = _over(nodes, depth, documents)
            if over is not None:
                raise _refusal(*over, event.start_mark.line + 1, file)
    finally:
        loader.dispose()


def _over(nodes: int, depth: int, documents: int) -> tuple[str, str] | None:
    if depth > MAX_DEPTH:
        return "too_deep", f"more than {MAX_DEPTH} levels of nesting"
    if nodes > MAX_NODES:
        return "too_many_nodes", f"more than {MAX_NODES} values"
    if documents > MAX_DOCUMENTS:
        return "too_many_documents", f"more than {MAX_DOCUMENTS} documents"
    return None


def _documents(text: str | bytes, file: str) -> Iterator[Text]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            _no_doubles(node, file)
            try:
                value = loader.construct_document(node)
            except ManifestError as e:
                raise ManifestError(e.findings, file) from None
            except (ValueError, OverflowError, TypeError, AttributeError, KeyError) as e:
                line = node.start_mark.line + 1
                reason = f"a value in this document cannot be read: {e}"
                raise _refusal("bad_value", reason, line, file) from e
            if value is not None:
                yield Text(value, node)
    finally:
        loader.dispose()


def _no_doubles(node: yaml.Node, file: str) -> None:
    """Raise ManifestError for a key that is given twice. Keeping only its last value would hide a
    mistake.
    """
    todo = [node]
    while todo:
        here = todo.pop()
        if isinstance(here, yaml.SequenceNode):
            todo += here.value
        elif isinstance(here, yaml.MappingNode):
            seen = set()
            for key, value in here.value:
                if not isinstance(key, yaml.ScalarNode):
                    line = key.start_mark.line + 1
                    raise _refusal("key_not_text", "a key must be text", line, file)
                if key.value in seen:
                    line = key.start_mark.line + 1
                    reason = f"the key {key.value!r} is given twice"
                    raise _refusal("key_twice", reason, line, file)
                seen.add(key.value)
                todo.append(value)
