#!/usr/bin/env bash
# Asked: MPICH's mpiexec (Hydra): one process exits with 3 and the other one with 4. What is mpiexec's
#   exit code?
# Good guess: 4, the largest, as `srun` has it; or that of the first process that failed.
# Truth: 7: the bits of all codes are joined by "or". 1 and 2 give 3, 6 and 9 give 15; a script that
#   looks up the code of its program finds one that no process had. A process that ends by signal 15
#   beside one that exits with 3 gives 15. Open MPI 5.0.11 gives the code of one process.
# Seen with: mpich==5.0.2 of PyPI, Linux, 2026-11-28.
# Source: src/pm/hydra/mpiexec, where the exit statuses of the proxies are joined.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check mpich==5.0.2
cd "$work"
"$work/venv/bin/python" -c 'from importlib.metadata import version; print("mpich", version("mpich"))'
has_changed=0
while read -r first second seen; do
  code=0
  "$work/venv/bin/mpiexec.hydra" -n 2 sh -c "[ \$PMI_RANK = 0 ] && exit $first; exit $second" \
    </dev/null || code=$?
  echo "$first and $second: $code"
  [ "$code" = "$seen" ] || has_changed=1
done <<'CODES'
3 4 7
1 2 3
6 9 15
2 2 2
CODES
exit $has_changed
