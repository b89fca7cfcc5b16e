//! What the limits of accounts, QOS and partitions leave a job, by Slurm's own figures. What a job
//! of that size would need is not known here.

use std::collections::BTreeMap;

use muster_backends::slurm::job::NativeJob;
use muster_backends::slurm::limits::{Gauges, Limits};
use muster_model::Span;

use super::evidence::Partition;

/// What a limit that keeps a job leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// GPUs in all.
    Gpus(u32),
    /// Nodes.
    Nodes(u32),
    /// A time limit.
    Time(Span),
}

/// Slurm's word for why it waits, without what follows it.
pub(super) fn word(row: &NativeJob) -> &str {
    row.reason.split([',', '(']).next().unwrap_or_default()
}

/// A limit of this name is one that the word may mean: of GPUs where it says GRES, of minutes where
/// it says minutes.
pub(super) fn is_about(word: &str, name: &str) -> bool {
    let of_minutes = name.contains("Mins");
    let word = word.to_ascii_lowercase();
    match () {
        () if word.contains("minutes") != of_minutes => false,
        () if word.contains("min") && !of_minutes => false,
        // What one job may have is told beside what is used.
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

/// What the limit that keeps it leaves it; `None` where a smaller job would be kept as well, or
/// where it is not seen by what.
pub(super) fn bound(row: &NativeJob, limits: &Limits, partitions: &[Partition]) -> Option<Bound> {
    let word = word(row);
    match word {
        "PartitionTimeLimit" => {
            partitions.iter().filter_map(|one| one.max_time).max().map(Bound::Time)
        }
        "PartitionNodeLimit" => {
            let most = partitions
                .iter()
                .map(|one| one.max_nodes.unwrap_or(one.nodes).min(one.nodes))
                .max();
            most.filter(|most| *most < row.node_count).map(Bound::Nodes)
        }
        _ if !word.starts_with("QOS") && !word.starts_with("Assoc") => None,
        // Whether the job's QOS is meant or the partition's own is not told.
        _ if word.starts_with("QOS")
            && partitions.iter().any(|partition| partition.qos.is_some()) =>
        {
            None
        }
        // More would be needed, not less.
        _ if word.contains("Min") && !word.contains("Minutes") => None,
        _ if word.contains("MaxWall")
            || word == "AssociationTimeLimit"
            || word == "QOSTimeLimit" =>
        {
            let caps = caps(row, limits).filter_map(|caps| caps.get("MaxWallPJ"));
            caps.min().map(|minutes| Bound::Time(Span::from_secs(minutes * 60)))
        }
        _ if word.contains("GRES") && !word.contains("Minutes") && !word.ends_with("PerNode") => {
            gpus(row, limits).map(Bound::Gpus)
        }
        _ => None,
    }
}

/// The limits that the job is above by itself: it never starts as it is, whatever ends before it.
/// Each with what it allows and what is asked for.
pub(super) fn never(row: &NativeJob, limits: &Limits) -> Vec<String> {
    let word = word(row);
    if !word.starts_with("QOS") && !word.starts_with("Assoc") {
        return Vec::new();
    }
    let minutes = row.time_limit.map(|limit| limit.as_secs().div_ceil(60));
    let asked_of = |name: &str| match name.split_once(' ') {
        _ if name == "MaxWallPJ" => minutes,
        // Of a node, or of minutes together: by another arithmetic.
        Some((kind, tres)) if !kind.contains("Mins") && !kind.ends_with("PN") => asked(row, tres),
        _ => None,
    };
    let capped = caps(row, limits).flat_map(|caps| caps.iter()).map(|(name, most)| (name, *most));
    let gauges = counting(row, limits);
    let counted = gauges.iter().flat_map(|gauges| gauges.iter());
    let counted = counted.filter_map(|(name, gauge)| Some((name, gauge.limit?)));
    let mut found: Vec<String> = capped
        .chain(counted)
        .filter(|(name, _)| !name.starts_with("Min"))
        .filter_map(|(name, most)| {
            let asked = asked_of(name).filter(|asked| *asked > most)?;
            let unit = if name == "MaxWallPJ" { " minutes" } else { "" };
            Some(format!(
                "it never starts as it is: it asks for {asked}{unit}, and {name} is {most}"
            ))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// GPUs that it may hold beside what runs.
fn gpus(row: &NativeJob, limits: &Limits) -> Option<u32> {
    let of_one_job = caps(row, limits).flat_map(|caps| caps.iter());
    let mut most: Option<u64> = of_one_job
        .filter(|(name, _)| name.starts_with("MaxTRESPJ gres/gpu"))
        .map(|(_, most)| *most)
        .min();
    for gauges in counting(row, limits) {
        for (name, gauge) in gauges {
            let Some(limit) = gauge.limit else { continue };
            let left = limit.saturating_sub(gauge.used);
            match name.split_once(' ') {
                // What it is of a kind is a part of what it is of all.
                Some((kind, tres)) if !kind.ends_with("Mins") && tres.starts_with("gres/gpu") => {
                    most = Some(most.map_or(left, |most| most.min(left)));
                }
                Some((kind, tres)) if !kind.ends_with("Mins") && left >= asked(row, tres)? => {}
                None if name.contains("Jobs") && left > 0 => {}
                // Minutes are promised by their own arithmetic.
                _ => return None,
            }
        }
    }
    most.and_then(|most| u32::try_from(most).ok())
}

/// What one job may have, of its QOS, of its user in the account, and of the accounts above.
fn caps<'a>(
    row: &'a NativeJob,
    limits: &'a Limits,
) -> impl Iterator<Item = &'a BTreeMap<String, u64>> {
    let qos = limits.qos.iter().filter(|qos| qos.name == row.qos).map(|qos| &qos.caps);
    let own =
        limits.associations.iter().filter(|one| one.account == row.account && one.user == row.user);
    qos.chain(own.chain(limits.above(&row.account)).map(|one| &one.caps))
}

/// Everything that counts what it would hold.
fn counting<'a>(row: &'a NativeJob, limits: &'a Limits) -> Vec<&'a Gauges> {
    let qos = limits.qos.iter().filter(|qos| qos.name == row.qos);
    let of_qos = qos.flat_map(|qos| {
        let of_user = limits.uids.get(&row.user).and_then(|uid| qos.by_user.get(uid));
        [Some(&qos.gauges), of_user, qos.by_account.get(&row.account)].into_iter().flatten()
    });
    let own =
        limits.associations.iter().filter(|one| one.account == row.account && one.user == row.user);
    of_qos.chain(own.chain(limits.above(&row.account)).map(|one| &one.gauges)).collect()
}

/// What it asks of a countable thing, in the unit that limits are told in.
fn asked(row: &NativeJob, tres: &str) -> Option<u64> {
    match tres {
        "mem" => Some(NativeJob::memory_of(&row.tres_asked).0 >> 20),
        _ => {
            let mut parts = row.tres_asked.split(',').filter_map(|part| part.split_once('='));
            parts.find(|(name, _)| *name == tres).map_or(Some(0), |(_, value)| value.parse().ok())
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_backends::slurm::limits;

    use super::*;

    /// GPUs left to a job of 16 GPUs and 32 CPUs of `games` in `vision`, with these limits of its
    /// QOS and of its account.
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
            tres_asked: "cpu=32,mem=64G,node=2,billing=1,gres/gpu=16".to_owned(),
            ..NativeJob::default()
        };
        assert_eq!(
            bound(&row, &limits::read(&text), &[]),
            expected.map(Bound::Gpus),
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
        // Another limit would keep it all the same.
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
                tres_asked: "cpu=32,gres/gpu=24".to_owned(),
                time_limit: Some(Span::from_secs(3600)),
                ..NativeJob::default()
            };
            super::never(&row, &limits::read(&text))
        };
        let says = |asked: &str, limit: &str| {
            vec![format!("it never starts as it is: it asks for {asked}, and {limit}")]
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
        let partition = |minutes: Option<u64>, max_nodes| Partition {
            name: "batch".to_owned(),
            max_time: minutes.map(|minutes| Span::from_secs(minutes * 60)),
            max_nodes,
            nodes: 8,
            qos: None,
        };
        let check = |reason: &str, partitions: &[Partition], expected: Option<Bound>| {
            let text = "QOS=capped(4) MaxWallPJ=20 Account Limits= User Limits=\n";
            let row = NativeJob {
                qos: "capped".to_owned(),
                reason: reason.to_owned(),
                node_count: 9,
                ..NativeJob::default()
            };
            assert_eq!(bound(&row, &limits::read(text), partitions), expected, "{reason}");
        };
        let minutes = |count: u64| Some(Bound::Time(Span::from_secs(count * 60)));
        check("QOSMaxWallDurationPerJobLimit", &[], minutes(20));
        check(
            "PartitionTimeLimit",
            &[partition(Some(30), None), partition(Some(60), None)],
            minutes(60),
        );
        check("PartitionTimeLimit", &[partition(None, None)], None);
        check("PartitionNodeLimit", &[partition(None, None)], Some(Bound::Nodes(8)));
        check("PartitionNodeLimit", &[partition(None, Some(2))], Some(Bound::Nodes(2)));
        check("QOSGrpCpuLimit", &[], None);
        check("QOSMinGRES", &[], None);
        // The partition's own QOS may be the one that is meant.
        let of_qos = Partition { qos: Some("big".to_owned()), ..partition(None, None) };
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
