"""The columns of squeue: every letter and name that squeue(1) documents, and the text that Slurm
prints for an unknown value.
"""

from __future__ import annotations

from phalanx.adapters.slurm.columns import Field, columns_of

SQUEUE_LETTERS = columns_of(
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
SQUEUE_NAMES = columns_of(
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
    **columns_of(
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
