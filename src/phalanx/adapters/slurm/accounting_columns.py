"""The columns of sacct, sshare, sprio and sacctmgr: the letters and names that their manual pages
document, and the text that Slurm prints for an unknown value.
"""

from __future__ import annotations

from phalanx.adapters.slurm.columns import columns_of, columns_with_widths

SACCT_FIELDS = columns_with_widths(
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
SSHARE_NAMES = columns_with_widths(
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
SPRIO_LETTERS = columns_of(
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
SACCTMGR_FIELDS = columns_with_widths(
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
