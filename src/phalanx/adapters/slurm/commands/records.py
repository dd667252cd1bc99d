"""The records of `scontrol show`: jobs, nodes, partitions, steps and the configuration."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from phalanx.adapters.slurm.commands.hostlists import name_of, names_of
from phalanx.adapters.slurm.commands.sinfo import held, state_of
from phalanx.adapters.slurm.commands.usage import SLURM_VERSION
from phalanx.adapters.slurm.marks import CLUSTER, NOTE
from phalanx.cli.times import length
from phalanx.model.jobs import states as st
from phalanx.model.rows.cluster import NodeInfo
from phalanx.model.rows.work import JobInfo, QueueInfo

Record = list[str]
"""The lines of a record. The first line has the smallest indentation."""
_MIB = 1 << 20


def job_record(job: JobInfo, row: Mapping[str, str], has_details: bool = False) -> Record:
    """Return the record of a job. `row`: its fields in listings. `has_details`: add a line with its
    GPUs on all nodes.
    """
    is_waiting = job.state == st.PENDING
    array = ""
    if "_" in row["id"] or job.array:
        index = job.array or row["index"]
        array = f" ArrayJobId={row['array']} ArrayTaskId={index}"
    memory, unit = (
        row["memory"] or "0",
        "CPU" if f"{NOTE}mem-per-cpu" in job.annotations else "Node",
    )
    start = row["start"].replace("N/A", "Unknown")
    wckey = f" WCKey={row['wckey']}" if row["wckey"] else ""
    end = (row["end"] or "Unknown").replace("NONE", "Unknown")
    ran = not is_waiting and job.started is not None
    gpus = row["tres"].partition("gres/gpu=")[2]
    lines = [
        f"JobId={row['array']}{array} JobName={row['name']}",
        f"UserId={row['user']}({row['uid']}) GroupId={row['group']}({row['gid']}) MCS_label=N/A",
        f"Priority={row['priority']} Nice={row['nice'] or 0} Account={_or_null(row['account'])}"
        f" QOS={_or_null(row['qos'])}{wckey}",
        f"JobState={row['state']} Reason={row['reason']} Dependency={_or_null(row['dependency'])}",
        f"Requeue=1 Restarts={row['restarts']} BatchFlag={row['batchflag']} Reboot=0"
        f" ExitCode={row['code']}",
        f"RunTime={row['elapsed']} TimeLimit={row['timelimit']} TimeMin=N/A",
        f"SubmitTime={row['submit']} EligibleTime={row['eligible'] or 'Unknown'}",
        f"AccrueTime={row['eligible'] or 'Unknown'}",
        f"StartTime={start} EndTime={end} Deadline={row['deadline'] or 'N/A'}",
        "SuspendTime=None SecsPreSuspend=0 LastSchedEval=Unknown Scheduler=Main",
        f"Partition={row['partition']} AllocNode:Sid={CLUSTER}:0",
        f"ReqNodeList={_or_null(row['wanted_nodes'])}"
        f" ExcNodeList={_or_null(row['unwanted_nodes'])}",
        f"NodeList={row['nodelist']}",
        *([f"BatchHost={row['batchhost']}"] if ran and row["batchhost"] else []),
        f"NumNodes={row['nodes']} NumCPUs={row['cpus']} NumTasks={row['tasks']}"
        f" CPUs/Task={row['cpus_task'] or 1} ReqB:S:C:T=0:0:*:*",
        f"TRES={row['tres']}",
        f"Socks/Node=* NtasksPerN:B:S:C={row['tasks_node'] or 0}:0:*:* CoreSpec=*",
        *([f"JOB_GRES=gpu:{gpus}"] if has_details and gpus else []),
        f"MinCPUsNode={row['mincpus']} MinMemory{unit}={memory} MinTmpDiskNode=0",
        f"Features={_or_null(row['features'])} DelayBoot=00:00:00",
        f"OverSubscribe=OK Contiguous=0 Licenses={_or_null(row['licenses'])} Network=(null)",
        f"Command={_or_null(row['command'])}",
        f"WorkDir={row['directory']}",
    ]
    if row["comment"]:
        lines.append(f"Comment={row['comment']}")
    if row["stdout"]:
        lines += [f"StdErr={row['stderr']}", f"StdIn={row['stdin']}", f"StdOut={row['stdout']}"]
    if row["reservation"]:
        lines.append(f"Reservation={row['reservation']}")
    if row["tres_node"]:
        lines.append(f"TresPerNode={row['tres_node']}")
    if row["mail"]:
        lines.append(f"MailUser={row['mail']} MailType=NONE")
    return [*lines, "Power="]


def _or_null(text: str) -> str:
    return text or "(null)"


def node_record(node: NodeInfo, queues: Sequence[str]) -> Record:
    """Return the record of a node. `queues`: all queues, because each node belongs to all of
    them.
    """
    total = node.total
    cpus, memory, gpus = (total.get(name, 0.0) for name in ("CPU", "memory", "GPU"))
    used = {name: held(node, name) for name in ("CPU", "memory", "GPU")}
    features = ",".join(sorted(name for name in node.labels if "/" not in name))
    mib, taken = int(memory) // _MIB, int(used["memory"]) // _MIB
    has = [f"cpu={cpus:g}", f"mem={mib}M", f"billing={cpus:g}"]
    holds = [f"cpu={used['CPU']:g}", f"mem={taken}M"] if used["CPU"] or taken else []
    has += [f"gres/gpu={gpus:g}"] if gpus else []
    holds += [f"gres/gpu={used['GPU']:g}"] if used["GPU"] else []
    lines = [
        f"NodeName={name_of(node)} Arch={node.labels.get('kubernetes.io/arch', 'unknown')}"
        f" CoresPerSocket=1",
        f"CPUAlloc={used['CPU']:g} CPUEfctv={cpus:g} CPUTot={cpus:g} CPULoad=N/A",
        f"AvailableFeatures={_or_null(features)}",
        f"ActiveFeatures={_or_null(features)}",
        f"Gres={f'gpu:{gpus:g}' if gpus else '(null)'}",
        f"NodeAddr={node.host} NodeHostName={node.hostname} Version={SLURM_VERSION}",
        f"RealMemory={mib} AllocMem={taken} FreeMem={mib - taken} Sockets={cpus:g} Boards=1",
        f"State={state_of(node).upper()} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A"
        f" MCS_label=N/A",
        f"Partitions={','.join(queues)}",
        f"CfgTRES={','.join(has)}",
        f"AllocTRES={','.join(holds)}",
    ]
    return [*lines, f"Reason={node.reason}"] if node.reason else lines


def queue_record(queue: QueueInfo, nodes: Sequence[NodeInfo], mode: str) -> Record:
    """Return the record of a queue as a partition with all nodes. `mode`: the preemption mode."""
    cpus = sum(node.total.get("CPU", 0.0) for node in nodes)
    memory = int(sum(node.total.get("memory", 0.0) for node in nodes)) // _MIB
    longest = length(queue.max_time_s) if queue.max_time_s else "UNLIMITED"
    usual = length(queue.default_time_s) if queue.default_time_s else "NONE"
    return [
        f"PartitionName={queue.name}",
        "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL",
        f"AllocNodes=ALL Default={'YES' if queue.name == 'default' else 'NO'} QoS=N/A",
        f"DefaultTime={usual} DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
        f"MaxNodes=UNLIMITED MaxTime={longest} MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED",
        f"Nodes={names_of(nodes)}",
        f"PriorityJobFactor={queue.priority} PriorityTier=1 RootOnly=NO ReqResv=NO"
        f" OverSubscribe=NO",
        f"OverTimeLimit=NONE PreemptMode={mode}",
        f"State={'UP' if queue.state == 'Open' else 'DOWN'} TotalCPUs={cpus:g}"
        f" TotalNodes={len(nodes)} SelectTypeParameters=NONE",
        "JobDefaults=(null)",
        "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED",
        f"TRES=cpu={cpus:g},mem={memory}M,node={len(nodes)},billing={cpus:g}",
    ]


def step_record(row: Mapping[str, str], job: JobInfo, uid: str) -> Record:
    """Return the record of a running step. `row`: its fields in listings."""
    limit = length(job.time_limit_s) if job.time_limit_s else "UNLIMITED"
    return [
        f"StepId={row['id']} UserId={uid or 0} StartTime={row['start']} TimeLimit={limit}",
        f"State={row['state']} Partition={job.queue} NodeList={row['nodelist']}",
        f"Nodes={row['nodes']} CPUs={row['cpus']} Tasks={row['tasks']} Name={row['name']}"
        f" Network=(null)",
        f"TRES={row['tres']}",
    ]


def configuration(queues: Sequence[QueueInfo], host: str, path: str, mode: str) -> list[str]:
    """Return the lines of `scontrol show config` that programs read.

    `path`: the directory of the cluster's session. `mode`: the preemption mode.
    """
    pairs = {
        "AccountingStorageType": "accounting_storage/phalanx",
        "AuthType": "auth/phalanx",
        "ClusterName": CLUSTER,
        "DefMemPerNode": "UNLIMITED",
        "EnforcePartLimits": "NO",
        "GresTypes": "gpu",
        "JobRequeue": "1",
        "KillWait": "30 sec",
        "MaxArraySize": "4000001",
        "MaxJobCount": "10000000",
        "MaxStepCount": "40000",
        "MaxTasksPerNode": "65533",
        "MinJobAge": "300 sec",
        "MpiDefault": "none",
        "PreemptMode": mode,
        "PreemptType": "preempt/none" if mode == "OFF" else "preempt/phalanx",
        "PriorityType": "priority/phalanx",
        "ProctrackType": "proctrack/phalanx",
        "SchedulerType": "sched/phalanx",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_MEMORY",
        "SLURM_CONF": path,
        "SLURM_VERSION": SLURM_VERSION,
        "SlurmctldHost[0]": host,
        "SlurmUser": "(null)",
        "TaskPlugin": "task/none",
    }
    width = max(map(len, pairs))
    head = f"Configuration data as of {time.strftime('%Y-%m-%dT%H:%M:%S')}"
    names = ",".join(queue.name for queue in queues)
    lines = [f"{name:<{width}} = {value}" for name, value in sorted(pairs.items())]
    return [head, *lines, "", f"Partitions are queues: {names}"]
