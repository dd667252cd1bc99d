"""`sbatch`: a script becomes a job, which its `#SBATCH` lines and options describe."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence

import typer

from phalanx.adapters.slurm.commands.main import COMMANDS, OURS
from phalanx.adapters.slurm.commands.numbers import with_number
from phalanx.adapters.slurm.commands.usage import address, read, refuse
from phalanx.adapters.slurm.options import BATCH, OptionError, from_environment
from phalanx.adapters.slurm.request import Shape, exported, job_spec, shape_of
from phalanx.adapters.slurm.script import WRAPPED, checked, directives, file_name
from phalanx.api.directories import current_directory
from phalanx.cli.allocation import LOOK_EVERY_S, OVER
from phalanx.cli.jobs import TIMED_OUT
from phalanx.cli.reach import FAILED, ask
from phalanx.cli.table import say
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import JobSpec
from phalanx.protocol.requests.jobs import GetJob

_PUT_UP = f"""\
if ! command -v srun >/dev/null; then
  b="$PHALANX_FILES/slurm_commands"; mkdir -p "$b" || exit 1
  for c in {" ".join(COMMANDS)}; do
    printf '#!%s\\n{OURS}\\nmain("%s")\\n' \\
      "$PHALANX_PYTHON" "$c" >"$b/$c" && chmod 700 "$b/$c" || exit 1
  done
  export PATH="$PATH:$b"
fi
"""
"""Where its node has none, a script finds Slurm's commands, as `phalanx compat slurm install` has
them."""
_STARTER = """\
f="$PHALANX_FILES/slurm_script"; chmod 700 "$f" || exit 1
h=$(hostname -s 2>/dev/null || hostname)
a=${PHALANX_ARRAY_INDEX-}
name() {
  case $1 in *%[Na]*) printf %s "$1" | sed "s/%N/$h/g;s/%a/$a/g";; *) printf %s "$1";; esac
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
exec "$f" "$@"
"""
"""Opens the script's files on the node, then becomes the script."""
HOLDER = ("sleep", "infinity")


def sbatch(words: Sequence[str]) -> None:
    """Submit a batch script, and say its number."""
    asked, rest = read("sbatch", BATCH, words)
    try:
        script, arguments, name = _script(asked, rest)
        inside, _ = read("sbatch", BATCH, directives(script))
        asked = inside | from_environment("SBATCH_", BATCH, os.environ) | asked
        asked.setdefault("job-name", name)
        shape = shape_of(asked)
        if "test-only" in asked:
            job = _spec(0, asked, shape, script, arguments)
            say(f"sbatch: {job.replicas} members of {shape.cpus} CPUs each in queue {job.queue}")
            return
        spec = with_number(address(), lambda n: _submit(_spec(n, asked, shape, script, arguments)))
    except OptionError as error:
        refuse("sbatch", str(error))
    say(spec.name if "parsable" in asked else f"Submitted batch job {spec.name}")
    if "wait" in asked:
        raise typer.Exit(_wait(spec.uid))


def _script(asked: Mapping[str, str], rest: Sequence[str]) -> tuple[str, list[str], str]:
    """(the script, its arguments, the job's name where it has none)."""
    if "wrap" in asked:
        if rest:
            raise OptionError("--wrap and a script exclude each other")
        return WRAPPED + asked["wrap"] + "\n", [], "wrap"
    if not rest:
        if sys.stdin.isatty():
            raise OptionError("give a script, --wrap COMMAND, or a script on the input")
        return checked(sys.stdin.buffer.read()), [], "sbatch"
    try:
        with open(rest[0], "rb") as file:
            return checked(file.read()), list(rest[1:]), os.path.basename(rest[0])
    except OSError as error:
        raise OptionError(f"{rest[0]}: {error.strerror}") from None


def _spec(
    number: int, asked: Mapping[str, str], shape: Shape, script: str, arguments: Sequence[str]
) -> JobSpec:
    return job_spec(
        number,
        asked,
        shape,
        ("sh", "-c", _PUT_UP + _STARTER, "sbatch", *output_files(number, asked), *arguments),
        HOLDER,
        exported(asked, os.environ),
        (f"--script={script}",),
    )


def output_files(number: int, asked: Mapping[str, str]) -> tuple[str, str, str, str]:
    """(output, errors, input, open mode) of a batch script."""
    mode = asked.get("open-mode", "append")
    if mode not in ("append", "truncate"):
        raise OptionError(f"--open-mode={mode}: it is append or truncate")
    is_array = "array" in asked  # then %a stays, and the script's start knows it
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
        "u": os.environ.get("USER", ""),
    }
    directory = os.path.abspath(asked.get("chdir") or current_directory())

    def path(pattern: str) -> str:
        return os.path.join(directory, file_name(pattern, values))

    out = path(asked.get("output", "slurm-%A_%a.out" if is_array else "slurm-%j.out"))
    err = path(asked["error"]) if "error" in asked else out
    return out, err, path(asked.get("input", "/dev/null")), mode


def _submit(spec: JobSpec) -> JobSpec:
    from phalanx.api.jobs import job_manifest, new_request

    ask(address(), new_request([job_manifest(spec)]))
    return spec


def _wait(uid: str) -> int:
    """Until it is over; its exit code."""
    while (found := ask(address(), GetJob(uid))).state not in OVER:
        time.sleep(LOOK_EVERY_S)
    if found.state == st.COMPLETED:
        return 0
    if found.state in st.OUT_OF_TIME:
        return TIMED_OUT
    return next((m.exit_code for m in found.members if m.exit_code), FAILED)
