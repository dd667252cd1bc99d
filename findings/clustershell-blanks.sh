#!/usr/bin/env bash
# Asked: ClusterShell: how many nodes does `NodeSet` read from a host file's lines, "n1\nn2\n", or
#   from "n[1-2] m3", as command lines separate nodes?
# Good guess: Two and three nodes, or an error that names the blank.
# Truth: One node whose name contains the line break, and two nodes named "n1 m3" and "n2 m3". Only
#   commas separate nodes.
# Seen with: ClusterShell==1.10.1, Python 3.11, Linux, 2026-11-29.
# Source: ClusterShell/NodeSet.py, ParsingEngine._scan_string.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check ClusterShell==1.10.1
cat > "$work/program.py" <<'PROGRAM'
from importlib.metadata import version

from ClusterShell.NodeSet import NodeSet

print("ClusterShell", version("ClusterShell"))
lines, words, commas = (list(NodeSet(text)) for text in ("n1\nn2\n", "n[1-2] m3", "n[1-2], m3"))
print("lines:", lines)
print("words:", words)
print("commas:", commas)
assert lines == ["n1\nn2"]
assert words == ["n1 m3", "n2 m3"]
assert commas == ["m3", "n1", "n2"]
PROGRAM
"$work/venv/bin/python" "$work/program.py"
