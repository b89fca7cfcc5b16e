//! Headroom of a pending job: what the limits of accounts, QOS and partitions leave it, by Slurm's
//! own figures. The need of a smaller job is not considered here.

use std::collections::BTreeMap;

use muster_model::Span;
use muster_slurm::job::NativeJob;
use muster_slurm::limits::{ClusterLimits, LimitUsages};

/// Partition with the limits that jobs can meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PartitionLimits {
    pub(super) name: String,
    pub(super) max_time: Option<Span>,
    pub(super) max_nodes: Option<u32>,
    pub(super) nodes: u32,
    /// QOS of the partition, which limits all jobs in it.
    pub(super) qos: Option<String>,
}

/// Most of a resource that the limit on a pending job still allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Headroom {
    /// Number of GPUs of the whole job.
    Gpus(u32),
    /// Number of nodes of the whole job.
    Nodes(u32),
    /// Time limit of the job.
    Time(Span),
}

/// Returns Slurm's pending reason without what follows it.
pub(super) fn reason_word(row: &NativeJob) -> &str {
    row.reason.split([',', '(']).next().unwrap_or_default()
}

/// Returns whether a reason may refer to the limit with this name: to GPUs where it contains GRES,
/// to minutes where it contains Minutes.
pub(super) fn is_about(word: &str, name: &str) -> bool {
    let of_minutes = name.contains("Mins");
    let word = word.to_ascii_lowercase();
    match () {
        () if word.contains("minutes") != of_minutes => false,
        () if word.contains("min") && !of_minutes => false,
        // Limits per job are reported beside the usage.
        () if word.ends_with("perjob") && !name.contains("PJ") => false,
        () if word.contains("gres") => name.contains("gres/"),
        () if word.contains("cpu") => name.contains(" cpu"),
        () if word.contains("mem") => name.contains(" mem"),
        () if word.contains("billing") => name.contains(" billing"),
        () if word.contains("wall") || word.ends_with("timelimit") => name.contains("Wall"),
        () if word.contains("node") && !word.ends_with("pernode") => name.contains(" node"),
        () if word.contains("job") && !word.ends_with("perjob") => name.contains("Jobs"),
        () => true,
    }
}

/// Returns what the limit on the job leaves it; `None` where a smaller job would be pending as
/// well, or where the limit cannot be identified.
pub(super) fn headroom(
    row: &NativeJob,
    limits: &ClusterLimits,
    partitions: &[PartitionLimits],
) -> Option<Headroom> {
    let word = reason_word(row);
    match word {
        "PartitionTimeLimit" => {
            partitions.iter().filter_map(|one| one.max_time).max().map(Headroom::Time)
        }
        "PartitionNodeLimit" => {
            let most = partitions
                .iter()
                .map(|one| one.max_nodes.unwrap_or(one.nodes).min(one.nodes))
                .max();
            most.filter(|most| *most < row.node_count).map(Headroom::Nodes)
        }
        _ if !word.starts_with("QOS") && !word.starts_with("Assoc") => None,
        // The reason does not distinguish the job's QOS from the partition's own.
        _ if word.starts_with("QOS")
            && partitions.iter().any(|partition| partition.qos.is_some()) =>
        {
            None
        }
        // The job requests too little, not too much.
        _ if word.contains("Min") && !word.contains("Minutes") => None,
        _ if word.contains("MaxWall")
            || word == "AssociationTimeLimit"
            || word == "QOSTimeLimit" =>
        {
            let caps = caps(row, limits).filter_map(|caps| caps.get("MaxWallPJ"));
            caps.min().map(|minutes| Headroom::Time(Span::from_secs(minutes * 60)))
        }
        _ if word.contains("GRES") && !word.contains("Minutes") && !word.ends_with("PerNode") => {
            gpus(row, limits).map(Headroom::Gpus)
        }
        _ => None,
    }
}

/// Returns the limits that the job exceeds by itself, so that it can never start, each with the
/// limit and the request.
pub(super) fn exceeded_limits(row: &NativeJob, limits: &ClusterLimits) -> Vec<String> {
    let word = reason_word(row);
    if !word.starts_with("QOS") && !word.starts_with("Assoc") {
        return Vec::new();
    }
    let minutes = row.time_limit.map(|limit| limit.as_secs().div_ceil(60));
    let asked_of = |name: &str| match name.split_once(' ') {
        _ if name == "MaxWallPJ" => minutes,
        // Limits per node and limits on minutes are counted differently.
        Some((kind, tres)) if !kind.contains("Mins") && !kind.ends_with("PN") => {
            requested(row, tres)
        }
        _ => None,
    };
    let capped = caps(row, limits).flat_map(|caps| caps.iter()).map(|(name, most)| (name, *most));
    let usages = counting(row, limits);
    let counted = usages.iter().flat_map(|usages| usages.iter());
    let counted = counted.filter_map(|(name, usage)| Some((name, usage.limit?)));
    let mut found: Vec<String> = capped
        .chain(counted)
        .filter(|(name, _)| !name.starts_with("Min"))
        .filter_map(|(name, most)| {
            let asked = asked_of(name).filter(|asked| *asked > most)?;
            let unit = if name == "MaxWallPJ" { " minutes" } else { "" };
            Some(format!(
                "the job can never start: it requests {asked}{unit}, and {name} is {most}"
            ))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Returns the number of GPUs that the job may hold beside the running jobs.
fn gpus(row: &NativeJob, limits: &ClusterLimits) -> Option<u32> {
    let of_one_job = caps(row, limits).flat_map(|caps| caps.iter());
    let mut most: Option<u64> = of_one_job
        .filter(|(name, _)| name.starts_with("MaxTRESPJ gres/gpu"))
        .map(|(_, most)| *most)
        .min();
    for usages in counting(row, limits) {
        for (name, usage) in usages {
            let Some(limit) = usage.limit else { continue };
            let left = limit.saturating_sub(usage.used);
            match name.split_once(' ') {
                // GPUs of a type count towards the limit on all GPUs, too.
                Some((kind, tres)) if !kind.ends_with("Mins") && tres.starts_with("gres/gpu") => {
                    most = Some(most.map_or(left, |most| most.min(left)));
                }
                Some((kind, tres)) if !kind.ends_with("Mins") && left >= requested(row, tres)? => {}
                None if name.contains("Jobs") && left > 0 => {}
                // Limits on minutes are counted differently.
                _ => return None,
            }
        }
    }
    most.and_then(|most| u32::try_from(most).ok())
}

/// Returns the limits per job: of the QOS, of the user's association, and of the accounts above.
fn caps<'a>(
    row: &'a NativeJob,
    limits: &'a ClusterLimits,
) -> impl Iterator<Item = &'a BTreeMap<String, u64>> {
    let qos = limits.qos.iter().filter(|qos| qos.name == row.qos).map(|qos| &qos.job_limits);
    let own =
        limits.associations.iter().filter(|one| one.account == row.account && one.user == row.user);
    qos.chain(own.chain(limits.above(&row.account)).map(|one| &one.job_limits))
}

/// Returns all limits that count the job's resources.
fn counting<'a>(row: &'a NativeJob, limits: &'a ClusterLimits) -> Vec<&'a LimitUsages> {
    let qos = limits.qos.iter().filter(|qos| qos.name == row.qos);
    let of_qos = qos.flat_map(|qos| {
        let of_user = limits.uids.get(&row.user).and_then(|uid| qos.by_user.get(uid));
        [Some(&qos.usages), of_user, qos.by_account.get(&row.account)].into_iter().flatten()
    });
    let own =
        limits.associations.iter().filter(|one| one.account == row.account && one.user == row.user);
    of_qos.chain(own.chain(limits.above(&row.account)).map(|one| &one.usages)).collect()
}

/// Returns the request for a TRES, in the unit of its limits.
fn requested(row: &NativeJob, tres: &str) -> Option<u64> {
    match tres {
        "mem" => Some(muster_slurm::tres::memory(&row.tres_requested).0 >> 20),
        _ => {
            let mut parts = row.tres_requested.split(',').filter_map(|part| part.split_once('='));
            parts.find(|(name, _)| *name == tres).map_or(Some(0), |(_, value)| value.parse().ok())
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_slurm::limits;

    use super::*;

    /// Checks the GPUs left to a job of 16 GPUs and 32 CPUs of `games` in `vision`, under these
    /// limits of its QOS and its account.
    fn check(qos: &str, user: &str, account: &str, expected: Option<u32>) {
        let text = format!(
            "UserName=games(5) DefAccount=vision\n\
             ClusterName=m Account=vision UserName= ParentAccount=root(1) {account}\n\
             QOS=capped(4) {qos} Account Limits= User Limits= 5={{{user}}}\n"
        );
        let row = NativeJob {
            user: "games".to_owned(),
            account: "vision".to_owned(),
            qos: "capped".to_owned(),
            reason: "QOSMaxGRESPerUser".to_owned(),
            tres_requested: "cpu=32,mem=64G,node=2,billing=1,gres/gpu=16".to_owned(),
            ..NativeJob::default()
        };
        assert_eq!(
            headroom(&row, &limits::read(&text), &[]),
            expected.map(Headroom::Gpus),
            "{qos} {user} {account}"
        );
    }

    #[test]
    fn the_tightest_limit_on_gpus_counts_and_others_must_have_room() {
        check("", "MaxTRESPU=gres/gpu=16(10)", "", Some(6));
        check("GrpTRES=gres/gpu=12(10)", "MaxTRESPU=gres/gpu=16(10)", "", Some(2));
        check("", "MaxTRESPU=gres/gpu=16(10)", "GrpTRES=cpu=N(4),gres/gpu:h100=11(10)", Some(1));
        check("", "MaxTRESPU=gres/gpu=16(20)", "", Some(0));
        check("MaxTRESPJ=gres/gpu=4", "MaxTRESPU=gres/gpu=16(10)", "", Some(4));
        check("", "", "GrpTRES=gres/gpu=N(10)", None);
        // The other limit would still be exceeded.
        check("", "MaxTRESPU=gres/gpu=16(10) MaxJobsPU=2(2)", "", None);
        check("", "MaxTRESPU=gres/gpu=16(10) MaxJobsPU=3(2)", "", Some(6));
        check("", "MaxTRESPU=gres/gpu=16(10)", "GrpTRES=cpu=64(40)", None);
        check("", "MaxTRESPU=gres/gpu=16(10)", "GrpTRES=cpu=96(40),mem=131072(65536)", Some(6));
        check("", "MaxTRESPU=gres/gpu=16(10)", "GrpTRESMins=gres/gpu=100(0)", None);
    }

    #[test]
    fn a_limit_that_the_job_is_above_by_itself_lets_it_never_start() {
        let never = |reason: &str, qos: &str| {
            let text = format!("QOS=capped(4) {qos} Account Limits= User Limits=\n");
            let row = NativeJob {
                qos: "capped".to_owned(),
                reason: reason.to_owned(),
                tres_requested: "cpu=32,gres/gpu=24".to_owned(),
                time_limit: Some(Span::from_secs(3600)),
                ..NativeJob::default()
            };
            super::exceeded_limits(&row, &limits::read(&text))
        };
        let says = |asked: &str, limit: &str| {
            vec![format!("the job can never start: it requests {asked}, and {limit}")]
        };
        assert_eq!(
            never("QOSMaxGRESPerJob", "MaxTRESPJ=gres/gpu=16"),
            says("24", "MaxTRESPJ gres/gpu is 16")
        );
        assert_eq!(
            never("QOSGrpGRES", "GrpTRES=gres/gpu=16(3)"),
            says("24", "GrpTRES gres/gpu is 16")
        );
        assert_eq!(
            never("QOSMaxWallDurationPerJobLimit", "MaxWallPJ=20"),
            says("60 minutes", "MaxWallPJ is 20")
        );
        assert!(
            never("QOSGrpGRES", "GrpTRES=gres/gpu=24(3)").is_empty(),
            "it starts once those have ended"
        );
        assert!(never("Resources", "GrpTRES=gres/gpu=16(3)").is_empty());
    }

    #[test]
    fn times_and_nodes_are_those_of_the_qos_and_the_partition() {
        let partition = |minutes: Option<u64>, max_nodes| PartitionLimits {
            name: "batch".to_owned(),
            max_time: minutes.map(|minutes| Span::from_secs(minutes * 60)),
            max_nodes,
            nodes: 8,
            qos: None,
        };
        let check = |reason: &str, partitions: &[PartitionLimits], expected: Option<Headroom>| {
            let text = "QOS=capped(4) MaxWallPJ=20 Account Limits= User Limits=\n";
            let row = NativeJob {
                qos: "capped".to_owned(),
                reason: reason.to_owned(),
                node_count: 9,
                ..NativeJob::default()
            };
            assert_eq!(headroom(&row, &limits::read(text), partitions), expected, "{reason}");
        };
        let minutes = |count: u64| Some(Headroom::Time(Span::from_secs(count * 60)));
        check("QOSMaxWallDurationPerJobLimit", &[], minutes(20));
        check(
            "PartitionTimeLimit",
            &[partition(Some(30), None), partition(Some(60), None)],
            minutes(60),
        );
        check("PartitionTimeLimit", &[partition(None, None)], None);
        check("PartitionNodeLimit", &[partition(None, None)], Some(Headroom::Nodes(8)));
        check("PartitionNodeLimit", &[partition(None, Some(2))], Some(Headroom::Nodes(2)));
        check("QOSGrpCpuLimit", &[], None);
        check("QOSMinGRES", &[], None);
        // The partition's own QOS may be meant.
        let of_qos = PartitionLimits { qos: Some("big".to_owned()), ..partition(None, None) };
        check("QOSMaxWallDurationPerJobLimit", &[of_qos], None);
    }

    #[test]
    fn a_word_is_about_the_limits_that_it_names() {
        assert!(is_about("QOSMaxGRESPerUser", "MaxTRESPU gres/gpu"));
        assert!(
            !is_about("QOSMaxGRESPerUser", "MaxTRESPU cpu")
                && !is_about("QOSGrpGRES", "GrpTRESMins gres/gpu")
        );
        assert!(is_about("AssocGrpGRESMinutes", "GrpTRESMins gres/gpu"));
        assert!(is_about("QOSMaxWallDurationPerJobLimit", "MaxWallPJ"));
        assert!(is_about("QOSMaxGRESPerJob", "MaxTRESPJ gres/gpu"));
        assert!(
            !is_about("QOSMaxGRESPerJob", "MaxTRESPU gres/gpu")
                && !is_about("QOSMinGRES", "GrpTRES gres/gpu")
        );
        assert!(!is_about("QOSMaxWallDurationPerJobLimit", "MaxTRESPU gres/gpu"));
        assert!(
            is_about("AssocGrpJobsLimit", "GrpJobs")
                && !is_about("AssocGrpJobsLimit", "GrpTRES cpu")
        );
    }
}
