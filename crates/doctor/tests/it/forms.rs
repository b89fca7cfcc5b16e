//! Tests of other sources for the same cluster: included files, node sets, output of a running
//! cluster.

use std::collections::BTreeSet;

use muster_doctor::check;
use muster_model::check::CheckReport;
use muster_slurm::conf::evidence::Evidence;
use muster_slurm::conf::source::{CheckSource, SourceKind};

use crate::site::failed;

fn report(sources: &[(&str, &str)]) -> CheckReport {
    let sources: Vec<CheckSource> = sources
        .iter()
        .map(|(name, text)| CheckSource {
            name: (*name).to_owned(),
            kind: SourceKind::of(name, text).unwrap_or(SourceKind::Included),
            text: (*text).to_owned(),
        })
        .collect();
    check(&Evidence::of(&sources), &BTreeSet::new())
}

fn needed(report: &CheckReport, rule: &str) -> String {
    let outcome = report.not_tested.iter().find(|outcome| outcome.rule == rule);
    outcome.unwrap_or_else(|| panic!("{rule} was tested: {report:#?}")).text.clone()
}

#[test]
fn an_included_file_counts_where_it_is_given_and_is_named_where_it_is_not() {
    let conf = "ClusterName=c\nInclude /etc/slurm/more.conf\n";
    let report_without = report(&[("slurm.conf", conf)]);
    assert_eq!(
        needed(&report_without, "no-backfill"),
        "/etc/slurm/more.conf, which slurm.conf includes"
    );
    let more = "SchedulerType=sched/builtin\nKillWait=1\n";
    let report = report(&[("slurm.conf", conf), ("more.conf", more)]);
    assert!(failed(&report).contains(&"no-backfill"), "{report:#?}");
    let place =
        report.findings.iter().find(|finding| finding.rule == "no-backfill").unwrap().place.clone();
    assert_eq!(
        place.map(|place| (place.source, place.line)),
        Some(("more.conf".to_owned(), Some(1)))
    );
}

#[test]
fn files_that_include_each_other_end() {
    let report = report(&[
        ("slurm.conf", "ClusterName=c\nInclude a.conf\n"),
        ("a.conf", "Include a.conf\nKillWait=1\n"),
    ]);
    assert!(failed(&report).contains(&"no-time-to-save"));
}

#[test]
fn sets_of_nodes_and_all_are_understood() {
    let conf = "ClusterName=c\nNodeName=a[1-2] Gres=gpu:4 Feature=x,y\nNodeName=b1\nNodeSet=s Feature=y\nNodeSet=t Nodes=b1\n\
        PartitionName=p Nodes=s TRESBillingWeights=GRES/gpu=1\nPartitionName=q Nodes=ALL\nPartitionName=r Nodes=t\n";
    let report = report(&[("slurm.conf", conf)]);
    let unbilled: Vec<&str> = report
        .findings
        .iter()
        .filter(|finding| finding.rule == "gpus-not-billed")
        .map(|finding| finding.evidence.as_str())
        .collect();
    assert_eq!(unbilled, ["partition q has no TRESBillingWeights"]);
    assert!(!failed(&report).contains(&"partition-of-unknown-nodes"));
}

/// Real output of 22.05, shortened.
#[test]
fn a_running_cluster_goes_before_its_files() {
    let config = "\
Configuration data as of 2026-11-22T18:07:55
AccountingStorageTRES   = cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu,gres/gpu:h100
AccountingStorageEnforce = none
DebugFlags              = (null)
KillWait                = 5 sec
SchedulerType           = sched/backfill
SlurmUser               = root(0)
SlurmctldHost[0]        = head1
SlurmctldHost[1]        = head2
StateSaveLocation       = /var/spool/slurm

Cgroup Support Configuration:
ConstrainCores          = no
ConstrainDevices        = yes

Slurmctld(primary) at head1 is UP
";
    let nodes = "NodeName=n1 Arch=x86_64 CPUTot=64 Gres=gpu:h100:8(S:0-1) OS=Linux 6.1 #1 SMP RealMemory=1000 State=IDLE\n";
    let partitions = "PartitionName=batch Nodes=n1 MaxTime=UNLIMITED DefaultTime=NONE TotalNodes=1 TRESBillingWeights=GRES/gpu=1\n";
    let conf = "ClusterName=c\nKillWait=5\nSchedulerType=sched/builtin\n";
    let sources = [
        ("config.txt", config),
        ("nodes.txt", nodes),
        ("partitions.txt", partitions),
        ("slurm.conf", conf),
    ];
    let report = report(&sources);
    let failed = failed(&report);
    for rule in [
        "controller-is-root",
        "cores-not-constrained",
        "limits-not-enforced",
        "no-default-time",
        "no-max-time",
    ] {
        assert!(failed.contains(&rule), "{rule}: {failed:?}");
    }
    assert!(failed.contains(&"state-not-shared"), "{failed:?}");
    // The running values count, not the written ones.
    for rule in [
        "no-backfill",
        "gpus-not-accounted",
        "gpus-not-billed",
        "devices-not-constrained",
        "debug-left-on",
    ] {
        assert!(report.passed.iter().any(|outcome| outcome.rule == rule), "{rule}: {report:#?}");
    }
    let wait = report.findings.iter().find(|finding| finding.rule == "no-time-to-save").unwrap();
    assert_eq!(
        (wait.evidence.as_str(), &wait.place.as_ref().unwrap().line),
        ("KillWait=5 sec", &Some(2))
    );
}
