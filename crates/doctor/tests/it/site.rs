//! Sound test site, and changes to it.

use std::collections::BTreeSet;

use muster_doctor::{check, kubernetes_nodes};
use muster_model::check::CheckReport;
use muster_slurm::conf::evidence::Evidence;
use muster_slurm::conf::source::{CheckSource, SourceKind};

const SLURM: &str = "\
ClusterName=good
SlurmctldHost=head1
SlurmUser=slurm
StateSaveLocation=/srv/slurm/state
AuthType=auth/munge
AuthInfo=cred_expire=60
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerGPU=64000
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup
PrologFlags=Contain
Prolog=/etc/slurm/prolog.sh
PrologEpilogTimeout=300
BatchStartTimeout=120
JobAcctGatherType=jobacct_gather/cgroup
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageTRES=gres/gpu,gres/gpu:h100
AccountingStorageEnforce=associations,limits,qos
PriorityType=priority/multifactor
PriorityWeightFairshare=10000
PriorityWeightAge=1000
PriorityWeightQOS=5000
PriorityDecayHalfLife=7-0
PreemptType=preempt/qos
PreemptMode=REQUEUE
JobRequeue=1
SchedulerType=sched/backfill
SchedulerParameters=bf_window=4320,bf_resolution=300
EnforcePartLimits=ALL
DependencyParameters=kill_invalid_depend
TopologyPlugin=topology/tree
HealthCheckProgram=/usr/sbin/nhc
HealthCheckInterval=300
SlurmdTimeout=300
ReturnToService=1
UnkillableStepTimeout=180
KillWait=30
MaxJobCount=100000
MaxArraySize=10001
PropagateResourceLimitsExcept=MEMLOCK
NodeName=n[1-8] Gres=gpu:h100:8 RealMemory=1000000 CPUs=64 Sockets=2 CoresPerSocket=32
PartitionName=DEFAULT TRESBillingWeights=\"CPU=0.1,GRES/gpu=1.0\"
PartitionName=batch Nodes=n[1-6] MaxTime=3-0 DefaultTime=1:00:00 Default=YES
PartitionName=interactive Nodes=n[7-8] MaxTime=8:00:00 DefaultTime=1:00:00
";

const GRES: &str = "NodeName=n[1-8] Name=gpu Type=h100 File=/dev/nvidia[0-7]\n";

const CGROUP: &str = "ConstrainDevices=yes\nConstrainRAMSpace=yes\nConstrainCores=yes\n";

const TOPOLOGY: &str = "\
SwitchName=leaf1 Nodes=n[1-4]
SwitchName=leaf2 Nodes=n[5-8]
SwitchName=spine Switches=leaf[1-2]
";

const SLURMDBD: &str = "StorageType=accounting_storage/mysql\nPurgeJobAfter=24month\n";

const QOS: &str = "\
Name|GraceTime|Preempt|PreemptMode|MaxTRESPU
low|00:02:00||cluster|
high|00:00:00|low|requeue|
";

/// Configuration files of a test site.
#[derive(Clone)]
pub struct SampleSite {
    texts: Vec<(SourceKind, &'static str, String)>,
    kubernetes: &'static str,
    dbd_mode: u32,
}

impl SampleSite {
    /// Returns a site without problems.
    pub fn good() -> Self {
        let text = |kind, name, text: &str| (kind, name, text.to_owned());
        Self {
            texts: vec![
                text(SourceKind::SlurmConf, "slurm.conf", SLURM),
                text(SourceKind::GresConf, "gres.conf", GRES),
                text(SourceKind::CgroupConf, "cgroup.conf", CGROUP),
                text(SourceKind::TopologyConf, "topology.conf", TOPOLOGY),
                text(SourceKind::SlurmdbdConf, "slurmdbd.conf", SLURMDBD),
                text(SourceKind::Qos, "sacctmgr", QOS),
            ],
            kubernetes: "k1\nk2\n",
            dbd_mode: 0o100_600,
        }
    }

    /// Replaces `from` by `to`, in the one file that contains it.
    pub fn with(mut self, from: &str, to: &str) -> Self {
        let mut changed = 0;
        for (_, _, text) in &mut self.texts {
            if text.contains(from) {
                *text = text.replacen(from, to, 1);
                changed += 1;
            }
        }
        assert_eq!(changed, 1, "`{from}` stands in {changed} files");
        self
    }

    /// Sets other Kubernetes nodes.
    pub fn with_kubernetes(mut self, names: &'static str) -> Self {
        self.kubernetes = names;
        self
    }

    /// Sets other permissions of slurmdbd.conf.
    pub fn with_dbd_mode(mut self, mode: u32) -> Self {
        self.dbd_mode = mode;
        self
    }

    /// Removes one file from the site.
    pub fn without(mut self, kind: SourceKind) -> Self {
        self.texts.retain(|(own, ..)| *own != kind);
        self
    }

    pub fn evidence(&self) -> Evidence {
        let sources: Vec<CheckSource> = self
            .texts
            .iter()
            .map(|(kind, name, text)| CheckSource {
                name: (*name).to_owned(),
                kind: *kind,
                text: text.clone(),
            })
            .collect();
        let evidence =
            Evidence::of(&sources).with_devices("n1", vec!["NVIDIA H100 80GB HBM3".to_owned()]);
        let has_dbd = sources.iter().any(|source| source.kind == SourceKind::SlurmdbdConf);
        let evidence =
            if has_dbd { evidence.with_dbd_mode("slurmdbd.conf", self.dbd_mode) } else { evidence };
        evidence.with_kubernetes("nodes", kubernetes_nodes(self.kubernetes).unwrap())
    }

    pub fn report(&self) -> CheckReport {
        check(&self.evidence(), &BTreeSet::new())
    }
}

/// Returns the rules that failed, each once.
pub fn failed(report: &CheckReport) -> Vec<&'static str> {
    let failed: BTreeSet<&str> = report.findings.iter().map(|finding| finding.rule).collect();
    failed.into_iter().collect()
}
