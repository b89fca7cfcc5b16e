//! The QOS in which a Ray cluster has its further nodes: a script for an existing cluster of Slurm, whose
//! administrator reads and runs it. `init` writes such a QOS for a new cluster.

use muster_model::Span;

/// Returns a script that makes the QOS `name`, whose jobs those of the QOS `preempted_by` preempt, each within
/// `grace`.
#[must_use]
pub fn script(name: &str, preempted_by: &str, grace: Span) -> String {
    format!(
        "\
#!/bin/sh
# The QOS {name}, for further nodes of Ray clusters: they run on what no other job needs. Jobs of the QOS {preempted_by} preempt
# them: Ray leaves the node within `grace` of the job file, and Slurm gives it away after {seconds} s. A cluster that still needs
# nodes asks again.
#
# Preemption needs these lines in slurm.conf, and a restart of slurmctld; jobs of other QOS are not affected:
#   PreemptType=preempt/qos
#   PreemptMode=REQUEUE
# It also needs a program `muster` at the same path on all nodes, and nodes that may submit jobs.
#
# A cluster of `muster init slurm` with queues has such a QOS, `idle`: then leave this script out and write
# `muster init ray --growth-qos idle`.
#
# Run it once where sacctmgr reaches slurmdbd. A second run changes nothing.
set -eu

[ -n \"$(sacctmgr -nP show qos {name})\" ] || sacctmgr -iQ add qos {name}
sacctmgr -iQ modify qos where name={name} set PreemptMode=cancel GraceTime={seconds}
sacctmgr -iQ modify qos where name={preempted_by} set Preempt+={name}
# All accounts, since one with a list of its own does not inherit that of its parent.
for account in $(sacctmgr -nP show account format=account); do
    sacctmgr -iQ modify account where name=\"$account\" set QOS+={name}
done
",
        seconds = grace.as_secs()
    )
}
