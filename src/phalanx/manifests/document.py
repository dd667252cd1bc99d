"""A document of a YAML file, with the line of each of its parts.

This module does not import PyYAML, which is slow to import: a command that submits a job reads no
YAML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml


class Text:
    """One document of a file: its value, and the line of each part of the value."""

    def __init__(self, value: Any, node: yaml.Node | None) -> None:
        """Set up a document. `node` is None for a value that was not read from text."""
        self.value = value
        self._node = node
        self._keys: dict[int, dict[str, tuple[yaml.Node, yaml.Node]]] = {}
        """The nodes of each key and its value, by the key's name, for each mapping that was looked
        up (by its `id`).
        """

    def line(self, path: tuple[str | int, ...] = ()) -> int | None:
        """Return the line of the value at `path`. For a value in a mapping, this is the line of its
        key.

        If there is no such value, return the line of the innermost existing value on the path.
        Return None for a document without text.
        """
        node: Any = self._node
        if node is None:
            return None
        line: int = node.start_mark.line
        for step in path:
            child = None
            if node.id == "mapping":
                child = self._named(node).get(str(step))
            elif node.id == "sequence" and isinstance(step, int):
                item = node.value[step] if step < len(node.value) else None
                child = None if item is None else (item, item)
            if child is None:
                break
            line, node = child[0].start_mark.line, child[1]
        return line + 1

    def _named(self, node: yaml.MappingNode) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        known = self._keys.get(id(node))
        if known is None:
            # Each name occurs once, because a key that is given twice is refused.
            known = self._keys[id(node)] = {str(k.value): (k, v) for k, v in node.value}
        return known
