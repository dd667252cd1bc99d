"""The tables of Slurm's columns, options, variables, times and terms, compared with what real Slurm
22.05.8 printed and what its manual pages list.
"""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from tests.unit.observe.attempts import attempt

from phalanx.adapters.slurm import formats, options
from phalanx.adapters.slurm.accounting_columns import SACCT_FIELDS
from phalanx.adapters.slurm.commands.past import PastJob
from phalanx.adapters.slurm.commands.priorities import SPRIO
from phalanx.adapters.slurm.commands.rows import Shown
from phalanx.adapters.slurm.commands.sacct import SACCT
from phalanx.adapters.slurm.commands.scancel import SCANCEL
from phalanx.adapters.slurm.commands.shares import SSHARE
from phalanx.adapters.slurm.commands.sinfo import SINFO
from phalanx.adapters.slurm.commands.squeue import SQUEUE
from phalanx.adapters.slurm.marks import NOTE
from phalanx.adapters.slurm.node_columns import SINFO_LETTERS, SINFO_NAMES
from phalanx.adapters.slurm.nodes import choice_of, gres_count, typed_count
from phalanx.adapters.slurm.options import OptionError, from_environment
from phalanx.adapters.slurm.queue_columns import SQUEUE_LETTERS, SQUEUE_NAMES, SQUEUE_STEP_NAMES
from phalanx.adapters.slurm.reasons import dependency_text, ended_reason, waiting_reason
from phalanx.adapters.slurm.request import job_spec, job_variables, shape_of
from phalanx.adapters.slurm.sizes import in_units
from phalanx.adapters.slurm.sorting import sorted_rows
from phalanx.adapters.slurm.states import OUT_OF_MEMORY, state_of, states_named
from phalanx.adapters.slurm.steps import commands_of, devices_of_task, end_texts
from phalanx.adapters.slurm.times import slurm_length, slurm_moment
from phalanx.adapters.slurm.words import read_options
from phalanx.head.jobs.slurm import own_slurm_variables, own_step_variables, slurm_variables
from phalanx.manifests import shapes
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import JobInfo
from phalanx.scheduler.cycle.specs import SLURM_NOTE

SQUEUE_ALL = (
    "ACCOUNT|TRES_PER_NODE|MIN_CPUS|MIN_TMP_DISK|END_TIME|FEATURES|GROUP|OVER_SUBSCRIBE|JOBID|NAME|"
    "COMMENT|TIME_LIMIT|MIN_MEMORY|REQ_NODES|COMMAND|PRIORITY|QOS|REASON||ST|USER|RESERVATION|"
    "WCKEY|EXC_NODES|NICE|S:C:T|JOBID|EXEC_HOST|CPUS|NODES|DEPENDENCY|ARRAY_JOB_ID|GROUP|"
    "SOCKETS_PER_NODE|CORES_PER_SOCKET|THREADS_PER_CORE|ARRAY_TASK_ID|TIME_LEFT|TIME|NODELIST|"
    "CONTIGUOUS|PARTITION|PRIORITY|NODELIST(REASON)|START_TIME|STATE|UID|SUBMIT_TIME|LICENSES|"
    "CORE_SPEC|SCHEDNODES|WORK_DIR"
)
SQUEUE_UNKNOWN = "(null)|N/A|1|0|N/A|(null)||OK|||(null)|"
"""The beginning of squeue's line for a job about which nothing is known."""
SINFO_ALL = (
    "AVAIL|ACTIVE_FEATURES|CPUS|TMP_DISK|FREE_MEM|AVAIL_FEATURES|GROUPS|OVERSUBSCRIBE|TIMELIMIT|"
    "MEMORY|HOSTNAMES|NODE_ADDR|PRIO_TIER|ROOT|JOB_SIZE|STATE|USER|VERSION|WEIGHT|S:C:T|"
    "NODES(A/I)|MAX_CPUS_PER_NODE|CPUS(A/I/O/T)|NODES|REASON|NODES(A/I/O/T)|GRES|TIMESTAMP|"
    "PRIO_JOB_FACTOR|DEFAULTTIME|PREEMPT_MODE|NODELIST|CPU_LOAD|PARTITION|PARTITION|ALLOCNODES|"
    "STATE|USER|CLUSTER|SOCKETS|CORES|THREADS"
)
SQUEUE_MANUAL = """
    Account AccrueTime admin_comment AllocNodes AllocSID ArrayJobID ArrayTaskID AssocID BatchFlag
    BatchHost BoardsPerNode BurstBuffer BurstBufferState Cluster ClusterFeature Command Comment
    Container Contiguous Cores CoreSpec CPUFreq cpus-per-task cpus-per-tres Deadline DelayBoot
    Dependency DerivedEC EligibleTime EndTime exit_code Feature GroupID GroupName HetJobID
    HetJobIDSet HetJobOffset JobArrayID JobID LastSchedEval Licenses MaxCPUs MaxNodes MCSLabel
    mem-per-tres MinCpus MinMemory MinTime MinTmpDisk Name Network Nice NodeList Nodes NTPerBoard
    NTPerCore NTPerNode NTPerSocket NumCPUs NumNodes NumTasks Origin OriginRaw OverSubscribe
    Partition PendingTime PreemptTime Prefer Priority PriorityLong Profile QOS Reason ReasonList
    Reboot ReqNodes ReqSwitch Requeue Reservation ResizeTime RestartCnt ResvPort SchedNodes SCT
    SelectJobInfo SiblingsActive SiblingsActiveRaw SiblingsViable SiblingsViableRaw Sockets
    SPerBoard StartTime State StateCompact STDERR STDIN STDOUT StepID StepName StepState SubmitTime
    system_comment Threads TimeLeft TimeLimit TimeUsed tres-alloc tres-bind tres-freq tres-per-job
    tres-per-node tres-per-socket tres-per-step tres-per-task UserID UserName Wckey WorkDir gres
    shared tres
"""
SINFO_MANUAL = """
    AllocMem AllocNodes Available Cluster Comment Cores CPUs CPUsLoad CPUsState DefaultTime Disk
    Extra Features features_act FreeMem Gres GresUsed Groups MaxCPUsPerNode Memory NodeAddr NodeAI
    NodeAIOT NodeHost NodeList Nodes OverSubscribe Partition PartitionName Port PreemptMode
    PriorityJobFactor PriorityTier Reason Root Size SocketCoreThread Sockets StateCompact StateLong
    StateComplete Threads Time TimeStamp User UserLong Version Weight
"""
SACCT_MANUAL = """
    Account:10 AdminComment:15 AllocCPUS:10 AllocNodes:10 AllocTRES:10 AssocID:7 AveCPU:10
    AveCPUFreq:10 AveDiskRead:14 AveDiskWrite:14 AvePages:10 AveRSS:10 AveVMSize:10 BlockID:16
    Cluster:10 Comment:14 Constraints:19 ConsumedEnergy:14 ConsumedEnergyRaw:17 Container:19
    CPUTime:10 CPUTimeRAW:10 DBIndex:-21 DerivedExitCode:15 Elapsed:10 ElapsedRaw:10 Eligible:19
    End:19 ExitCode:8 Flags:19 GID:6 Group:9 JobID:-12 JobIDRaw:-12 JobName:10 Layout:9
    MaxDiskRead:12 MaxDiskReadNode:15 MaxDiskReadTask:15 MaxDiskWrite:12 MaxDiskWriteNode:16
    MaxDiskWriteTask:16 MaxPages:8 MaxPagesNode:12 MaxPagesTask:14 MaxRSS:10 MaxRSSNode:10
    MaxRSSTask:10 MaxVMSize:10 MaxVMSizeNode:14 MaxVMSizeTask:14 McsLabel:12 MinCPU:10
    MinCPUNode:10 MinCPUTask:10 NCPUS:10 NNodes:8 NodeList:15 NTasks:8 Partition:10 Priority:10
    QOS:10 QOSRAW:6 Reason:22 ReqCPUFreq:10 ReqCPUFreqGov:13 ReqCPUFreqMax:13 ReqCPUFreqMin:13
    ReqCPUS:8 ReqMem:10 ReqNodes:8 ReqTRES:10 Reservation:20 Reserved:10 ResvCPU:10 ResvCPURAW:10
    Start:19 State:10 Submit:19 SubmitLine:20 Suspended:10 SystemComment:15 SystemCPU:10
    Timelimit:10 TotalCPU:10 TRESUsageInAve:14 TRESUsageInMax:14 TRESUsageInMaxNode:18
    TRESUsageInMaxTask:18 TRESUsageInMin:14 TRESUsageInMinNode:18 TRESUsageInMinTask:18
    TRESUsageInTot:14 TRESUsageOutAve:15 TRESUsageOutMax:15 TRESUsageOutMaxNode:19
    TRESUsageOutMaxTask:19 TRESUsageOutMin:15 TRESUsageOutMinNode:19 TRESUsageOutMinTask:19
    TRESUsageOutTot:15 UID:6 User:9 UserCPU:10 WCKey:10 WCKeyID:10 WorkDir:20
"""


def test_all_letters_have_slurms_titles_and_its_words_for_nothing() -> None:
    columns, complaints = formats.letters("%all", SQUEUE_LETTERS)
    head, empty = formats.listed(columns, [{}], True)
    assert (head, complaints) == (SQUEUE_ALL, [])
    assert empty.startswith(SQUEUE_UNKNOWN) and empty.endswith("N/A|(null)|N/A|(null)|")
    columns, _ = formats.letters("%all", SINFO_LETTERS)
    assert formats.listed(columns, [], True) == [SINFO_ALL]


@pytest.mark.parametrize(
    ("known", "listed"), [(SQUEUE_STEP_NAMES, SQUEUE_MANUAL), (SINFO_NAMES, SINFO_MANUAL)]
)
def test_all_names_are_known_in_any_case(known, listed) -> None:
    for name in listed.split():
        (column,), complaints = formats.names(name.upper(), known)
        assert (column.width, complaints) == (formats.NAME_WIDTH, []), name


def test_all_fields_of_the_account_have_slurms_widths() -> None:
    for row in SACCT_MANUAL.split():
        name, _, width = row.partition(":")
        (column,) = formats.sacct_names(name.lower(), SACCT_FIELDS, "sacct")
        found = column.width if column.is_right else -column.width
        assert (column.title, found) == (name, int(width))


def test_what_is_no_column_is_told_and_the_listing_is_made() -> None:
    columns, complaints = formats.letters("%i|%q|%.3t", SINFO_LETTERS, "node")
    assert complaints == [f"Invalid node format specification: {one}" for one in "iq"]
    assert formats.listed(columns, [{"short": "idle"}], False) == ["%i|%q|idl"]
    columns, complaints = formats.names("jobid:3,user,name:.9,state:5x", SQUEUE_NAMES)
    assert complaints == ["Invalid job format specification: user"]
    row = {"array": "17", "name": "a very long name", "state": "PENDING"}
    assert formats.listed(columns, [row], True) == ["JOB     NAMESTATEx", "17 a very loPENDIx"]


def test_the_account_marks_what_it_cuts() -> None:
    columns = formats.sacct_names("JobID,State,JobName%-4,Start%10,NCPUS%2", SACCT_FIELDS, "sacct")
    row = {"id": "1234567890123", "state": "CANCELLED by 0", "name": "wrapped", "cpus": "123",
           "start": "2026-11-28T03:42:02"}  # fmt: skip
    assert formats.listed(columns, [row], False) == ["12345678901+ CANCELLED+ wra+ 2026-11-28 123 "]


NOW = datetime(2026, 11, 28, 12, 30).timestamp()


@pytest.mark.parametrize(
    ("written", "later", "before"),
    [
        ("now+1hour", "2026-11-28T13:30", "2026-11-28T13:30"),
        ("now-1day", "2026-11-27T12:30", "2026-11-27T12:30"),
        ("now+90", "2026-11-28T12:31:30", "2026-11-28T12:31:30"),
        ("00:00", "2026-11-29T00:00", "2026-11-28T00:00"),
        ("6:05PM", "2026-11-28T18:05", "2026-11-28T18:05"),
        ("12:00am", "2026-11-29T00:00", "2026-11-28T00:00"),
        ("noon", "2026-11-29T12:00", "2026-11-28T12:00"),
        ("midnight", "2026-11-29T00:00", "2026-11-28T00:00"),
        ("teatime", "2026-11-28T16:00", "2026-11-28T16:00"),
        ("today", "2026-11-28T00:00", "2026-11-28T00:00"),
        ("tomorrow", "2026-11-29T00:00", "2026-11-29T00:00"),
        ("112126", "2026-11-21T00:00", "2026-11-21T00:00"),
        ("11/21/26", "2026-11-21T00:00", "2026-11-21T00:00"),
        ("11.21.26-01:02:03", "2026-11-21T01:02:03", "2026-11-21T01:02:03"),
        ("01/31", "2027-01-31T00:00", "2026-01-31T00:00"),
        ("2026-11-21", "2026-11-21T00:00", "2026-11-21T00:00"),
        ("2026-11-21T10:20", "2026-11-21T10:20", "2026-11-21T10:20"),
    ],
)
def test_times_of_day(written, later, before) -> None:
    found = slurm_moment(written, NOW), slurm_moment(written, NOW, is_past=True)
    assert found == tuple(datetime.fromisoformat(one).timestamp() for one in (later, before))


@pytest.mark.parametrize("written", ["4pm", "soon", "13/45", "25:00", "13:00PM", "now+1moon", ""])
def test_what_is_no_time_of_day(written) -> None:
    with pytest.raises(ValueError, match="a moment is like"):
        slurm_moment(written, NOW)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("5", 300), ("0:300", 300), ("1:30", 90), ("1:2:3", 3_723), ("1-2", 93_600),
     ("1-2:3", 93_780), ("1-2:3:4", 93_784), ("0", None), ("UNLIMITED", None), ("infinite", None),
     ("-1", None)],
)  # fmt: skip
def test_lengths_of_time(written, seconds) -> None:
    assert slurm_length(written) == seconds


@pytest.mark.parametrize(
    ("words", "asked", "rest"),
    [
        ("-K echo x", {"kill-on-bad-exit": ""}, ["echo", "x"]),
        ("-K0 echo", {"kill-on-bad-exit": "0"}, ["echo"]),
        ("--exclusive echo", {"exclusive": ""}, ["echo"]),
        ("--exclusive=user echo", {"exclusive": "user"}, ["echo"]),
        ("-ln4 echo -n 5", {"label": "", "ntasks": "4"}, ["echo", "-n", "5"]),
        ("--nodel n1 --job-na=x -- -y", {"nodelist": "n1", "job-name": "x"}, ["-y"]),
        ("--nice --propagate=STACK x", {"nice": "", "propagate": "STACK"}, ["x"]),
    ],
)
def test_words_are_read_as_getopt_reads_them(words, asked, rest) -> None:
    assert read_options("srun", options.STEP, words.split()) == (asked, rest)


@pytest.mark.parametrize(
    ("known", "words", "asked"),
    [
        (SQUEUE, "-rh", {"array": "", "noheader": ""}),
        (SINFO, "-Nh", {"Node": "", "noheader": ""}),
        (SSHARE, "-Ph", {"parsable2": "", "noheader": ""}),
        (SSHARE, "-hn", {"noheader": ""}),
        (SSHARE, "-h -a", {"noheader": "", "all": ""}),
        (SPRIO, "-lh", {"long": "", "noheader": ""}),
    ],
)
def test_h_leaves_out_titles_also_behind_other_letters(known, words, asked) -> None:
    assert read_options("x", known, words.split()) == (asked, [])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("-y", "option -y not recognized"),
        ("--nod 1", "is ambiguous"),
        ("-n", "requires argument"),
        ("--label=1", "must not have an argument"),
    ],
)
def test_words_that_are_none(words, why) -> None:
    with pytest.raises(OptionError, match=why):
        read_options("srun", options.STEP, words.split())


@pytest.mark.parametrize(
    ("prefix", "known", "variables", "asked"),
    [
        ("SBATCH_", options.BATCH,
         {"SBATCH_TIMELIMIT": "5", "SBATCH_ARRAY_INX": "1-3", "SBATCH_WAIT": "1",
          "SBATCH_MEM_PER_NODE": "64", "SBATCH_EXCLUSIVE": "", "SBATCH_REQUEUE": "0",
          "SBATCH_CORE_SPEC": "1", "SBATCH_NOBODY": "1", "SLURM_NTASKS": "9"},
         {"time": "5", "array": "1-3", "wait": "", "mem": "64", "exclusive": ""}),
        ("SALLOC_", options.ALLOCATION, {"SALLOC_TIMELIMIT": "5", "SALLOC_QOS": "q"},
         {"time": "5", "qos": "q"}),
        ("SLURM_", options.STEP,
         {"SLURM_LABELIO": "1", "SLURM_KILL_BAD_EXIT": "1", "SLURM_NPROCS": "2",
          "SLURM_STDOUTMODE": "none", "SLURM_MPI_TYPE": "none", "SLURM_JOB_NAME": "outer",
          "SLURM_CPUS_PER_TASK": "3", "SLURM_NNODES": "2"},
         {"label": "", "kill-on-bad-exit": "1", "ntasks": "2", "output": "none", "mpi": "none",
          "nodes": "2"}),
        ("SQUEUE_", SQUEUE,
         {"SQUEUE_FORMAT": "%i", "SQUEUE_USERS": "u", "SQUEUE_NAMES": "n", "SQUEUE_ALL": "1",
          "SQUEUE_SORT": "i", "SQUEUE_STATES": "R"},
         {"format": "%i", "user": "u", "name": "n", "all": "", "sort": "i", "states": "R"}),
        ("SQUEUE_", SQUEUE, {"SQUEUE_FORMAT2": "jobid"}, {"Format": "jobid"}),
        ("SINFO_", SINFO, {"SINFO_FORMAT": "%P", "SINFO_PARTITION": "p"},
         {"format": "%P", "partition": "p"}),
        ("SCANCEL_", SCANCEL, {"SCANCEL_NAME": "n", "SCANCEL_VERBOSE": "1", "SCANCEL_USER": "u"},
         {"name": "n", "verbose": "", "user": "u"}),
    ],
)  # fmt: skip
def test_variables_set_options(prefix, known, variables, asked) -> None:
    assert from_environment(prefix, known, variables) == asked


MANUALS = {
    "sbatch": (options.BATCH, """
        account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment
        constraint container contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu
        cpus-per-task deadline delay-boot dependency error exclude exclusive export export-file
        extra-node-info get-user-env gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket
        gpus-per-task gres gres-flags help hint hold ignore-pbs input job-name kill-on-invalid-dep
        licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network
        nice no-kill no-requeue nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu
        ntasks-per-node ntasks-per-socket open-mode output overcommit oversubscribe parsable
        partition power prefer priority profile propagate qos quiet reboot requeue reservation
        signal sockets-per-node spread-job switches test-only thread-spec threads-per-core time
        time-min tmp uid usage use-min-nodes verbose version wait wait-all-nodes wckey wrap"""),
    "srun": (options.STEP, """
        accel-bind bcast bcast-exclude compress cpu-bind disable-status distribution epilog exact
        het-group immediate input jobid kill-on-bad-exit label mpi msg-timeout multi-prog
        no-allocate overlap preserve-env prolog pty quit-on-interrupt relative resv-ports send-libs
        slurmd-debug task-epilog task-prolog test-only threads unbuffered wait x11 error output
        open-mode nodelist exclude exclusive gres mem gpus-per-task time ntasks nodes"""),
    "salloc": (options.ALLOCATION, "bell no-bell kill-command no-shell immediate x11 time gres"),
    "squeue": (SQUEUE, """
        account all array array-unique clusters federation format Format help hide iterate jobs json
        licenses local long me name noconvert nodelist noheader partition priority qos reservation
        sibling sort start states steps usage user verbose yaml"""),
    "sinfo": (SINFO, """
        all clusters dead exact federation format Format help hide iterate json list-reasons local
        long noconvert Node nodes noheader partition reservation responding sort states summarize
        usage verbose version yaml"""),
    "sacct": (SACCT, """
        user accounts allclusters allocations allusers associations batch-script brief clusters
        completion constraints delimiter duplicates endtime env-vars federation file flags format
        gid help helpformat jobs json local long name nnodes ncpus noconvert nodelist noheader
        parsable parsable2 partition qos reason starttime state timelimit-max timelimit-min truncate
        uid units usage use-local-uid verbose version wckeys whole-hetjob yaml"""),
    "scancel": (SCANCEL, """
        account batch clusters ctld full help hurry interactive jobname me nodelist partition qos
        quiet reservation sibling signal state usage user verbose version wckey"""),
}  # fmt: skip


@pytest.mark.parametrize("command", MANUALS)
def test_every_documented_option_is_taken_or_refused_with_a_reason(command) -> None:
    known, listed = MANUALS[command]
    table = {one.long: one for one in known}
    assert set(listed.split()) <= table.keys()
    assert all(one.note for one in known if one.is_ignored)
    assert not [one.long for one in known if one.is_ignored and one.refused]


def test_nodes_are_chosen_by_names_labels_and_types() -> None:
    asked = {
        "nodelist": "10.0.0.1,n2",
        "exclude": "n3",
        "gres": "gpu:a100:2",
        "constraint": "x&y=1|z",
    }
    first, second = choice_of(asked, {"10.0.0.1": "n1"})
    shared = [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]},
        {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n3"]},
        {"key": "ray.io/accelerator-type", "operator": "In", "values": ["A100", "a100"]},
    ]
    x, y, z = ({"key": "x", "operator": "Exists"}, {"key": "y", "operator": "In", "values": ["1"]},
               {"key": "z", "operator": "Exists"})  # fmt: skip
    assert first == {"matchExpressions": [*shared, x, y]}
    assert second == {"matchExpressions": [*shared, z]}
    assert choice_of({"gres": "gpu:2", "ntasks": "4"}, {}) == []
    assert [gres_count(one) for one in ("gpu", "gpu:3", "gpu:a", "gpu:a:2", "gres/gpu=1")] == [
        ("", 1), ("", 3), ("a", 1), ("a", 2), ("", 1),
    ]  # fmt: skip
    assert typed_count("gpus", "h100:8") == ("h100", 8)


@pytest.mark.parametrize(
    ("gres", "needs"),
    [
        ("shard:8", {"GPU": 1, "gpu_cards": 1, "gpu_memory": 8 * 2**30}),
        ("mps:25", {"GPU": 0.25, "gpu_mps": 1}),
        ("gpu:2", {"GPU": 2}),
    ],
)
def test_shards_are_memory_and_mps_is_a_share(gres, needs):
    asked = {"gres": gres}
    job = job_spec(1, asked, shape_of(asked), ("a",), ("b",), {})
    held = job.groups[0].template.needs
    assert {name: held[name] for name in needs} == needs
    assert held.keys() == {*needs, "CPU"}


@pytest.mark.parametrize(
    ("words", "has"),
    [
        ("--exclusive -n2", {"cpus": 16, "members": 1, "tasks": 2}),
        ("-N 2-4", {"members": 2}),
        ("--mem=0", {"memory_bytes": None, "members": 1}),
        ("--gpus=4 --ntasks-per-gpu=2", {"tasks": 8, "members": 1}),
        ("--gres=gpu:2 --cpus-per-gpu=3", {"cpus": 6}),
        ("-n 12 -O", {"cpus": 1, "members": 1, "tasks": 12}),
        ("--gpus-per-task=2 -n 3", {"members": 3, "gpus": 2}),
    ],
)
def test_what_is_asked_for_becomes_members(words, has) -> None:
    asked, _ = read_options("sbatch", options.BATCH, words.split())
    shape = shape_of(asked, node_cpus=16)
    assert {name: getattr(shape, name) for name in has} == has


def test_a_nice_job_goes_later() -> None:
    def priority(words: str) -> int:
        asked, _ = read_options("sbatch", options.BATCH, words.split())
        return job_spec(1, asked, shape_of(asked), ("a",), ("b",), {}).priority or 0

    found = [priority(words) for words in ("", "--nice", "--nice=7", "--priority=9 --nice=-1")]
    assert found == [0, -100, -7, 10]


def test_jobs_that_differ_in_notes_alone_ask_for_the_same_place() -> None:
    assert SLURM_NOTE == NOTE
    found = []
    for name in ("one", "two"):
        asked, _ = read_options("sbatch", options.BATCH, ["-J", name, "--comment", name])
        notes = {"line": f"sbatch {name}"}
        job = job_spec(1, asked, shape_of(asked), ("a",), ("b",), {}, (), notes)
        assert dict(job.annotations)["slurm/line"] == f"sbatch {name}"
        found.append(shapes.shape_of(job, job.groups[0]))
    assert found[0] == found[1]


def test_variables_of_a_job() -> None:
    asked, _ = read_options("sbatch", options.BATCH, ["-n2", "-c2", "--mem-per-cpu=300", "--qos=q"])
    told = job_variables(7, asked, shape_of(asked), "default")
    assert (told["SLURM_MEM_PER_CPU"], told["SLURM_CPUS_PER_TASK"], told["SLURM_JOB_QOS"]) == (
        "300", "2", "q",
    )  # fmt: skip
    assert not {"SLURM_MEM_PER_NODE", "SLURM_NTASKS_PER_NODE"} & told.keys()
    nodes, hosts = ["a", "a", "b"], {"a": "ha", "b": "hb"}
    env = slurm_variables(nodes, hosts, 1, 3, cpus=2)
    assert env["SLURM_JOB_CPUS_PER_NODE"] == "4,2"
    assert own_slurm_variables(nodes, hosts, "a", [], 2)["SLURM_CPUS_ON_NODE"] == "4"
    assert own_slurm_variables(nodes, hosts, "b", [], 2)["SLURM_CPUS_ON_NODE"] == "2"
    step = own_step_variables(["b", "b"], hosts)
    assert (step["SLURM_STEP_NODELIST"], step["SLURM_STEP_NUM_NODES"], step["SLURM_NTASKS"]) == (
        "hb", "1", "2",
    )  # fmt: skip


def job_info(**fields: object) -> JobInfo:
    """Return a job with the given fields. The other fields do not matter."""
    usual = dict.fromkeys(JobInfo.__struct_fields__, "")
    numbers = dict.fromkeys(
        ("position", "begins", "queued", "started", "finished", "expected_start")
    )
    known = {"is_held": False, "licenses": {}, "gpus": 0.0}
    return JobInfo(**usual | numbers | known | fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"is_held": True, "after": "afterok:1"}, "JobHeldUser"),
        ({"after": "afterok:default/1", "reason": "it waits until 1 has ended"}, "Dependency"),
        ({"begins": 200.0, "reason": "it begins at ..."}, "BeginTime"),
        ({"reservation": "r", "reason": "it waits for reservation r"}, "Reservation"),
        ({"licenses": {"m": 1}, "reason": "2 licenses of m are held"}, "Licenses"),
        ({"position": 3, "reason": "free 2 more CPUs"}, "Priority"),
        ({"position": 1, "reason": "free 2 more CPUs"}, "Resources"),
        ({"reason": "JobArrayTaskLimit"}, "JobArrayTaskLimit"),
    ],
)
def test_reasons_are_slurms_words(fields, reason) -> None:
    job = job_info(**fields)
    assert waiting_reason(job, 100.0) == reason
    expected = "afterok:1(unfulfilled)" if reason == "Dependency" else ""
    assert dependency_text(job, reason) == expected


def test_reasons_of_what_is_over() -> None:
    assert ended_reason(st.FAILED, False) == "NonZeroExitCode"
    assert ended_reason(st.FAILED, True) == "JobLaunchFailure"
    assert ended_reason(st.TIMED_OUT, True) == "TimeLimit"
    assert ended_reason(st.TERMINATED, True) == "None"


OOM = "out of memory: it used 909 MiB, above its limit of 300 MiB"


@pytest.mark.parametrize(
    ("state", "reason", "seen"),
    [
        (st.FAILED, f"batch-0: {OOM}", OUT_OF_MEMORY),
        (st.FAILED, OOM, OUT_OF_MEMORY),
        (st.FAILED, "batch-0 exited with code 137", st.FAILED),
        (st.FAILED, "", st.FAILED),
        (st.TERMINATED, OOM, st.TERMINATED),
    ],
)
def test_a_job_that_used_too_much_memory_has_a_state_of_its_own(state, reason, seen) -> None:
    assert state_of(state, reason) == seen
    assert states_named("OOM") == states_named("out_of_memory") == {OUT_OF_MEMORY}
    job = job_info(state=state, reason=reason)
    row = Shown(["state", "short"]).row(job)
    assert (row["state"] == "OUT_OF_MEMORY") == (seen == OUT_OF_MEMORY)
    assert ended_reason(OUT_OF_MEMORY, True) == "OutOfMemory"
    if seen == OUT_OF_MEMORY:
        assert Shown().exit_code(job) == "0:125"


def test_a_past_job_that_used_too_much_memory() -> None:
    past = PastJob([attempt(state="Failed", exit_code=137, signal=9, reason=OOM)])
    row = past.row()
    assert (past.state, row["state"], row["reason"]) == (
        OUT_OF_MEMORY, "OUT_OF_MEMORY", "OutOfMemory",
    )  # fmt: skip


def test_states_that_no_job_has_here_are_known() -> None:
    assert states_named("cf,NODE_FAIL,R") == {st.PREPARING, st.RUNNING}
    assert states_named("PREEMPTED") == set()


def test_rows_are_sorted_by_letters() -> None:
    rows = [{"id": "12_[1-3]", "short": "PD", "priority": "1"}, {"id": "9", "short": "R",
            "priority": "7"}, {"id": "12_2", "short": "R", "priority": "10"}]  # fmt: skip

    def order(letters: str) -> list[str]:
        return [row["id"] for row in sorted_rows(rows, letters, SQUEUE_LETTERS)]

    assert order("i") == ["9", "12_2", "12_[1-3]"]
    assert order("t,-Q") == ["12_[1-3]", "12_2", "9"]
    assert order("-t") == ["9", "12_2", "12_[1-3]"]
    with pytest.raises(ValueError, match="no letter '1'"):
        order("1")


def test_tasks_of_a_step(tmp_path) -> None:
    programs = tmp_path / "programs"
    programs.write_text("# text\n0-1 a %t\n* b %o 'c d'\n")
    assert commands_of([str(programs), "e"], 3, True) == [
        ["a", "0", "e"], ["a", "1", "e"], ["b", "2", "c d", "e"],
    ]  # fmt: skip
    programs.write_text("0 a\n")
    with pytest.raises(OptionError, match="no record for task id 1"):
        commands_of([str(programs)], 2, True)
    assert [list(devices_of_task({"gpus-per-task": "2"}, [4, 5, 6, 7], n, 2)) for n in (0, 1)] == [
        [4, 5], [6, 7],
    ]  # fmt: skip
    assert list(devices_of_task({"gres": "none"}, [4, 5], 0, 1)) == []
    assert list(devices_of_task({"gres": "gpu:1"}, [4, 5], 0, 1)) == [4]
    assert end_texts([0, 3, 3, 9, 3], ["h"] * 5) == [
        "h: tasks 1-2,4: Exited with exit code 3",
        "h: task 3: Exited with exit code 9",
    ]


def test_sizes_in_other_units() -> None:
    assert in_units("billing=1,mem=2048M,node=1", "G") == "billing=1,mem=2G,node=1"
    assert [in_units("100M", unit) for unit in "KGg"] == ["102400K", "0.10G", "0.10G"]
    with pytest.raises(OptionError, match="--units=X"):
        in_units("1M", "X")


def test_a_time_of_day_is_of_the_local_zone() -> None:
    assert time.localtime(slurm_moment("13:00", NOW))[3:5] == (13, 0)
