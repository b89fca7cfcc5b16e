//! Generates slurm.conf, with the reason for each setting that is not obvious. `nodes` and
//! `accounting` contribute what depends on nodes and queues.

use std::fmt::Write as _;

use muster_model::queue::Backfill;

use super::accounting::GeneratedAccounting;
use super::nodes::{extras, lines, longest_minutes, partition_lines};
use super::{Auth, Choices, InitInput, clock};
use crate::pool::types;
use muster_model::gpu_model;

/// Longest time limit in minutes for which the backfill plans in fine steps; longer ones need
/// coarser steps, or a pass takes too long.
const FINE_MINUTES: u64 = 1440;

/// Generates the text of slurm.conf.
pub(super) fn text(
    order: &InitInput<'_>,
    accounting: &GeneratedAccounting,
    has_topology: bool,
) -> String {
    let mut text = String::new();
    identity(&mut text, order.choices);
    isolation(&mut text, order);
    scheduling(&mut text, order, accounting, has_topology);
    priority(&mut text, order, accounting);
    preemption(&mut text, accounting, order.choices);
    accounting_section(&mut text, order);
    operations(&mut text, order.choices);
    let _ = write!(
        text,
        "
# ---- Nodes and partitions ----
# `slurmd -C` on a node prints its actual processors and RealMemory; a node that has less than configured here is drained. Less
# RealMemory than printed leaves some to the system.
{}
# TRESBillingWeights: charge of a job in the fair share. With MAX_TRES above it is the maximum over its resources, so that one GPU
# with its part of processors and memory costs 1, and a job with one GPU and all processors pays for the GPUs that it blocks.
# All models cost the same; give expensive ones a higher weight.
# DefMemPerCPU and DefCpuPerGPU: a job without --mem and --cpus-per-gpu gets its GPUs' part of both.
# DefaultTime is short so that users set their own: backfill needs time limits.
{}",
        lines(order),
        partition_lines(order, accounting)
    );
    text
}

fn identity(text: &mut String, choices: &Choices) {
    let Choices { name, slurm_user, state_dir, spool_dir, log_dir, .. } = choices;
    let _ = write!(
        text,
        "\
# slurm.conf of {name}: the same file on every machine of the cluster, login nodes included.
ClusterName={name}
"
    );
    for host in &choices.controllers {
        let _ = writeln!(text, "SlurmctldHost={host}");
    }
    let _ = write!(
        text,
        "
# The controller needs no root privileges. The user exists on all machines with the same id, and owns the state directory: it contains
# all jobs, must survive a reboot, and with two controllers both write to it.
SlurmUser={slurm_user}
StateSaveLocation={state_dir}
SlurmdSpoolDir={spool_dir}
SlurmctldLogFile={log_dir}/slurmctld.log
SlurmdLogFile={log_dir}/slurmd.log

"
    );
    text.push_str(match choices.auth {
        Auth::Munge => "\
# Authentication by munge: its key, /etc/munge/munge.key, must be the same on all machines, and their clocks must agree.
AuthType=auth/munge
",
        Auth::Slurm => "\
# Authentication by Slurm's own key: slurm.key beside this file, 32 random bytes or more, the same on all machines, owned by the
# user above, mode 600.
AuthType=auth/slurm
CredType=cred/slurm
",
    });
}

fn isolation(text: &mut String, order: &InitInput<'_>) {
    let mut gres = vec!["gpu".to_owned()];
    gres.extend((order.choices.shards > 0).then(|| "shard".to_owned()));
    gres.extend(extras(order.nodes));
    let _ = write!(
        text,
        "
# ---- Allocation and isolation ----
# Single GPUs, cores and memory rather than whole nodes; only cons_tres supports --gpus. Memory is counted, as it is enforced, too.
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes={}

# cgroup.conf sets what is enforced. Processes that leave their parent still belong to their job, and end with it.
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup

# A container per job, created before its first task: pam_slurm_adopt on the nodes puts ssh sessions into it, where they see only the
# job's GPUs.
PrologFlags=Contain

# Jobs do not inherit the login node's low limit on locked memory, with which RDMA cannot register memory. slurmd itself needs
# LimitMEMLOCK=infinity.
PropagateResourceLimitsExcept=MEMLOCK
",
        gres.join(",")
    );
    if order
        .nodes
        .iter()
        .flat_map(|node| &node.devices)
        .any(|device| gpu_model::is_slice(device.model.as_str()))
    {
        text.push_str(
            "# MIG slices are GPUs of their own type: create them with `nvidia-smi mig` before slurmd starts; slurmd detects them.\n",
        );
    }
}

fn scheduling(
    text: &mut String,
    order: &InitInput<'_>,
    accounting: &GeneratedAccounting,
    has_topology: bool,
) {
    let window = longest_minutes(order, accounting);
    let resolution = if window > FINE_MINUTES { 600 } else { 60 };
    text.push_str("\n# ---- Scheduling ----\n");
    let depth = match (accounting.in_order, order.queues.backfill) {
        (true, _) => {
            text.push_str("# As in the queue file (`backfill: none`): no job overtakes a blocked one.\nSchedulerType=sched/builtin\n");
            None
        }
        (_, Backfill::Conservative { depth }) => Some(u64::from(depth).max(1000)),
        _ => Some(1000),
    };
    if let Some(depth) = depth {
        let youngest = if accounting.preempts { ",preempt_youngest_first" } else { "" };
        let busy = if accounting.spreads { "" } else { ",bf_busy_nodes" };
        let _ = write!(
            text,
            "\
# Small jobs are backfilled before a large one where they do not delay it. bf_window is the longest MaxTime in minutes: a large job
# behind long ones gets a planned start, and cannot be overtaken without limit. bf_resolution, in seconds, keeps such a long plan cheap.
# bf_continue resumes a pass after releasing the locks. max_switch_wait: --switches=1 waits up to a day.
SchedulerType=sched/backfill
SchedulerParameters=bf_window={window},bf_resolution={resolution},bf_max_job_test={depth},bf_continue{busy},default_queue_depth=500,max_switch_wait=86400{youngest}
"
        );
    }
    if has_topology {
        text.push_str("# Gangs are placed below as few switches as possible; see topology.conf.\nTopologyPlugin=topology/tree\n");
    } else {
        text.push_str("# No TopologyPlugin: switches are unknown. With several, write topology.conf and TopologyPlugin=topology/tree.\n");
    }
    text.push_str(
        "
# Jobs that can never start are rejected or cancelled: beyond a partition's limits, or with a dependency that can never be met.
EnforcePartLimits=ALL
DependencyParameters=kill_invalid_depend

# Each element of an array is a job. Far more jobs than elements per array, or a few arrays fill the queue for all users.
MaxArraySize=10001
MaxJobCount=100000

# An allocation without a script (salloc) starts its shell on the allocated node, not on the login node.
LaunchParameters=use_interactive_step
",
    );
}

fn priority(text: &mut String, order: &InitInput<'_>, accounting: &GeneratedAccounting) {
    let qos = if accounting.preempts { 20_000 } else { 0 };
    let partition = if accounting.interactive.is_empty() { 0 } else { 5_000 };
    let _ = write!(
        text,
        "
# ---- Priority ----
# Accounts that used less of their share come first, level by level down the tree (fair tree, the default of multifactor); age breaks
# ties, and raises jobs that wait long. Usage decays with the half-life of the queue file. No weight may exceed that of fair share, or
# shares have little effect, except that of the QOS, so that borrowing jobs come after those within their quota.
PriorityType=priority/multifactor
PriorityFlags=MAX_TRES
PriorityDecayHalfLife={}
PriorityMaxAge=14-0
PriorityWeightFairshare=10000
PriorityWeightAge=1000
PriorityWeightJobSize=1000
PriorityWeightPartition={partition}
PriorityWeightQOS={qos}
",
        clock(order.queues.half_life)
    );
}

fn preemption(text: &mut String, accounting: &GeneratedAccounting, choices: &Choices) {
    text.push_str("\n# ---- Preemption ----\n");
    if accounting.preempts {
        let _ = write!(
            text,
            "\
# Borrowing jobs (QOS idle) are preempted when the owner needs the GPUs: such a job gets SIGTERM, or its signal of --signal, has the
# GraceTime of its QOS ({} here, set by accounts.sh) for a checkpoint, and is requeued. The youngest job is preempted first
# (preempt_youngest_first above).
PreemptType=preempt/qos
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
",
            clock(choices.grace)
        );
    } else {
        text.push_str("# The queues lend no GPUs that could be reclaimed, so that no job is preempted.\nPreemptType=preempt/none\n");
    }
    text.push_str(
        "# Jobs are requeued after a node failure and after preemption; submit a job that must not run twice with --no-requeue.\nJobRequeue=1\n",
    );
}

fn accounting_section(text: &mut String, order: &InitInput<'_>) {
    let mut tres = vec!["gres/gpu".to_owned()];
    tres.extend(types(order.nodes).iter().map(|kind| format!("gres/gpu:{kind}")));
    tres.extend((order.choices.shards > 0).then(|| "gres/shard".to_owned()));
    let _ = write!(
        text,
        "
# ---- Accounting ----
# Shares, limits and reports are kept by slurmdbd. GPUs are recorded only if they are listed here; only then limits on them can be set.
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={}
AccountingStorageTRES={}
# Jobs need an account; limits and QOS are enforced; safe: a job starts only if its limit allows it to run to its end.
AccountingStorageEnforce=associations,limits,qos,safe
# Comments are kept in the job record; they contain Muster's id of a job.
AccountingStoreFlags=job_comment
JobAcctGatherType=jobacct_gather/cgroup
JobAcctGatherFrequency=30
",
        order.choices.dbd_host,
        tres.join(",")
    );
}

fn operations(text: &mut String, choices: &Choices) {
    text.push_str(
        "
# ---- Failures ----
# A node that does not answer is DOWN after five minutes, and back in service when it answers again.
SlurmdTimeout=300
SlurmctldTimeout=120
ReturnToService=1
# KillWait is the time for a checkpoint between SIGTERM and SIGKILL at a time limit. UnkillableStepTimeout waits for a process that the
# driver blocks before its node is drained.
KillWait=30
UnkillableStepTimeout=180
BatchStartTimeout=120
PrologEpilogTimeout=300
MinJobAge=300
SlurmctldDebug=info
SlurmdDebug=info
",
    );
    match &choices.health_check {
        Some(program) => {
            let _ = write!(text, "# Drains unhealthy nodes; runs every five minutes.\nHealthCheckProgram={program}\nHealthCheckInterval=300\n");
        }
        None => text.push_str(
            "\
# To be set by the site; `muster check slurm` reports it until then (no-health-check): a program that checks the node's GPUs and drains
# the node when one is lost. Without it a broken node fails one job after another.
#HealthCheckProgram=/usr/sbin/nhc
#HealthCheckInterval=300
",
        ),
    }
}
