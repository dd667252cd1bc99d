"""Observations of real Slurm 22.05.8, case by case, repeated on a real cluster of two nodes.

Each row has a line for a shell, the text that it prints, and the exit code. `@` stands for the
number of the job that the line before it in the same row submitted.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.polling import eventually
from tests.system.cli.slurm_machine import SlurmMachine


class Door(SlurmMachine):
    """A cluster whose nodes have GPUs. A call runs a line in a shell."""

    def __init__(self) -> None:
        super().__init__("--num-gpus", "4")

    def __call__(self, line: str, directory: Path, **env: str) -> subprocess.CompletedProcess[str]:
        return self.line(line, directory, **env)

    def over(self, number: str, directory: Path) -> None:
        """Wait until the job's accounting record is stored."""
        line = f"sacct -nXPj {number} -o State,End"
        eventually(lambda: re.match(r"[A-Z ]+(by \d+)?\|\d", self(line, directory).stdout))


@pytest.fixture(scope="module")
def door():
    door = Door()
    try:
        yield door
    finally:
        door.machine.end()


PRINTED = {
    "4 name in salloc": (
        "SHELL=$PWD/show salloc -Q; salloc -Q ./show",
        "interactive\ninteractive\n",
        0,
    ),
    "9 --wait, killed": ("sbatch -W -Q -o /dev/null --wrap 'kill -9 $$'", "", 1),
    "9 --wait, USR1": ("sbatch -W -Q -o /dev/null --wrap 'kill -USR1 $$'", "", 1),
    "8 --wait, array of 3, 4, 5": (
        "sbatch -W -Q -o /dev/null -a 3-5 --wrap 'exit $SLURM_ARRAY_TASK_ID'",
        "",
        5,
    ),
    "torchrun's variables in a step on two nodes": (
        "sbatch -W -Q -N2 -o out --wrap"
        " 'srun sh -c \"echo \\$RANK \\$LOCAL_RANK \\$WORLD_SIZE \\$NODE_RANK\"'; sort out",
        "0 0 2 0\n1 0 2 1\n",
        0,
    ),
    "torchrun's variables of two tasks in a step": (
        "sbatch -W -Q -N1 -n2 -o out --wrap"
        " 'srun sh -c \"echo \\$RANK \\$LOCAL_RANK \\$WORLD_SIZE \\$NODE_RANK\"'; sort out",
        "0 0 2 0\n1 1 2 0\n",
        0,
    ),
    "10b -Q says nothing": ("sbatch -Q --parsable -o /dev/null --wrap true", "", 0),
    "15c %u without USER": (
        "unset USER LOGNAME; sbatch -W -Q -o %u.out --wrap true; ls *.out",
        "<user>.out\n",
        0,
    ),
    "16 %4a and %3t": (
        "sbatch -W -Q -a 5 -o x-%4a --wrap true; srun -Q -o y-%3t true; ls x-* y-*",
        "x-0005\ny-000\n",
        0,
    ),
    "23 titles of squeue": (
        "squeue -o '%m|%b|%o|%p|%E|%h|%q|%c|%B|%U|%y|%f|%g|%x|%W|%X|%Y|%z' -p none",
        "MIN_MEMORY|TRES_PER_NODE|COMMAND|PRIORITY|DEPENDENCY|OVER_SUBSCRIBE|QOS|MIN_CPUS|"
        "EXEC_HOST|UID|NICE|FEATURES|GROUP|EXC_NODES|LICENSES|CORE_SPEC|SCHEDNODES|S:C:T\n",
        0,
    ),
    "24 the last column is padded": (
        "squeue -p none -O jobid:6,tres-alloc:12,MinMemory,StdOut:.8,gres; echo $?",
        "JOBID TRES_ALLOC  MIN_MEMORY            STDOUTTRES_PER_NODE       \n0\n",
        0,
    ),
    "26 an unknown job": ("squeue -j 999999", "", 1),
    "26c jobid, and its GPUs": (
        "n=$(sbatch --parsable -H -N 2 --gres=gpu:2 --wrap true); scontrol show jobid -dd $n |"
        " grep -o -e JOB_GRES=.* -e TresPerNode=.*; scontrol show job $n | grep -c JOB_GRES;"
        " scancel $n",
        "JOB_GRES=gpu:4\nTresPerNode=gres:gpu:2\n0\n",
        0,
    ),
    "26b several unknown jobs": ("squeue -h -j 999999,999999", "", 0),
    "28 scancel of an unknown number": ("scancel 999999 2>&1", "", 0),
    "28 scancel of a word": ("scancel abc 2>&1", "scancel: error: Invalid job id abc\n", 1),
    "28 scancel of nothing": (
        "scancel 2>&1",
        "scancel: error: No job identification provided\n",
        1,
    ),
    "28 scancel -v": (
        "scancel -v 999999 2>&1",
        "scancel: Terminating job 999999\n"
        "scancel: error: Kill job error on job id 999999: Invalid job id specified\n",
        0,
    ),
    "34 srun, exit 3": (
        "srun -Q sh -c 'exit 3' 2>&1",
        "srun: error: 127.0.0.1: task 0: Exited with exit code 3\n",
        3,
    ),
    "34 srun, killed": (
        "srun -Q sh -c 'kill -9 $$' 2>&1",
        "srun: error: 127.0.0.1: task 0: Killed\n",
        137,
    ),
    "33 srun at its time limit": (
        "srun -Q -t 0:01 sleep 60 2>&1 | sed 's/AT .* DUE/AT T DUE/; s/STEP [0-9]*/STEP N/'",
        "slurmstepd: error: *** STEP N.0 ON 127.0.0.1 CANCELLED AT T DUE TO TIME LIMIT ***\n"
        "srun: error: 127.0.0.1: task 0: Terminated\n",
        0,
    ),
    "srun above its memory": (
        'srun -Q -J big --mem=256M python3 -c \'import time; a = b"." * 4**14; a += a;'
        " time.sleep(60)' 2>&1 | sed 's/StepId=[0-9]*/StepId=N/';"
        " squeue -h -t OOM -n big -o '%T %r';"
        " sacct -nX -s OOM --name=big -o state%14,exitcode",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=N.0. Some of the step tasks have"
        " been OOM Killed.\nsrun: error: 127.0.0.1: task 0: Out Of Memory\n"
        "OUT_OF_MEMORY OutOfMemory\n OUT_OF_MEMORY    0:125 \n",
        0,
    ),
    "35 several codes": (
        "srun -Q -n 3 sh -c 'exit $((SLURM_PROCID > 0 ? 2 : 1))' 2>&1",
        "srun: error: 127.0.0.1: task 0: Exited with exit code 1\n"
        "srun: error: 127.0.0.1: tasks 1-2: Exited with exit code 2\n",
        2,
    ),
    "36 labels of twelve tasks": (
        "srun -Q -l -N 1 -n 12 -c 1 -O echo x | sort -n | sed -n '1p;12p'",
        " 0: x\n11: x\n",
        0,
    ),
    "45b words of --begin": (
        "for one in noon midnight teatime tomorrow 010230 01/02/30 12/25 6:00PM; do "
        "sbatch -Q --begin=$one --test-only --wrap true >/dev/null || echo $one; done",
        "",
        0,
    ),
    "45c --begin=4pm": ("sbatch -Q --begin=4pm --wrap true", "", 1),
    "51b what a time limit ended": (
        "n=$(sbatch --parsable -o /dev/null -t 0:01 --wrap 'sleep 600'); "
        "sbatch -W -Q -d afterany:$n -o /dev/null --wrap true; "
        "sacct -nPj $n -o State,ExitCode",
        "TIMEOUT|0:0\nCANCELLED|0:15\n",
        0,
    ),
    "56 what a user cancelled": (
        "n=$(sbatch --parsable -o /dev/null --wrap 'touch began; sleep 600'); "
        "until [ -e began ]; do sleep 0.1; done; scancel $n; "
        "sbatch -W -Q -d afterany:$n -o /dev/null --wrap true; "
        'sacct -nPj $n -o State,ExitCode | sed "s/by $(id -u)/by me/"; '
        "sacct -nXj $n -o State",
        "CANCELLED by me|0:0\nCANCELLED|0:15\nCANCELLED+ \n",
        0,
    ),
    "52 sinfo": ("sinfo -h -o '%9P|%.5a|%G'", "default* |   up|gpu:4\n", 0),
    "55 widths of sacct": (
        "sacct -j 999999",
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n"
        "------------ ---------- ---------- ---------- ---------- ---------- -------- \n",
        0,
    ),
    "70 MailUser": (
        "n=$(sbatch --parsable -H -o /dev/null --mail-user someone --wrap true 2>/dev/null); "
        "scontrol show job $n | grep -o 'MailUser=[^ ]*'; scancel $n",
        "MailUser=someone\n",
        0,
    ),
    "65 words of salloc": (
        "salloc true 2>&1 | sed 's/[0-9][0-9]*/N/'",
        "salloc: Granted job allocation N\nsalloc: Relinquishing job allocation N\n",
        0,
    ),
    "66 hetjob": (
        "printf '#!/bin/sh\\n#SBATCH hetjob\\n#SBATCH -n 1\\n' | sbatch 2>&1",
        "sbatch: error: line 2 of the script: hetjob: jobs have one group of nodes, whose members "
        "are alike\n",
        1,
    ),
    "66 a stray word in the script": (
        "printf '#!/bin/sh\\n#SBATCH foo\\n' | sbatch 2>&1",
        "sbatch: error: Invalid directive found in batch script: foo\n",
        1,
    ),
    "66b a colon": ("sbatch -n1 : -n1 x.sh 2>/dev/null", "", 1),
    "74 SLURM_STEP_GPUS": (
        "srun -Q --gres=gpu:2 sh -c 'test $SLURM_STEP_GPUS = $SLURM_JOB_GPUS && echo same'",
        "same\n",
        0,
    ),
    "83 update": (
        "n=$(sbatch --parsable --priority=100 -b now+1hour --wrap true);"
        " scontrol update JobId=$n Nice=5; scontrol update JobId=$n Nice=7 JobName=x Comment=y;"
        " squeue -h -j $n -o '%y %j %k %Q'; scancel $n",
        "7 x y 93\n",
        0,
    ),
    "columns of sshare and sprio": (
        "sshare | head -1; sprio -l | head -1",
        "Account                    User  RawShares  NormShares    RawUsage  EffectvUsage"
        "  FairShare \n"
        "          JOBID PARTITION     USER   PRIORITY       SITE        AGE      ASSOC  FAIRSHARE"
        "    JOBSIZE  PARTITION        QOS        NICE                 TRES\n",
        0,
    ),
    "85 squeue --start": (
        "squeue --start -p none",
        "             JOBID PARTITION     NAME     USER ST          START_TIME  NODES SCHEDNODES"
        "           NODELIST(REASON)\n",
        0,
    ),
    "88b SLURM_TIMELIMIT": (
        "SLURM_TIMELIMIT=7 srun -Q sh -c 'squeue -h -j $SLURM_JOB_ID -o %l'",
        "7:00\n",
        0,
    ),
    "93 srun -K CMD": ("srun -Q -K echo x", "x\n", 0),
    "95 ping": (
        "scontrol ping | sed 's/at .* is/at HOST is/'",
        "Slurmctld(primary) at HOST is UP\n",
        0,
    ),
    "95 hostlistsorted": ("scontrol show hostlistsorted n3,n1", "n1,n3\n", 0),
    "95 config": ("scontrol show config | grep -c '^ClusterName  *= phalanx$'", "1\n", 0),
    "95 squeue -w of no node": (
        "squeue -w nosuch 2>&1",
        "squeue: error: Invalid node name nosuch\n",
        1,
    ),
    "states that nothing has here": (
        "squeue -h -t CF,NF -o %i; sinfo -h -t maint,resv -o %D; sinfo -h -t idle,mix,alloc -o %P",
        "0\ndefault*\n",
        0,
    ),
    "a field that nobody knows": (
        "squeue -p none -O jobid:4,bogus 2>&1; sinfo -h -o '%q' 2>&1",
        "squeue: error: Invalid job format specification: bogus\nJOBI\n"
        "sinfo: error: Invalid node format specification: q\n%q\n",
        0,
    ),
}


@pytest.mark.parametrize("case", PRINTED)
def test_a_line_prints_what_slurm_prints(door, tmp_path, case):
    line, printed, code = PRINTED[case]
    (tmp_path / "show").write_text("#!/bin/sh\necho $SLURM_JOB_NAME\n")
    (tmp_path / "show").chmod(0o700)
    name = subprocess.run(("id", "-un"), capture_output=True, text=True, check=True).stdout.strip()
    done = door(line, tmp_path)
    assert (done.stdout, done.returncode) == (printed.replace("<user>", name), code), done.stderr


BATCH = {
    "38 two nodes with two tasks": (
        "-N 2 -n 4", "$SLURM_JOB_CPUS_PER_NODE $SLURM_TASKS_PER_NODE $SLURM_CPUS_ON_NODE",
        "2(x2) 2(x2) 2",
    ),
    "39 nothing was said of tasks": (
        "-N 1", "${SLURM_NTASKS-unset} ${SLURM_NPROCS-unset} ${SLURM_CPUS_PER_TASK-unset}",
        "unset unset unset",
    ),
    "39 tasks per node": ("-N 1 --ntasks-per-node=2", "$SLURM_NTASKS $SLURM_NPROCS", "2 2"),
    "41 SLURM_GTIDS": ("-n 1", "$SLURM_GTIDS ${SLURM_TASK_PID:+set}", "0 set"),
    "43c --mem-per-cpu": (
        "--mem-per-cpu=300", "$SLURM_MEM_PER_CPU ${SLURM_MEM_PER_NODE-unset}", "300 unset",
    ),
    "64 SLURM_EXPORT_ENV": ("--export=ALL,A=1", "$SLURM_EXPORT_ENV $A", "ALL,A=1 1"),
    "--exclusive": ("--exclusive", "$SLURM_CPUS_ON_NODE $SLURM_JOB_CPUS_PER_NODE", "4 4"),
    "--mem=0, -N 1-2, --qos": (
        "--mem=0 -N 1-2 --qos=high", "$SLURM_JOB_NUM_NODES $SLURM_JOB_QOS ${SLURM_MEM_PER_NODE-no}",
        "1 high no",
    ),
    "--ntasks-per-gpu": ("--gres=gpu:2 --ntasks-per-gpu=2", "$SLURM_NTASKS", "4"),
    "no effect": (
        "--get-user-env=L --propagate --hint=nomultithread -s --spread-job --profile=all",
        "ran", "ran",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BATCH)
def test_a_script_finds_what_slurm_tells_it(door, tmp_path, case):
    options, shown, expected = BATCH[case]
    (tmp_path / "job.sh").write_text(f"#!/bin/sh\necho {shown}\n")
    done = door(f"sbatch -W -o out {options} job.sh", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_text() == f"{expected}\n"


def test_rows_48_and_51_reasons_codes_and_dependencies(door, tmp_path):
    first = door("sbatch --parsable -o /dev/null --wrap 'sleep 1000'", tmp_path).stdout.strip()
    waits = door(f"sbatch --parsable -d afterok:{first} --wrap true", tmp_path).stdout.strip()
    later = door("sbatch --parsable --begin=now+1hour --wrap true", tmp_path).stdout.strip()
    line = f"squeue -h -j {waits} -o '%r %E'; scontrol -o show job {waits}"
    told = door(line, tmp_path).stdout
    assert told.startswith(f"Dependency afterok:{first}(unfulfilled)\n")
    assert f"Reason=Dependency Dependency=afterok:{first}(unfulfilled) " in told
    assert told.endswith(" \n")
    eligible, begin = door(f"squeue -h -j {later} -o '%r %S'; scontrol -o show job {later}",
                           tmp_path).stdout.splitlines()  # fmt: skip
    reason, at = eligible.split()
    assert (reason, f"EligibleTime={at} " in begin) == ("BeginTime", True)
    eventually(lambda: door(f"squeue -h -j {first} -t R -o %i", tmp_path).stdout)
    done = door(f"scancel {first}; scancel {waits} {later}", tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    door.over(first, tmp_path)
    told = door(f"scontrol -o show job {first}; scancel -s USR1 {first} || echo $?", tmp_path)
    assert "JobState=CANCELLED Reason=None" in told.stdout and "ExitCode=0:15 " in told.stdout
    assert told.stdout.endswith("\n1\n") and "Invalid job id specified" in told.stderr
    rows = door(f"sacct -nPj {first} -o State,ExitCode", tmp_path).stdout.splitlines()
    assert rows == [f"CANCELLED by {os.getuid()}|0:0", "CANCELLED|0:15"]
    assert "CANCELLED+ " in door(f"sacct -nXj {first}", tmp_path).stdout
    failed = door("sbatch -W --parsable -o /dev/null --wrap 'exit 7'", tmp_path)
    number = failed.stdout.strip()
    told = door(f"scontrol -o show job {number}", tmp_path).stdout
    assert (failed.returncode, "Reason=NonZeroExitCode" in told, "ExitCode=7:0 " in told) == (
        7, True, True,
    )  # fmt: skip


def test_row_57_what_was_asked_for_in_the_account(door, tmp_path):
    number = door(
        "sbatch -W --parsable -o /dev/null --mem=100 --wrap true", tmp_path
    ).stdout.strip()
    door.over(number, tmp_path)
    line = f"sacct -nXPj {number} -o ReqMem,AllocTRES,SubmitLine; sacct -nXPj {number} "
    rows = door(line + "--units=G -o ReqMem", tmp_path).stdout.splitlines()
    assert rows[0].startswith("100M|billing=1,cpu=1,mem=100M,node=1|sbatch -W --parsable ")
    assert rows[1] == "0.10G"


def test_an_account_of_elements_can_be_read_by_programs(door, tmp_path):
    number = door("sbatch -W --parsable -a 1 -o /dev/null --wrap true", tmp_path).stdout.strip()
    door.over(f"{number}_1", tmp_path)
    line = f"sacct -nXPj {number}_1 -o JobID,Timelimit,TimelimitRaw,UID,Group,CPUTimeRAW%3"
    (row,) = [one for one in door(line, tmp_path).stdout.splitlines() if "_" in one]
    name, limit, raw, uid, group, seconds = row.split("|")
    assert (name, limit, raw) == (f"{number}_1", "Partition_Limit", "Partition_Limit")
    assert (uid, bool(group), seconds.isdecimal()) == (str(os.getuid()), True, True)


def test_row_68_what_waits_says_it_in_a_word(door, tmp_path):
    wide = "sbatch --parsable -N 2 -n 8 -o /dev/null --wrap 'sleep 1000'"
    first, second, third = (door(wide, tmp_path).stdout.strip() for _ in range(3))
    try:
        said = eventually(
            lambda: [
                row
                for row in [
                    door(
                        f"squeue -h -t PD -j {first},{second},{third} -o '%i %r %R'", tmp_path
                    ).stdout.splitlines()
                ]
                if len(row) == 2 and "Priority" in row[1]
            ]
        )[0]
        assert said == [f"{second} Resources (Resources)", f"{third} Priority (Priority)"]
    finally:
        door(f"scancel {first} {second} {third}", tmp_path)


def test_row_88_variables_stand_between_the_script_and_the_words(door, tmp_path):
    script = "#!/bin/sh\n#SBATCH -t 1 -J inside\ntrue\n"
    (tmp_path / "job.sh").write_text(script)
    env = {"SBATCH_TIMELIMIT": "0:300", "SBATCH_ARRAY_INX": "1-3", "SBATCH_JOB_NAME": "outside",
           "SBATCH_MEM_PER_NODE": "64", "SBATCH_EXCLUSIVE": ""}  # fmt: skip
    number = door("sbatch --parsable -H -J word job.sh", tmp_path, **env).stdout.strip()
    shown = door("squeue -h -j $n", tmp_path, n=number, SQUEUE_FORMAT="%i %j %l %m %c").stdout
    assert shown == f"{number}_[1-3] word 5:00 64M 4\n"
    assert door("scancel $n", tmp_path, n=number).returncode == 0


STEPS = """\
#!/bin/sh
first=$(scontrol show hostnames | head -n 1)
srun -N 1 -n 1 -w "$first" --exclusive --mem=10 --mpi=pmix --cpu-bind=cores sh -c \\
  'echo one $SLURM_STEP_NUM_TASKS $SLURM_STEP_NUM_NODES $SLURM_JOB_NUM_NODES'
srun -N 1 -r 1 -n 1 sh -c 'echo two $SLURM_STEP_TASKS_PER_NODE'
srun -n 4 --gpus-per-task=1 --overlap sh -c 'echo gpu $CUDA_VISIBLE_DEVICES' | sort -u | wc -l
srun -n 1 --gres=none sh -c 'echo "none<$CUDA_VISIBLE_DEVICES>"'
srun -n 1 --gres=gpu:9 true || echo refused
SRUN_CPUS_PER_TASK=2 SLURM_LABELIO=1 srun -n 1 sh -c 'echo cpus $SLURM_CPUS_PER_TASK'
printf '0 echo a %%t %%o\\n* echo b %%t %%o\\n' >programs
srun -n 2 -l --multi-prog programs | sort
srun -n 1 --time=0:01 sleep 1000 2>/dev/null; echo ended $?
srun -n 2 -W 1 sh -c '[ $SLURM_PROCID = 0 ] || sleep 1000' 2>/dev/null; echo waited $?
srun -n 1 -w nosuch true 2>/dev/null || echo no such node
srun -n 2 --mpi=pmix true 2>/dev/null || echo no pmi
"""


def test_steps_choose_nodes_devices_and_programs(door, tmp_path):
    (tmp_path / "job.sh").write_text(STEPS)
    options = "-N 2 --ntasks-per-node=2 --gres=gpu:2 -W -o out"
    done = door(f"sbatch {options} job.sh", tmp_path)
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines == [
        "one 1 1 2",
        "two 1",
        "2",
        "none<>",
        "srun: error: --gres=gpu:9: the job has 2 GPUs there",
        "refused",
        "0: cpus 2",
        "0: a 0 0",
        "1: b 1 1",
        "ended 143",
        "waited 143",
        "no such node",
        "no pmi",
    ], done.stderr


def test_these_commands_come_before_slurms_own(door, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for name in ("srun", "squeue", "scontrol"):
        (other / name).write_text("#!/bin/sh\necho Slurm\n")
        (other / name).chmod(0o700)
    path = f"{other}:{door.machine.env['PATH']}"
    script = "srun sh -c 'echo ours; squeue --version'"
    door(f'phalanx sbatch -W -o out --wrap "{script}"', tmp_path, PATH=f"{path}:{_bin(door)}")
    lines = (tmp_path / "out").read_text().splitlines()
    assert (lines[0], "Phalanx" in lines[1]) == ("ours", True), lines
    line = f"{door.commands}/salloc -Q sh -c 'command -v srun; command -v scontrol'"
    found = door(line, tmp_path, PATH=path).stdout.splitlines()
    assert found == [f"{door.commands}/srun", f"{door.commands}/scontrol"]


def _bin(door: Door) -> str:
    """Return a directory that has the program `phalanx` and none of Slurm's commands."""
    directory = Path(door.machine.home) / "phalanx-alone"
    directory.mkdir(exist_ok=True)
    program = directory / "phalanx"
    first = (Path(door.commands) / "srun").read_text().splitlines()
    lines = [*first[:3], "from phalanx.cli import main", "main()", ""]
    program.write_text("\n".join(lines))
    program.chmod(0o700)
    return str(directory)


def test_accounts_are_the_queues_for_who_asks_before_submitting(door, tmp_path):
    name = subprocess.run(("id", "-un"), capture_output=True, text=True, check=True).stdout.strip()
    line = f"sacctmgr -n -s list user {name} format=account%20; sshare -U -n -P -o Account"
    assert door(line, tmp_path).stdout == f"{'default':>20} \ndefault\n"
    line = "sacctmgr -n -P show cluster format=Cluster,RPC; sacctmgr add account x || echo $?"
    assert door(line, tmp_path).stdout == "phalanx|0\n1\n"
