//! slurm.conf: each setting that is not obvious with its reason. What depends on nodes is in
//! `nodes`, on queues in `accounting`.

use std::fmt::Write as _;

use muster_model::queue::Backfill;

use super::accounting::Accounting;
use super::nodes::{extras, lines, longest_minutes, partition_lines, types};
use super::{Auth, Choices, Order, clock};
use crate::gpu::model;

/// Windows longer than this are planned in coarser steps, or a backfill pass takes too long.
const FINE_MINUTES: u64 = 1440;

/// The file.
pub(super) fn text(order: &Order<'_>, accounting: &Accounting, has_topology: bool) -> String {
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
# `slurmd -C` on a node prints its true processors and RealMemory; a node that has less than is written here is drained. Less
# RealMemory than it prints leaves some to the system.
{}
# TRESBillingWeights: what a job is charged in the fair share. With MAX_TRES above it pays for the largest of its parts, so that one
# GPU with its part of processors and memory is one, and a job that takes all processors beside one GPU pays for the GPUs that it
# keeps from others. All models are billed alike; give dearer ones more.
# DefMemPerCPU and DefCpuPerGPU: a job that names neither gets its GPUs' part of both.
# DefaultTime is short so that people name their own: backfill lives on time limits.
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
# slurm.conf of {name}: the same file on every machine of the cluster, also where jobs are only submitted.
ClusterName={name}
"
    );
    for host in &choices.controllers {
        let _ = writeln!(text, "SlurmctldHost={host}");
    }
    let _ = write!(
        text,
        "
# The controller needs no right that root has. The user exists on all machines with one number, and owns the folder of the state:
# all jobs are in there, so it stays over a restart, and with two controllers both write it.
SlurmUser={slurm_user}
StateSaveLocation={state_dir}
SlurmdSpoolDir={spool_dir}
SlurmctldLogFile={log_dir}/slurmctld.log
SlurmdLogFile={log_dir}/slurmd.log

"
    );
    text.push_str(match choices.auth {
        Auth::Munge => "\
# Who is who is told by munge: its key, /etc/munge/munge.key, is the same on all machines, and their clocks agree.
AuthType=auth/munge
",
        Auth::Slurm => "\
# Who is who is told by a key of Slurm's own: slurm.key beside this file, of 32 random bytes or more, the same on all machines, of the
# user above, mode 600.
AuthType=auth/slurm
CredType=cred/slurm
",
    });
}

fn isolation(text: &mut String, order: &Order<'_>) {
    let mut gres = vec!["gpu".to_owned()];
    gres.extend((order.choices.shards > 0).then(|| "shard".to_owned()));
    gres.extend(extras(order.nodes));
    let _ = write!(
        text,
        "
# ---- What a job is given, and held to ----
# Single GPUs, cores and memory, not whole nodes; only cons_tres understands --gpus. Memory is counted, since it is held, too.
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes={}

# cgroup.conf says what is held. Processes that leave their parent still belong to their job, and end with it.
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup

# A container per job, made before its first task: pam_slurm_adopt on the nodes puts an ssh session into it, where it sees the job's
# GPUs and no others.
PrologFlags=Contain

# The login node's small limit of locked memory does not come along; RDMA cannot register memory under it. slurmd itself needs
# LimitMEMLOCK=infinity.
PropagateResourceLimitsExcept=MEMLOCK
",
        gres.join(",")
    );
    if order
        .nodes
        .iter()
        .flat_map(|node| &node.devices)
        .any(|device| model::is_slice(device.model.as_str()))
    {
        text.push_str(
            "# MIG slices are GPUs of a type of their own: `nvidia-smi mig` makes them before slurmd starts, and slurmd finds them.\n",
        );
    }
}

fn scheduling(text: &mut String, order: &Order<'_>, accounting: &Accounting, has_topology: bool) {
    let window = longest_minutes(order, accounting);
    let resolution = if window > FINE_MINUTES { 600 } else { 60 };
    text.push_str("\n# ---- Who starts when, and where ----\n");
    let depth = match (accounting.in_order, order.queues.backfill) {
        (true, _) => {
            text.push_str("# As the queue file has it (`backfill: none`): nothing passes a job that is blocked.\nSchedulerType=sched/builtin\n");
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
# Small jobs run in the holes before a large one, where they do not delay it. bf_window is the longest MaxTime in minutes: a large job
# behind long ones is planned for, and not overtaken for ever. bf_resolution, in seconds, keeps so long a plan cheap. bf_continue goes
# on after letting others in. max_switch_wait: --switches=1 means it, for a day.
SchedulerType=sched/backfill
SchedulerParameters=bf_window={window},bf_resolution={resolution},bf_max_job_test={depth},bf_continue{busy},default_queue_depth=500,max_switch_wait=86400{youngest}
"
        );
    }
    match has_topology {
        true => text.push_str("# Gangs lie below as few switches as can be; topology.conf has them.\nTopologyPlugin=topology/tree\n"),
        false => text.push_str("# No TopologyPlugin: nothing is known of switches. With several, write topology.conf and TopologyPlugin=topology/tree.\n"),
    }
    text.push_str(
        "
# What can never start is refused, so that nobody waits for it: beyond a partition's limits, or after a job that failed.
EnforcePartLimits=ALL
DependencyParameters=kill_invalid_depend

# Each element of an array is a job. Far more jobs than one array may have elements, or a few arrays fill the queue for everybody.
MaxArraySize=10001
MaxJobCount=100000

# An allocation without a script (salloc) begins on its node, not on the login node.
LaunchParameters=use_interactive_step
",
    );
}

fn priority(text: &mut String, order: &Order<'_>, accounting: &Accounting) {
    let qos = if accounting.preempts { 20_000 } else { 0 };
    let partition = if accounting.interactive.is_empty() { 0 } else { 5_000 };
    let _ = write!(
        text,
        "
# ---- Order ----
# Who used less of its share goes first, account by account down the tree (fair tree, which multifactor does by default); age breaks
# ties, and lifts what waits long. Use counts half after the half-life of the queue file. No weight may be larger than that of fair
# share, or shares mean little; only that of the QOS is, so that what is borrowed comes after what is owned.
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

fn preemption(text: &mut String, accounting: &Accounting, choices: &Choices) {
    text.push_str("\n# ---- Who makes room for whom ----\n");
    if accounting.preempts {
        let _ = write!(
            text,
            "\
# What is borrowed (QOS idle) goes when its owner wants it: the job gets SIGTERM, or the signal that it asked for with --signal, has the
# GraceTime of its QOS ({} here, set by accounts.sh) to save, and is queued again. Of those that could go, the youngest goes first
# (preempt_youngest_first above).
PreemptType=preempt/qos
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
",
            clock(choices.grace)
        );
    } else {
        text.push_str("# The queues lend nothing that could be taken back, so that nobody is made to go.\nPreemptType=preempt/none\n");
    }
    text.push_str(
        "# After a node failed, and after preemption, a job is queued again; one that must not run twice says --no-requeue.\nJobRequeue=1\n",
    );
}

fn accounting_section(text: &mut String, order: &Order<'_>) {
    let mut tres = vec!["gres/gpu".to_owned()];
    tres.extend(types(order.nodes).iter().map(|kind| format!("gres/gpu:{kind}")));
    tres.extend((order.choices.shards > 0).then(|| "gres/shard".to_owned()));
    let _ = write!(
        text,
        "
# ---- Accounting ----
# Shares, limits and reports live in slurmdbd. GPUs are recorded because they are named here; then limits on them can be set.
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={}
AccountingStorageTRES={}
# Without an account no job; limits and qualities of service hold; safe: a job starts only if its limit lets it end.
AccountingStorageEnforce=associations,limits,qos,safe
# Comments are kept with the record; Muster's own name of a job is there.
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
# ---- When something breaks ----
# A node that does not answer is DOWN after five minutes, and back in service when it answers again.
SlurmdTimeout=300
SlurmctldTimeout=120
ReturnToService=1
# Between SIGTERM and SIGKILL at a time limit: time to save. A process that the driver holds is waited for before its node is drained.
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
            let _ = write!(text, "# Drains a node that is not well; runs every five minutes.\nHealthCheckProgram={program}\nHealthCheckInterval=300\n");
        }
        None => text.push_str(
            "\
# Yours to decide, and `muster check slurm` says so until it is (no-health-check): a program that looks at the node's GPUs and drains it
# when one is lost. Without it a broken node fails one job after the other.
#HealthCheckProgram=/usr/sbin/nhc
#HealthCheckInterval=300
",
        ),
    }
}
