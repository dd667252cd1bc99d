"""The command `sbatch`: submits a script as a job that `#SBATCH` lines and options describe."""

from __future__ import annotations

import getpass
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from phalanx.adapters.slurm.commands.array_rows import each_index
from phalanx.adapters.slurm.commands.asked_nodes import AskedNodes
from phalanx.adapters.slurm.commands.numbers import with_number
from phalanx.adapters.slurm.commands.rows import code_text
from phalanx.adapters.slurm.commands.running import COMMANDS, OURS
from phalanx.adapters.slurm.commands.usage import address, read, refuse
from phalanx.adapters.slurm.options import BATCH, OptionError, from_environment
from phalanx.adapters.slurm.request import Shape, exported, job_spec, shape_of
from phalanx.adapters.slurm.script import WRAPPED, checked, directives, file_name
from phalanx.api.directories import current_directory
from phalanx.cli.ending import Ended
from phalanx.cli.reach import FAILED, ask
from phalanx.cli.table import say
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import split_element
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.rows.work import JobDescription
from phalanx.protocol.requests.jobs import GetJob, ListElements

_LOOK_EVERY_S = 0.1
"""Seconds between two questions about a job for which --wait waits."""
_PUT_UP = f"""\
if ! grep -qs '{OURS}' "$(command -v srun)"; then
  b="$PHALANX_FILES/own/slurm_commands"; mkdir -p "$b" || exit 1
  for c in {" ".join(COMMANDS)}; do
    printf '#!%s\\n{OURS}\\nmain("%s")\\n' "$PHALANX_PYTHON" "$c" >"$b/$c" || exit 1
  done
  chmod 700 "$b"/* || exit 1
  export PATH="$b:$PATH"
fi
"""
"""Shell lines that put Phalanx's versions of Slurm's commands first on a script's PATH. Otherwise
Slurm's own commands, if the machine has them, would ask another cluster.
"""
_STARTER = """\
f="$PHALANX_FILES/slurm_script"; [ -x "$f" ] || chmod 700 "$f" || exit 1
h=$(hostname -s 2>/dev/null || hostname)
a=${PHALANX_ARRAY_INDEX-}
name() {
  p="s/%N/$h/g;s/%a/$a/g"
  case $1 in *%[0-9]*a*)
    for w in 1 2 3 4 5 6 7 8 9 10; do p="$p;s/%0*${w}a/$(printf "%0${w}d" "$a")/g"; done
  esac
  case $1 in *%[Na0-9]*) printf %s "$1" | sed "$p";; *) printf %s "$1";; esac
}
if [ -n "$a" ]; then
  export SLURM_ARRAY_TASK_ID="$a" SLURM_ARRAY_TASK_COUNT="$PHALANX_ARRAY_COUNT"
  export SLURM_ARRAY_TASK_MIN="$PHALANX_ARRAY_MIN" SLURM_ARRAY_TASK_MAX="$PHALANX_ARRAY_MAX"
  export SLURM_ARRAY_TASK_STEP="$PHALANX_ARRAY_STEP"
fi
above() {
  d=${1%/*}; [ -d "${d:-/}" ] || mkdir -p "$d"
}
out=$(name "$1"); err=$(name "$2"); in=$3; mode=$4; shift 4
above "$out" && above "$err" || exit 1
if [ "$mode" = truncate ] && [ -z "$SLURM_RESTART_COUNT" ]; then : >"$out"; : >"$err"; fi
exec >>"$out" || exit 1
if [ "$err" = "$out" ]; then exec 2>&1; else exec 2>>"$err" || exit 1; fi
exec <"$in" || exit 1
export SLURM_TASK_PID=$$
read -r i j _ <"$f"; i=${i#"#!"}; i=${i:-$j}
if [ ! -e "$i" ]; then
  echo "sbatch: the interpreter $i of the script is not on this node" >&2; exit 127
fi
exec "$f" "$@"
"""
"""Shell lines that open the script's files on the node, and then execute the script."""
HOLDER = ("sleep", "infinity")
_MAX_LINE = 1_000


def sbatch(words: Sequence[str]) -> None:
    """Submit a batch script, and print its number."""
    asked, rest = read("sbatch", BATCH, words)
    try:
        if ":" in rest:
            raise OptionError("`:`: jobs have one group of nodes, whose members are alike")
        script, arguments, name = _script(asked, rest)
        inside, stray = read("sbatch", BATCH, directives(script), intermixed=True)
        if stray:
            raise OptionError(f"Invalid directive found in batch script: {stray[0]}")
        asked = inside | from_environment("SBATCH_", BATCH, os.environ) | asked
        asked.setdefault("job-name", name)
        nodes = AskedNodes(asked)
        asked = nodes.asked
        wanted = _Wanted(asked, shape_of(asked, nodes.node_cpus), script, arguments, nodes.hosts,
                         _notes(asked, words, rest))  # fmt: skip
        if "test-only" in asked:
            job = wanted.spec(0)
            say(f"sbatch: {wanted.shape.text} in queue {job.queue}")
            return
        spec = with_number(address(), lambda number: _submit(wanted.spec(number)))
    except OptionError as error:
        refuse("sbatch", str(error))
    if "quiet" not in asked:
        say(spec.name if "parsable" in asked else f"Submitted batch job {spec.name}")
    if "wait" in asked:
        raise Ended(_wait(spec.uid))


def _script(asked: Mapping[str, str], rest: Sequence[str]) -> tuple[str, list[str], str]:
    """Return the script, its arguments, and the default name of the job."""
    if "wrap" in asked:
        if rest:
            raise OptionError("--wrap and a script cannot be combined")
        return WRAPPED + asked["wrap"] + "\n", [], "wrap"
    if not rest:
        if sys.stdin.isatty():
            raise OptionError("give a script, --wrap COMMAND, or a script on standard input")
        return checked(sys.stdin.buffer.read()), [], "sbatch"
    try:
        with open(rest[0], "rb") as file:
            return checked(file.read()), list(rest[1:]), os.path.basename(rest[0])
    except OSError as error:
        raise OptionError(f"{rest[0]}: {error.strerror}") from None


class _Wanted(NamedTuple):
    """A job to submit, which has no number yet."""

    asked: dict[str, str]
    shape: Shape
    script: str
    arguments: list[str]
    hosts: dict[str, str]
    notes: dict[str, str]

    def spec(self, number: int) -> JobSpec:
        files = output_files(number, self.asked)
        return job_spec(
            number,
            self.asked,
            self.shape,
            ("sh", "-c", _PUT_UP + _STARTER, "sbatch", *files, *self.arguments),
            HOLDER,
            exported(self.asked, os.environ),
            (f"--script={self.script}",),
            self.notes,
            self.hosts,
        )


def _notes(asked: Mapping[str, str], words: Sequence[str], rest: Sequence[str]) -> dict[str, str]:
    """Return the notes of a job for listings: its command line and its files."""
    notes = {"line": shlex.join(["sbatch", *words])[:_MAX_LINE]}
    if rest:
        notes["command"] = os.path.abspath(rest[0])
    program = asked.get("wrap", "sbatch")
    if rest:
        program = shlex.join([notes["command"], *rest[1:]])
    notes["program"] = program[:_MAX_LINE]
    return notes | {one: asked[one] for one in ("output", "error", "input") if one in asked}


def output_files(number: int, asked: Mapping[str, str]) -> tuple[str, str, str, str]:
    """Return the files for output, errors and input of a batch script, and the mode in which they
    are opened.
    """
    mode = asked.get("open-mode", "append")
    if mode not in ("append", "truncate"):
        raise OptionError(f"--open-mode={mode}: it takes append or truncate")
    is_array = "array" in asked  # %a stays then, and is replaced where the script starts
    values = {
        "A": str(number),
        "J": f"{number}_%a" if is_array else str(number),
        "j": f"{number}_%a" if is_array else str(number),
        "a": "%a" if is_array else "4294967294",
        "b": "4294967294",
        "n": "0",
        "t": "0",
        "s": "batch",
        "x": asked.get("job-name", ""),
        "u": getpass.getuser(),
    }
    directory = os.path.abspath(asked.get("chdir") or current_directory())

    def path(pattern: str) -> str:
        return os.path.join(directory, file_name(pattern, values))

    out = path(asked.get("output", "slurm-%A_%a.out" if is_array else "slurm-%j.out"))
    err = path(asked["error"]) if "error" in asked else out
    return out, err, path(asked.get("input", "/dev/null")), mode


def _submit(spec: JobSpec) -> JobSpec:
    from phalanx.api.new_manifests import job_manifest, new_request

    ask(address(), new_request([job_manifest(spec)]))
    return spec


def _wait(uid: str) -> int:
    """Wait until a job is over. Returns its exit code, or 1 if a signal ended it, as in Slurm."""
    while (found := ask(address(), GetJob(uid))).state not in st.SETTLED:
        time.sleep(_LOOK_EVERY_S)
    if found.state == st.COMPLETED:
        return 0
    return _code_of_array(found, uid) if found.array else _code_of(found)


def _code_of(job: JobDescription) -> int:
    code, _, by_signal = code_text(job).partition(":")
    return FAILED if by_signal != "0" else int(code) or FAILED


def _code_of_array(array: JobDescription, uid: str) -> int:
    """Return the largest exit code of the array tasks. An array task that a signal ended counts as
    1.
    """
    codes = [FAILED]
    for row in ask(address(), ListElements(uid)):
        if row.exit_code is None or row.exit_code <= max(codes):
            continue
        index = each_index((split_element(row.name) or ("", ""))[1])[0]
        codes.append(_code_of(ask(address(), GetJob(f"{uid}[{index}]"))))
    return max(codes)
