"""The columns of Slurm's listings: every letter and name that squeue(1), sinfo(1) and sacct(1)
document, and the text that Slurm prints for an unknown value."""

from __future__ import annotations

from typing import NamedTuple


class Field(NamedTuple):
    """A column of a listing. `field`: the field of rows; "" if no row has it. `unknown`: the text
    for an unknown value. `width`: the default width; below 0 for a column aligned to the left.
    """

    field: str
    title: str
    unknown: str = ""
    width: int = 0


_NOTHING = {"-": ""}


def _read(table: str) -> dict[str, Field]:
    """Read a table whose lines have a name, a field, a title and the text for an unknown value. The
    text `-` means that an entry is empty.
    """
    found = {}
    for line in table.strip().splitlines():
        name, field, title, unknown = (_NOTHING.get(word, word) for word in line.split())
        found[name] = Field(field, title, unknown)
    return found


def _sacct(table: str) -> dict[str, Field]:
    """Read a table whose lines have a name, a width, a field and the text for an unknown value."""
    found = {}
    for line in table.strip().splitlines():
        name, width, *cells = line.split()
        field, unknown = [*(_NOTHING.get(word, word) for word in cells), "", ""][:2]
        found[name] = Field(field, name, unknown, int(width))
    return found


SQUEUE_LETTERS = _read(
    """
    a account ACCOUNT (null)
    b tres_node TRES_PER_NODE N/A
    c mincpus MIN_CPUS 1
    d - MIN_TMP_DISK 0
    e end END_TIME N/A
    f features FEATURES (null)
    g group GROUP -
    h shares OVER_SUBSCRIBE OK
    i id JOBID -
    j name NAME -
    k comment COMMENT (null)
    l limit TIME_LIMIT -
    m memory MIN_MEMORY 0
    n wanted_nodes REQ_NODES -
    o command COMMAND (null)
    p fraction PRIORITY 0.00000000000000
    q qos QOS (null)
    r reason REASON None
    s - - -
    t short ST -
    u user USER -
    v reservation RESERVATION (null)
    w wckey WCKEY (null)
    x unwanted_nodes EXC_NODES -
    y nice NICE 0
    z - S:C:T *:*:*
    A array JOBID -
    B batchhost EXEC_HOST n/a
    C cpus CPUS -
    D nodes NODES -
    E dependency DEPENDENCY (null)
    F array ARRAY_JOB_ID -
    G gid GROUP -
    H - SOCKETS_PER_NODE *
    I - CORES_PER_SOCKET *
    J - THREADS_PER_CORE *
    K index ARRAY_TASK_ID N/A
    L left TIME_LEFT -
    M time TIME 0:00
    N nodelist NODELIST -
    O - CONTIGUOUS 0
    P partition PARTITION -
    Q priority PRIORITY -
    R where NODELIST(REASON) -
    S start START_TIME N/A
    T state STATE -
    U uid UID -
    V submit SUBMIT_TIME N/A
    W licenses LICENSES (null)
    X - CORE_SPEC N/A
    Y - SCHEDNODES (null)
    Z directory WORK_DIR -
    """
)
SQUEUE_STEP_LETTERS = {
    **SQUEUE_LETTERS,
    "A": Field("tasks", "TASKS"),
    "b": Field("", "TRES_PER_NODE", "N/A"),
    "i": Field("id", "STEPID"),
    "j": Field("name", "NAME"),
    "M": Field("time", "TIME"),
    "N": Field("nodelist", "NODELIST"),
}
"""The letters that select another column with `squeue --steps`."""
SQUEUE_NAMES = _read(
    """
    Account account ACCOUNT (null)
    AccrueTime eligible ACCRUE_TIME N/A
    admin_comment - ADMIN_COMMENT (null)
    AllocNodes alloc_node ALLOC_NODES -
    AllocSID - ALLOC_SID 0
    ArrayJobID array ARRAY_JOB_ID -
    ArrayTaskID index ARRAY_TASK_ID N/A
    AssocID - ASSOC_ID 0
    BatchFlag batchflag BATCH_FLAG 0
    BatchHost batchhost EXEC_HOST n/a
    BoardsPerNode - BOARDS_PER_NODE 0
    BurstBuffer - BURST_BUFFER (null)
    BurstBufferState - BURST_BUFFER_STATE (null)
    Cluster cluster CLUSTER -
    ClusterFeature - CLUSTER_FEATURES (null)
    Command command COMMAND (null)
    Comment comment COMMENT (null)
    Container - CONTAINER (null)
    ContainerID - CONTAINER_ID (null)
    Contiguous - CONTIGUOUS 0
    Cores - CORES_PER_SOCKET *
    CoreSpec - CORE_SPEC N/A
    cpus-per-task cpus_task CPUS_PER_TASK N/A
    cpus-per-tres - CPUS_PER_TRES N/A
    CpusPerTask cpus_task CPUS_PER_TASK N/A
    Deadline deadline DEADLINE N/A
    DelayBoot - DELAY_BOOT 0:00
    Dependency dependency DEPENDENCY (null)
    DerivedEC - DERIVED_EC 0
    EligibleTime eligible ELIGIBLE_TIME N/A
    EndTime end END_TIME N/A
    exit_code returned EXIT_CODE 0
    Extra - EXTRA (null)
    Feature features FEATURES (null)
    gres tres_node TRES_PER_NODE N/A
    GroupID gid GROUP -
    GroupName group GROUP -
    HetJobID - HET_JOB_ID N/A
    HetJobIDSet - HET_JOB_ID_SET N/A
    HetJobOffset - HET_JOB_OFFSET N/A
    JobArrayID id JOBID -
    JobID array JOBID -
    LastSchedEval - LAST_SCHED_EVAL N/A
    Licenses licenses LICENSES (null)
    MaxCPUs - MAX_CPUS 0
    MaxNodes - MAX_NODES 0
    MCSLabel - MCSLABEL (null)
    mem-per-tres - MEM_PER_TRES N/A
    MinCpus mincpus MIN_CPUS 1
    MinMemory memory MIN_MEMORY 0
    MinTime - TIME_MIN 0:00
    MinTmpDisk - MIN_TMP_DISK 0
    Name name NAME -
    Network - NETWORK (null)
    Nice nice NICE 0
    NodeList nodelist NODELIST -
    NTPerBoard - NTASKS_PER_BOARD 0
    NTPerCore - NTASKS_PER_CORE N/A
    NTPerNode tasks_node NTASKS_PER_NODE 0
    NTPerSocket - NTASKS_PER_SOCKET N/A
    NumCPUs cpus CPUS -
    NumNodes nodes NODES -
    NumTasks tasks TASKS -
    Origin - ORIGIN NA
    OriginRaw - ORIGIN_RAW NA
    OverSubscribe shares OVER_SUBSCRIBE OK
    PackJobID - HET_JOB_ID N/A
    PackJobIDSet - HET_JOB_ID_SET N/A
    PackJobOffset - HET_JOB_OFFSET N/A
    Partition partition PARTITION -
    PendingTime waited PENDING_TIME 0
    PreemptTime - PREEMPT_TIME N/A
    Prefer - PREFER (null)
    Priority fraction PRIORITY 0.00000000000000
    PriorityLong priority PRIORITY -
    Profile - PROFILE NotSet
    QOS qos QOS (null)
    Reason reason REASON None
    ReasonList where NODELIST(REASON) -
    Reboot - REBOOT 0
    ReqNodes wanted_nodes REQ_NODES -
    ReqSwitch - REQ_SWITCH 0
    Requeue requeue REQUEUE 1
    Reservation reservation RESERVATION (null)
    ResizeTime - RESIZE_TIME N/A
    RestartCnt restarts RESTART_COUNT 0
    SchedNodes - SCHEDNODES (null)
    SCT - S:C:T *:*:*
    SelectJobInfo - - -
    Shared shares OVER_SUBSCRIBE OK
    SiblingsActive - ACTIVE_SIBLINGS NA
    SiblingsActiveRaw - ACTIVE_SIBLINGS_RAW NA
    SiblingsViable - VIABLE_SIBLINGS NA
    SiblingsViableRaw - VIALBLE_SIBLINGS_RAW NA
    Sockets - SOCKETS_PER_NODE *
    SPerBoard - SOCKETS_PER_BOARD 0
    StartTime start START_TIME N/A
    State state STATE -
    StateCompact short ST -
    STDERR stderr STDERR -
    STDIN stdin STDIN -
    STDOUT stdout STDOUT -
    SubmitTime submit SUBMIT_TIME N/A
    system_comment - SYSTEM_COMMENT (null)
    Threads - THREADS_PER_CORE *
    TimeLeft left TIME_LEFT -
    TimeLimit limit TIME_LIMIT -
    TimeUsed time TIME 0:00
    tres tres TRES_ALLOC N/A
    tres-alloc tres TRES_ALLOC N/A
    tres-bind - TRES_BIND N/A
    tres-freq - TRES_FREQ N/A
    tres-per-job - TRES_PER_JOB N/A
    tres-per-node tres_node TRES_PER_NODE N/A
    tres-per-socket - TRES_PER_SOCKET N/A
    tres-per-task - TRES_PER_TASK N/A
    UserID uid UID -
    UserName user USER -
    Wckey wckey WCKEY (null)
    WorkDir directory WORK_DIR -
    """
)
SQUEUE_STEP_NAMES = {
    **SQUEUE_NAMES,
    **_read(
        """
        ArrayJobID array ARRAY_JOB_ID -
        CPUFreq - CPU_FREQ N/A
        JobID array JOBID -
        Nodes nodelist NODELIST -
        NumTasks tasks TASKS -
        ResvPort - RESV_PORTS (null)
        StepID id STEPID -
        StepName name NAME -
        StepState state STATE -
        tres-per-step - TRES_PER_STEP N/A
        """
    ),
}
SINFO_LETTERS = _read(
    """
    a open AVAIL -
    b features ACTIVE_FEATURES (null)
    c cpus CPUS 0
    d - TMP_DISK 0
    e free FREE_MEM N/A
    f features AVAIL_FEATURES (null)
    g - GROUPS all
    h - OVERSUBSCRIBE NO
    l limit TIMELIMIT infinite
    m memory MEMORY 0
    n hosts HOSTNAMES -
    o list NODE_ADDR -
    p - PRIO_TIER 1
    r - ROOT no
    s - JOB_SIZE 1-infinite
    t short STATE n/a
    u reason_user USER Unknown
    v version VERSION N/A
    w - WEIGHT 1
    z sct S:C:T 0:0:0
    A counts_short NODES(A/I) -
    B - MAX_CPUS_PER_NODE UNLIMITED
    C used CPUS(A/I/O/T) -
    D count NODES 0
    E reason REASON none
    F counts NODES(A/I/O/T) -
    G gres GRES (null)
    H reason_time TIMESTAMP Unknown
    I - PRIO_JOB_FACTOR 1
    L default_limit DEFAULTTIME n/a
    M - PREEMPT_MODE OFF
    N list NODELIST -
    O load CPU_LOAD N/A
    P partition PARTITION -
    R queue PARTITION -
    S - ALLOCNODES all
    T state STATE n/a
    U reason_user USER Unknown
    V cluster CLUSTER N/A
    X cpus SOCKETS 0
    Y - CORES 1
    Z - THREADS 1
    """
)
SINFO_NAMES = _read(
    """
    AllocMem allocated ALLOCMEM 0
    AllocNodes - ALLOCNODES all
    Available open AVAIL -
    Cluster cluster CLUSTER N/A
    Comment - COMMENT (null)
    Cores - CORES 1
    CPUs cpus CPUS 0
    CPUsLoad load CPU_LOAD N/A
    CPUsState used CPUS(A/I/O/T) -
    DefaultTime default_limit DEFAULTTIME n/a
    Disk - TMP_DISK 0
    Extra - EXTRA (null)
    Features features AVAIL_FEATURES (null)
    features_act features ACTIVE_FEATURES (null)
    FreeMem free FREE_MEM N/A
    Gres gres GRES (null)
    GresUsed gres_used GRES_USED (null)
    Groups - GROUPS all
    MaxCPUsPerNode - MAX_CPUS_PER_NODE UNLIMITED
    Memory memory MEMORY 0
    NodeAddr list NODE_ADDR -
    NodeAI counts_short NODES(A/I) -
    NodeAIOT counts NODES(A/I/O/T) -
    NodeHost hosts HOSTNAMES -
    NodeList list NODELIST -
    Nodes count NODES 0
    OverSubscribe - OVERSUBSCRIBE NO
    Partition partition PARTITION -
    PartitionName queue PARTITION -
    Port port PORT 0
    PreemptMode - PREEMPT_MODE OFF
    PriorityJobFactor - PRIO_JOB_FACTOR 1
    PriorityTier - PRIO_TIER 1
    Priority - PRIO_TIER 1
    Reason reason REASON none
    Root - ROOT no
    Size - JOB_SIZE 1-infinite
    SocketCoreThread sct S:C:T 0:0:0
    Sockets cpus SOCKETS 0
    StateCompact short STATE n/a
    StateComplete state STATECOMPLETE n/a
    StateLong state STATE n/a
    Threads - THREADS 1
    Time limit TIMELIMIT infinite
    TimeStamp reason_time TIMESTAMP Unknown
    User reason_user USER Unknown
    UserLong reason_user USER Unknown
    Version version VERSION N/A
    Weight - WEIGHT 1
    """
)
SACCT_FIELDS = _sacct(
    """
    Account 10 account
    AdminComment 15
    AllocCPUS 10 cpus 0
    AllocNodes 10 nodes 0
    AllocTRES 10 tres
    AssocID 7 - 0
    AveCPU 10 avecpu
    AveCPUFreq 10
    AveDiskRead 14
    AveDiskWrite 14
    AvePages 10
    AveRSS 10 averss
    AveVMSize 10
    BlockID 16
    Cluster 10 cluster
    Comment 14 comment
    Constraints 19 features
    ConsumedEnergy 14 - 0
    ConsumedEnergyRaw 17 - 0
    Container 19
    CPUTime 10 cputime 00:00:00
    CPUTimeRAW 10 cpuseconds 0
    DBIndex -21 - 0
    DerivedExitCode 15 derived
    Elapsed 10 elapsed 00:00:00
    ElapsedRaw 10 seconds 0
    Eligible 19 eligible Unknown
    End 19 end Unknown
    ExitCode 8 code 0:0
    Extra 14
    FailedNode 8
    Flags 19
    GID 6 gid
    Group 9 group
    JobID -12 id
    JobIDRaw -12 id
    JobName 10 name
    Layout 9 layout
    Licenses 10 licenses
    MaxDiskRead 12
    MaxDiskReadNode 15
    MaxDiskReadTask 15
    MaxDiskWrite 12
    MaxDiskWriteNode 16
    MaxDiskWriteTask 16
    MaxPages 8
    MaxPagesNode 12
    MaxPagesTask 14
    MaxRSS 10 maxrss
    MaxRSSNode 10
    MaxRSSTask 10
    MaxVMSize 10
    MaxVMSizeNode 14
    MaxVMSizeTask 14
    McsLabel 12
    MinCPU 10
    MinCPUNode 10
    MinCPUTask 10
    NCPUS 10 cpus 0
    NNodes 8 nodes 0
    NodeList 15 nodelist
    NTasks 8 tasks
    Partition 10 partition
    Planned 10 planned 00:00:00
    PlannedCPU 10 planned_cpu 00:00:00
    PlannedCPURAW 13 planned_cpu_raw 0
    Priority 10 priority
    QOS 10 qos
    QOSRAW 6
    QOSREQ 10 qos
    Reason 22 reason None
    ReqCPUFreq 10
    ReqCPUFreqGov 13
    ReqCPUFreqMax 13
    ReqCPUFreqMin 13
    ReqCPUS 8 cpus 0
    ReqMem 10 reqmem
    ReqNodes 8 nodes 0
    ReqTRES 10 tres
    Reservation 20 reservation
    ReservationId 13
    Reserved 10 planned 00:00:00
    ResvCPU 10 planned_cpu 00:00:00
    ResvCPURAW 10 planned_cpu_raw 0
    Restarts 8 restarts 0
    SLUID 14
    Start 19 start Unknown
    State 10 state
    StdErr 20 stderr
    StdIn 20 stdin
    StdOut 20 stdout
    Submit 19 submit Unknown
    SubmitLine 20 submit_line
    Suspended 10 - 00:00:00
    SystemComment 15
    SystemCPU 10 systemcpu 00:00:00
    Timelimit 10 timelimit
    TimelimitRaw 12 timelimit_raw
    TotalCPU 10 totalcpu 00:00:00
    TRESUsageInAve 14 usage_ave
    TRESUsageInMax 14 usage_max
    TRESUsageInMaxNode 18
    TRESUsageInMaxTask 18
    TRESUsageInMin 14
    TRESUsageInMinNode 18
    TRESUsageInMinTask 18
    TRESUsageInTot 14 usage_tot
    TRESUsageOutAve 15
    TRESUsageOutMax 15
    TRESUsageOutMaxNode 19
    TRESUsageOutMaxTask 19
    TRESUsageOutMin 15
    TRESUsageOutMinNode 19
    TRESUsageOutMinTask 19
    TRESUsageOutTot 15
    UID 6 uid
    User 9 user
    UserCPU 10 usercpu 00:00:00
    WCKey 10 wckey
    WCKeyID 10 - 0
    WorkDir 20 directory
    """
)
SSHARE_NAMES = _sacct(
    """
    Account -20 account
    User 10 user
    RawShares 10 shares
    NormShares 11 part
    RawUsage 11 use
    NormUsage 11 norm_use
    EffectvUsage 13 use_part
    FairShare 10 fairshare
    LevelFS 10 level
    Cluster 10 cluster phalanx
    GrpTRESMins 30
    GrpTRESRaw 30
    ID 6 - 0
    TRESRunMins 30
    """
)
SPRIO_LETTERS = _read(
    """
    i id JOBID -
    r partition PARTITION -
    u user USER -
    Y priority PRIORITY -
    S - SITE 0
    A age AGE -
    B - ASSOC 0
    F fairshare FAIRSHARE -
    J size JOBSIZE -
    P - PARTITION 0
    Q - QOS 0
    N nice NICE 0
    T - TRES -
    o account ACCOUNT -
    """
)
SACCTMGR_FIELDS = _sacct(
    """
    Account 10 account
    Admin 9 - None
    Cluster 10 - phalanx
    ControlHost 15 host
    ControlPort 12 - 0
    DefaultAccount 10 default
    DefaultQOS 9
    Descr 20 account
    Fairshare 9 - 1
    Flags 20
    GraceTime 10 - 00:00:00
    GrpTRES 13
    GrpTRESMins 13
    GrpJobs 7
    GrpSubmit 9
    GrpWall 11
    ID 6 - 0
    MaxJobs 7
    MaxSubmit 9
    MaxTRES 13
    MaxTRESMins 13
    MaxTRESPerUser 13
    MaxWall 11
    Name 10 name
    Org 20 - phalanx
    ParentID 6 - 0
    ParentName 10
    Partition 10
    Preempt 10
    PreemptMode 11 - cluster
    Priority 10 - 0
    QOS 20 - normal
    RPC 5 - 0
    Share 9 - 1
    UsageFactor 11 - 1.000000
    User 10 user
    """
)
