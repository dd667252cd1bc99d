"""The columns that Slurm's listings of jobs know: name or letter, field of our rows, title."""

from __future__ import annotations


def _read(table: str) -> dict[str, tuple[str, str]]:
    lines = (line.split() for line in table.strip().splitlines())
    return {name: (field, title) for name, field, title in lines}


SQUEUE_LETTERS = _read(
    """
    i id JOBID
    A array JOBID
    F array ARRAY_JOB_ID
    K index ARRAY_TASK_ID
    P partition PARTITION
    j name NAME
    u user USER
    t short ST
    T state STATE
    M time TIME
    l limit TIME_LIMIT
    L left TIME_LEFT
    D nodes NODES
    R where NODELIST(REASON)
    N nodelist NODELIST
    r reason REASON
    C cpus CPUS
    a account ACCOUNT
    k comment COMMENT
    Q priority PRIORITY
    S start START_TIME
    e end END_TIME
    V submit SUBMIT_TIME
    Z directory WORK_DIR
    w wckey WCKEY
    """
)
SQUEUE_NAMES = _read(
    """
    JobID array JOBID
    JobArrayID id JOBID
    ArrayJobID array ARRAY_JOB_ID
    ArrayTaskID index ARRAY_TASK_ID
    Partition partition PARTITION
    Name name NAME
    UserName user USER
    State state STATE
    StateCompact short ST
    TimeUsed time TIME
    TimeLimit limit TIME_LIMIT
    TimeLeft left TIME_LEFT
    NumNodes nodes NODES
    NodeList nodelist NODELIST
    ReasonList where NODELIST(REASON)
    Reason reason REASON
    NumCPUs cpus CPUS
    NumTasks tasks TASKS
    Account account ACCOUNT
    Comment comment COMMENT
    PriorityLong priority PRIORITY
    StartTime start START_TIME
    EndTime end END_TIME
    SubmitTime submit SUBMIT_TIME
    WorkDir directory WORK_DIR
    RestartCnt restarts RESTART_COUNT
    """
)
SACCT_FIELDS = _read(
    """
    JobID id JobID
    JobIDRaw id JobIDRaw
    JobName name JobName
    Partition partition Partition
    Account account Account
    User user User
    AllocCPUS cpus AllocCPUS
    NCPUS cpus NCPUS
    ReqCPUS cpus ReqCPUS
    State state State
    ExitCode code ExitCode
    Elapsed elapsed Elapsed
    ElapsedRaw seconds ElapsedRaw
    Start start Start
    End end End
    Submit submit Submit
    Timelimit timelimit Timelimit
    NodeList nodelist NodeList
    NNodes nodes NNodes
    AllocNodes nodes AllocNodes
    NTasks tasks NTasks
    Comment comment Comment
    WorkDir directory WorkDir
    WCKey wckey WCKey
    Reason reason Reason
    Priority priority Priority
    Restarts restarts Restarts
    CPUTime cputime CPUTime
    CPUTimeRAW cpuseconds CPUTimeRAW
    TotalCPU totalcpu TotalCPU
    MaxRSS maxrss MaxRSS
    AveRSS averss AveRSS
    ReqMem reqmem ReqMem
    ReqTRES tres ReqTRES
    AllocTRES tres AllocTRES
    """
)
SSHARE_NAMES = _read(
    """
    Account account Account
    User user User
    RawShares shares RawShares
    NormShares part NormShares
    RawUsage use RawUsage
    NormUsage use_part NormUsage
    EffectvUsage use_part EffectvUsage
    FairShare fairshare FairShare
    LevelFS level LevelFS
    """
)
SPRIO_LETTERS = _read(
    """
    i id JOBID
    r partition PARTITION
    u user USER
    Y priority PRIORITY
    A age AGE
    F fairshare FAIRSHARE
    J size JOBSIZE
    """
)
