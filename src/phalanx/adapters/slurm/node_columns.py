"""The columns of sinfo: every letter and name that sinfo(1) documents, and the text that Slurm
prints for an unknown value.
"""

from __future__ import annotations

from phalanx.adapters.slurm.columns import columns_of

SINFO_LETTERS = columns_of(
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
    M preempt PREEMPT_MODE OFF
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
SINFO_NAMES = columns_of(
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
    PreemptMode preempt PREEMPT_MODE OFF
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
