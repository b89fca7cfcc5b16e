//! Each rule passes on a sound site, and fails on the same site with one change. A rule without
//! such a change fails a test here.

use std::collections::BTreeSet;

use muster_doctor::rule_texts;
use muster_slurm::conf::source::SourceKind;

use crate::site::{SampleSite, failed};

/// Rule, changes as pairs of old and new text, and other rules that the change necessarily fails,
/// too.
type RuleCase = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

const ROWS: &[RuleCase] = &[
    ("line-not-understood", &[("KillWait=30", "KillWait=30 OverTimeLimit=1")], &[]),
    ("line-not-understood", &[("KillWait=30", "KillWait=30\nsome words")], &[]),
    ("line-not-understood", &[("ConstrainCores=yes", "ConstrainCores=yes\nConstrain")], &[]),
    ("unknown-key", &[("KillWait=30", "KillWait=30\nSlurmctldTimout=30")], &[]),
    ("unknown-key", &[("CPUs=64", "CPUs=64 Cores=32")], &[]),
    ("unknown-key", &[("ConstrainCores=yes", "ConstrainCores=yes\nTaskAffinity=yes")], &[]),
    ("unknown-key", &[("PurgeJobAfter=24month\n", "PurgeJobAfter=24month\nStorePass=x\n")], &[]),
    ("value-not-valid", &[("KillWait=30", "KillWait=30s")], &[]),
    ("value-not-valid", &[("KillWait=30", "KillWait=30\nSwitchType=switch/foo")], &[]),
    ("value-not-valid", &[("KillWait=30", "KillWait=30\nLicenses=solver:x")], &[]),
    ("value-not-valid", &[("CPUs=64", "CPUs=64 State=FOO")], &[]),
    ("value-not-valid", &[("GRES/gpu=1.0", "GRES/gpu=1.0,foo=1")], &[]),
    ("value-not-valid", &[("gres/gpu,gres/gpu:h100", "gres/gpu,gres/gpu:h100,gres/nic")], &[]),
    (
        "defined-twice",
        &[(
            "PartitionName=inter",
            "PartitionName=batch Nodes=n1 MaxTime=1-0 DefaultTime=1:00\nPartitionName=inter",
        )],
        &[],
    ),
    ("defined-twice", &[("NodeName=n[1-8] Gres", "NodeName=n[1-8],n3 Gres")], &[]),
    ("include-not-found", &[("KillWait=30", "KillWait=30\nInclude more.conf")], &[]),
    ("required-setting-missing", &[("ClusterName=good\n", "")], &[]),
    ("settings-contradict", &[("KillWait=30", "KillWait=30\nFirstJobId=9\nMaxJobId=4")], &[]),
    ("settings-contradict", &[("CR_Core_Memory", "CR_Core_Memory,CR_CPU")], &[]),
    ("settings-contradict", &[("CPUs=64", "CPUs=64 Port=[7001-7007]")], &[]),
    ("topology-refused", &[("Switches=leaf[1-2]", "Switches=leaf[1-3]")], &[]),
    (
        "no-accounting",
        &[("accounting_storage/slurmdbd", "accounting_storage/none")],
        &["fair-share-without-slurmdbd"],
    ),
    ("gpus-not-accounted", &[("AccountingStorageTRES=gres/gpu,gres/gpu:h100\n", "")], &[]),
    ("gpus-not-accounted", &[("gres/gpu,gres/gpu:h100", "gres/gpu:h100,license/x")], &[]),
    (
        "gpus-not-billed",
        &[("PartitionName=DEFAULT TRESBillingWeights=\"CPU=0.1,GRES/gpu=1.0\"\n", "")],
        &[],
    ),
    ("gpus-not-billed", &[("GRES/gpu=1.0", "GRES/gpu=0.0")], &[]),
    ("limits-not-enforced", &[("associations,limits,qos", "associations,qos")], &[]),
    ("qos-not-enforced", &[("associations,limits,qos", "associations,limits")], &[]),
    ("no-job-statistics", &[("jobacct_gather/cgroup", "jobacct_gather/none")], &[]),
    ("records-never-purged", &[("PurgeJobAfter=24month\n", "")], &[]),
    ("priority-basic", &[("priority/multifactor", "priority/basic")], &[]),
    (
        "fair-share-weight-zero",
        &[("PriorityWeightFairshare=10000", "PriorityWeightFairshare=0")],
        &[],
    ),
    ("fair-share-weight-zero", &[("PriorityWeightFairshare=10000\n", "")], &[]),
    (
        "fair-share-without-slurmdbd",
        &[("AccountingStorageType=accounting_storage/slurmdbd\n", "")],
        &["no-accounting"],
    ),
    ("usage-never-decays", &[("PriorityDecayHalfLife=7-0", "PriorityDecayHalfLife=0")], &[]),
    ("age-weight-zero", &[("PriorityWeightAge=1000\n", "")], &[]),
    ("proctrack-not-cgroup", &[("proctrack/cgroup", "proctrack/linuxproc")], &[]),
    ("task-plugin-without-cgroup", &[("task/affinity,task/cgroup", "task/affinity")], &[]),
    ("devices-not-constrained", &[("ConstrainDevices=yes", "ConstrainDevices=no")], &[]),
    ("devices-not-constrained", &[("ConstrainDevices=yes\n", "")], &[]),
    ("select-linear", &[("select/cons_tres", "select/linear")], &["settings-contradict"]),
    ("select-without-gpus", &[("select/cons_tres", "select/cons_res")], &[]),
    ("memory-not-constrained", &[("ConstrainRAMSpace=yes\n", "")], &[]),
    ("cores-not-constrained", &[("ConstrainCores=yes", "ConstrainCores=no")], &[]),
    ("no-affinity", &[("task/affinity,task/cgroup", "cgroup")], &[]),
    ("no-memory-default", &[("DefMemPerGPU=64000\n", "")], &[]),
    ("node-without-memory", &[(" RealMemory=1000000", "")], &[]),
    ("authentication-off", &[("auth/munge", "auth/none")], &[]),
    ("controller-is-root", &[("SlurmUser=slurm\n", "")], &[]),
    ("ssh-not-contained", &[("PrologFlags=Contain", "PrologFlags=Alloc")], &[]),
    ("gres-types-without-gpu", &[("GresTypes=gpu\n", "")], &["value-not-valid"]),
    ("gres-conf-missing-node", &[("NodeName=n[1-8] Name=gpu", "NodeName=n[1-7] Name=gpu")], &[]),
    ("gres-conf-unknown-node", &[("NodeName=n[1-8] Name=gpu", "NodeName=n[1-9] Name=gpu")], &[]),
    ("gres-count-differs", &[("/dev/nvidia[0-7]", "/dev/nvidia[0-6]")], &[]),
    ("gres-count-differs", &[("gpu:h100:8", "gpu:h100:4")], &[]),
    ("gres-type-differs", &[("Type=h100", "Type=a100")], &[]),
    ("gres-type-differs", &[("Type=h100 ", "")], &[]),
    (
        "gres-type-not-the-device",
        &[
            ("gpu:h100:8", "gpu:a100:8"),
            ("Type=h100", "Type=a100"),
            ("gres/gpu:h100", "gres/gpu:a100"),
        ],
        &[],
    ),
    (
        "gres-type-not-the-device",
        &[("gpu:h100:8", "gpu:h1000:8"), ("Type=h100", "Type=h1000")],
        &[],
    ),
    ("gres-type-not-the-device", &[("/dev/nvidia[0-7]", "/dev/dri/renderD[128-135]")], &[]),
    ("processors-do-not-match", &[("CPUs=64", "CPUs=60")], &[]),
    ("processors-do-not-match", &[("CPUs=64 Sockets=2", "CPUs=63")], &[]),
    ("cores-shared-by-force", &[("MaxTime=3-0", "OverSubscribe=FORCE MaxTime=3-0")], &[]),
    ("cores-shared-by-force", &[("MaxTime=3-0", "Shared=force:2 MaxTime=3-0")], &[]),
    (
        "suspended-nodes-stay-off",
        &[("KillWait=30", "KillWait=30\nSuspendProgram=/usr/sbin/off")],
        &[],
    ),
    ("too-many-jobs-kept", &[("MaxJobCount=100000", "MaxJobCount=100000000")], &[]),
    (
        "default-time-above-max",
        &[("MaxTime=8:00:00 DefaultTime=1:00:00", "MaxTime=8:00:00 DefaultTime=9:00:00")],
        &[],
    ),
    ("default-partition", &[(" Default=YES", "")], &[]),
    ("default-partition", &[("MaxTime=8:00:00", "MaxTime=8:00:00 Default=YES")], &[]),
    ("age-over-fair-share", &[("PriorityWeightAge=1000\n", "PriorityWeightAge=100000\n")], &[]),
    ("shards-not-billed", &[("Gres=gpu:h100:8", "Gres=gpu:h100:8,shard:32")], &[]),
    ("gres-without-file", &[("File=/dev/nvidia[0-7]", "Count=8")], &[]),
    (
        "gres-files-beside-autodetect",
        &[("NodeName=n[1-8] Name", "AutoDetect=nvml\nNodeName=n[1-8] Name")],
        &[],
    ),
    (
        "gpus-typed-and-untyped",
        &[(
            "NodeName=n[1-8] Gres=gpu:h100:8",
            "NodeName=n8 Gres=gpu:8 RealMemory=1000\nNodeName=n[1-7] Gres=gpu:h100:8",
        )],
        &[],
    ),
    ("no-backfill", &[("sched/backfill", "sched/builtin")], &[]),
    ("interactive-without-limit", &[("MaxTime=8:00:00", "MaxTime=UNLIMITED")], &[]),
    ("no-max-time", &[("MaxTime=3-0 ", "")], &[]),
    ("no-default-time", &[("MaxTime=3-0 DefaultTime=1:00:00", "MaxTime=3-0")], &[]),
    ("backfill-window-short", &[("bf_window=4320,", "")], &[]),
    ("backfill-window-short", &[("MaxTime=3-0", "MaxTime=4-0")], &[]),
    ("impossible-jobs-wait", &[("EnforcePartLimits=ALL\n", "")], &[]),
    ("partition-of-unknown-nodes", &[("Nodes=n[7-8]", "Nodes=n[7-9]")], &[]),
    ("no-topology", &[("topology/tree", "topology/flat")], &[]),
    ("no-topology", &[("TopologyPlugin=topology/tree\n", "")], &[]),
    (
        "topology-without-nodes",
        &[("SwitchName=leaf2 Nodes=n[5-8]", "SwitchName=leaf2 Nodes=n[5-7]")],
        &[],
    ),
    ("topology-in-pieces", &[("SwitchName=spine Switches=leaf[1-2]\n", "")], &[]),
    ("few-jobs-for-arrays", &[("MaxJobCount=100000", "MaxJobCount=10000")], &[]),
    ("arrays-small", &[("MaxArraySize=10001", "MaxArraySize=101")], &[]),
    ("ended-jobs-vanish", &[("KillWait=30", "KillWait=30\nMinJobAge=2")], &[]),
    ("preempt-mode-off", &[("PreemptMode=REQUEUE\n", "")], &[]),
    ("preempt-without-grace", &[("low|00:02:00", "low|00:00:00")], &[]),
    ("preempted-jobs-cancelled", &[("JobRequeue=1", "JobRequeue=0")], &["requeue-off"]),
    (
        "requeue-off",
        &[("JobRequeue=1", "JobRequeue=0"), ("PreemptMode=REQUEUE", "PreemptMode=CANCEL")],
        &[],
    ),
    ("requeued-jobs-wait", &[("cred_expire=60", "ttl=300,cred_expire=3600")], &[]),
    ("slow-start-requeues", &[("BatchStartTimeout=120\n", "")], &[]),
    ("prolog-without-end", &[("PrologEpilogTimeout=300\n", "")], &[]),
    ("invalid-dependencies-wait", &[("DependencyParameters=kill_invalid_depend\n", "")], &[]),
    (
        "state-not-shared",
        &[
            ("SlurmctldHost=head1", "SlurmctldHost=head1\nSlurmctldHost=head2"),
            ("/srv/slurm/state", "/var/spool/slurm"),
        ],
        &[],
    ),
    ("state-lost-at-reboot", &[("/srv/slurm/state", "/tmp")], &[]),
    ("no-health-check", &[("HealthCheckProgram=/usr/sbin/nhc\n", "")], &[]),
    ("no-health-check", &[("HealthCheckInterval=300\n", "")], &[]),
    ("dead-nodes-not-seen", &[("SlurmdTimeout=300", "SlurmdTimeout=0")], &[]),
    ("nodes-stay-down", &[("ReturnToService=1\n", "")], &[]),
    ("unkillable-drains", &[("UnkillableStepTimeout=180", "UnkillableStepTimeout=20")], &[]),
    ("no-time-to-save", &[("KillWait=30", "KillWait=2")], &[]),
    ("memlock-of-login-node", &[("PropagateResourceLimitsExcept=MEMLOCK\n", "")], &[]),
    ("debug-left-on", &[("KillWait=30", "KillWait=30\nDebugFlags=Backfill")], &[]),
    ("debug-left-on", &[("KillWait=30", "KillWait=30\nSlurmctldDebug=debug2")], &[]),
    (
        "line-left-open",
        &[("PurgeJobAfter=24month\n", "PurgeJobAfter=24month\nStoragePass=FILL_IN\n")],
        &[],
    ),
];

#[test]
fn on_a_good_site_every_rule_is_tested_and_passes() {
    let report = SampleSite::good().report();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert!(report.not_tested.is_empty(), "{:#?}", report.not_tested);
    let passed: Vec<&str> = report.passed.iter().map(|outcome| outcome.rule).collect();
    assert_eq!(passed, rule_texts().map(|rule| rule.id).collect::<Vec<_>>());
}

#[test]
fn each_rule_fails_on_what_it_is_about_and_no_other_does() {
    for (rule, changes, also) in ROWS {
        let site = changes.iter().fold(SampleSite::good(), |site, (from, to)| site.with(from, to));
        let report = site.report();
        let expected: BTreeSet<&str> = [*rule].into_iter().chain(also.iter().copied()).collect();
        assert_eq!(failed(&report), expected.into_iter().collect::<Vec<_>>(), "{changes:?}");
    }
}

/// Changes close to the subject of a rule that are correct.
#[test]
fn what_is_right_trips_no_rule() {
    for changes in [
        &[("MaxTime=3-0", "OverSubscribe=FORCE:1 MaxTime=3-0")][..],
        &[("MaxTime=3-0", "OverSubscribe=YES:2 MaxTime=3-0")],
        &[("KillWait=30", "KillWait=30\nSuspendProgram=/usr/sbin/off\nResumeProgram=/usr/sbin/on")],
        &[("KillWait=30", "KillWait=30\nResumeProgram=/usr/sbin/on")],
        &[("MaxJobCount=100000", "MaxJobCount=1000000")],
        &[("MaxTime=8:00:00 DefaultTime=1:00:00", "MaxTime=8:00:00 DefaultTime=8:00:00")],
        &[("PriorityWeightAge=1000\n", "PriorityWeightAge=99999\n")],
        &[("CPUs=64", "CPUs=2")],
        &[("CPUs=64", "ThreadsPerCore=2 CPUs=128")],
        &[("CPUs=64", "ThreadsPerCore=2 CPUs=64")],
        &[
            ("Gres=gpu:h100:8", "Gres=gpu:h100:8,shard:32"),
            ("GRES/gpu=1.0", "GRES/gpu=1.0,GRES/shard=0.25"),
        ],
        &[("gpu:h100:8", "gpu:H100_80GB:8"), ("Type=h100", "Type=H100_80gb")],
        // Keys of newer releases, and unusual spelling that Slurm accepts.
        &[("KillWait=30", "KILLWAIT = 30\nHashPlugin=hash/sha3\nPreemptParameters=youngest_first")],
        &[("KillWait=30", "KillWait=30\nDebugFlags=NONE\nLicenses=a:3,b@server:4,c")],
        &[("SlurmctldHost=head1", "SlurmctldHost=head1(10.0.0.1)")],
        &[("CPUs=64", "CPUs=64 Port=[7001-7008]")],
        &[("PartitionName=DEFAULT ", "PartitionName=DEFAULT State=UP ")],
    ] {
        let site = changes.iter().fold(SampleSite::good(), |site, (from, to)| site.with(from, to));
        assert_eq!(failed(&site.report()), Vec::<&str>::new(), "{changes:?}");
    }
}

#[test]
fn a_password_that_others_can_read_is_found() {
    for (mode, expected) in [
        (0o100_600, &[][..]),
        (0o100_640, &["password-readable"]),
        (0o100_644, &["password-readable"]),
    ] {
        let site = SampleSite::good().with_dbd_mode(mode);
        let with_password =
            site.clone().with("PurgeJobAfter=24month\n", "PurgeJobAfter=24month\nStoragePass=x\n");
        assert_eq!(failed(&with_password.report()), expected, "{mode:o}");
        assert_eq!(failed(&site.report()), Vec::<&str>::new(), "{mode:o}");
    }
}

#[test]
fn without_nodes_nothing_is_said_of_switches() {
    let conf = SampleSite::good()
        .with("TopologyPlugin=topology/tree\n", "")
        .without(SourceKind::TopologyConf);
    let nodeless = conf.with(
        "NodeName=n[1-8] Gres=gpu:h100:8 RealMemory=1000000 CPUs=64 Sockets=2 CoresPerSocket=32\n",
        "",
    );
    let report = nodeless.report();
    assert!(report.not_tested.iter().any(|outcome| outcome.rule == "no-topology"), "{report:#?}");
}

#[test]
fn a_node_of_kubernetes_is_found_under_its_long_name() {
    let report = SampleSite::good().with_kubernetes("node/k1\nnode/n8.example.org\n").report();
    assert_eq!(failed(&report), ["nodes-also-in-kubernetes"]);
    assert!(
        report.findings[0].evidence.contains("node n8 (in interactive)"),
        "{:?}",
        report.findings
    );
}

#[test]
fn no_rule_is_without_a_site_that_trips_it() {
    let tripped: BTreeSet<&str> = ROWS
        .iter()
        .map(|(rule, ..)| *rule)
        .chain(["nodes-also-in-kubernetes", "password-readable"])
        .collect();
    let known: BTreeSet<&str> = rule_texts().map(|rule| rule.id).collect();
    assert_eq!(tripped, known);
    assert!(known.len() >= 35, "{}", known.len());
}

/// A file that was not given is unknown: its rules neither pass nor fail.
#[test]
fn what_was_not_given_is_not_tested() {
    for (kind, rules) in [
        (
            SourceKind::CgroupConf,
            &["devices-not-constrained", "memory-not-constrained", "cores-not-constrained"][..],
        ),
        (
            SourceKind::TopologyConf,
            &["topology-refused", "topology-without-nodes", "topology-in-pieces"][..],
        ),
        (SourceKind::SlurmdbdConf, &["records-never-purged", "password-readable"][..]),
        (SourceKind::Qos, &["preempt-without-grace"][..]),
    ] {
        let report = SampleSite::good().without(kind).report();
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
        let untested: Vec<&str> = report.not_tested.iter().map(|outcome| outcome.rule).collect();
        assert_eq!(untested, rules, "{kind:?}");
    }
    let blind = SampleSite::good().without(SourceKind::SlurmConf).report();
    assert!(blind.findings.is_empty(), "{:#?}", blind.findings);
    let passed: Vec<&str> = blind.passed.iter().map(|outcome| outcome.rule).collect();
    assert_eq!(
        passed,
        [
            "line-not-understood",
            "unknown-key",
            "value-not-valid",
            "defined-twice",
            "topology-refused",
            "records-never-purged",
            "cores-not-constrained",
            "password-readable",
            "line-left-open"
        ]
    );
}

/// Without GPUs, rules on GPUs are not tested.
#[test]
fn without_gpus_rules_on_gpus_are_not_tested() {
    let report =
        SampleSite::good().with(" Gres=gpu:h100:8", "").without(SourceKind::GresConf).report();
    for rule in
        ["gpus-not-accounted", "gpus-not-billed", "devices-not-constrained", "select-linear"]
    {
        assert!(report.not_tested.iter().any(|outcome| outcome.rule == rule), "{rule}");
    }
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}

#[test]
fn a_fingerprint_outlives_other_lines_and_other_values() {
    let print = |site: SampleSite| site.report().findings[0].fingerprint.clone();
    let one = print(SampleSite::good().with("KillWait=30", "KillWait=2"));
    assert_eq!(
        one,
        print(
            SampleSite::good()
                .with("KillWait=30", "KillWait=3")
                .with("ClusterName=good", "# x\nClusterName=good")
        )
    );
    assert_ne!(one, print(SampleSite::good().with("SlurmdTimeout=300", "SlurmdTimeout=0")));
}
