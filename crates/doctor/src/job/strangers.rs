//! Check of the processes on a job's GPUs, as the driver lists them: its own, and where it has a share
//! of a GPU those of other jobs, which have shares, too.

use std::collections::BTreeMap;

use muster_model::verify::{GpuUser, ProbeObservation};

use super::JobEvidence;
use super::check::JobCheckOutcome::{self, NotTested};
use super::check::{WHOLE_MILLIS, fail_if_any};
use super::devices::{is_uuid, names};
use super::gang::{gpus, ranks};

pub(super) fn strangers(evidence: &JobEvidence) -> JobCheckOutcome {
    let reported: Vec<&ProbeObservation> =
        evidence.seen.iter().filter(|seen| seen.gpu_users.is_some()).collect();
    if reported.is_empty() {
        return NotTested("NVIDIA's management library on the nodes".to_owned());
    }
    if ranks(evidence).all(|(_, rank)| gpus(evidence, rank) == Some(0)) {
        return NotTested("a job with GPUs, whose ranks were found".to_owned());
    }
    let own = own_gpus(evidence);
    let mut wrong: Vec<String> = reported
        .iter()
        .flat_map(|seen| seen.gpu_users.iter().flatten().map(move |user| (seen, user)))
        .filter(|(seen, user)| is_stranger(evidence, user, own.as_ref(), &seen.node))
        .map(|(seen, user)| {
            let job = user.other_job.map_or_else(String::new, |job| format!(" of job {job}"));
            format!("process {}{job} is on {} of {}", user.pid, user.uuid, seen.node)
        })
        .collect();
    wrong.sort();
    wrong.dedup();
    fail_if_any(&wrong, "no other process is on its GPUs")
}

/// Largest share of a rank, by node and UUID of its GPU.
type OwnGpus<'a> = BTreeMap<(&'a str, &'a str), u32>;

/// Returns the GPUs of the job; `None` where the environment of a rank does not name them by UUID: then
/// every GPU that the driver lists may be one of them.
fn own_gpus(evidence: &JobEvidence) -> Option<OwnGpus<'_>> {
    let mut own = OwnGpus::new();
    for (seen, rank) in ranks(evidence) {
        let visible = rank.visible.as_deref().unwrap_or_default();
        if visible.is_empty() && gpus(evidence, rank) != Some(0) {
            return None;
        }
        for device in visible {
            if !is_uuid(device) {
                return None;
            }
            let share = rank.gpu_share_millis.unwrap_or(WHOLE_MILLIS);
            let largest = own.entry((seen.node.as_str(), device.as_str())).or_default();
            *largest = share.max(*largest);
        }
    }
    Some(own)
}

fn is_stranger(
    evidence: &JobEvidence,
    user: &GpuUser,
    own: Option<&OwnGpus<'_>>,
    node: &str,
) -> bool {
    let Some(own) = own else { return !user.is_own };
    let mut found = own.iter().filter(|((at, device), _)| *at == node && names(device, &user.uuid));
    let has_share = || user.other_job.is_some_and(|job| evidence.sharing_jobs.contains(&job));
    match found.next() {
        None => false,
        Some((_, &share)) => !user.is_own && (share == WHOLE_MILLIS || !has_share()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::check::JobCheckOutcome::Passed;
    use crate::job::gang::tests::{failed, sound};

    /// Returns a job whose rank 0 has this share of GPU-a, with users of GPU-a and GPU-b.
    fn with(share: u32, users: &[(&str, Option<u32>, Option<u64>)]) -> JobEvidence {
        let mut evidence = sound();
        evidence.seen.truncate(1);
        evidence.sharing_jobs = vec![5];
        let seen = &mut evidence.seen[0];
        seen.ranks.truncate(1);
        seen.ranks[0].visible = Some(vec!["GPU-a".to_owned()]);
        seen.ranks[0].gpu_share_millis = Some(share);
        let user = |(at, (uuid, rank, other_job)): (usize, &(&str, Option<u32>, Option<u64>))| {
            let pid = 70 + u32::try_from(at).unwrap();
            let uuid = (*uuid).to_owned();
            GpuUser { uuid, pid, is_own: rank.is_some(), rank: *rank, other_job: *other_job }
        };
        seen.gpu_users = Some(users.iter().enumerate().map(user).collect());
        evidence
    }

    #[test]
    fn a_process_on_a_whole_gpu_of_the_job_is_a_stranger() {
        assert!(matches!(strangers(&sound()), NotTested(_)));
        let own = ("GPU-a", Some(0), None);
        let fine = Passed("no other process is on its GPUs".to_owned());
        assert_eq!(strangers(&with(1000, &[own])), fine);
        // Another GPU of the machine belongs to somebody else.
        assert_eq!(strangers(&with(1000, &[own, ("GPU-b", None, None)])), fine);
        let outside = with(1000, &[own, ("GPU-a", None, None)]);
        assert_eq!(failed(strangers(&outside)), "process 71 is on GPU-a of a");
        let other = with(1000, &[own, ("GPU-a", None, Some(5))]);
        assert_eq!(failed(strangers(&other)), "process 71 of job 5 is on GPU-a of a");
    }

    #[test]
    fn jobs_with_shares_of_a_gpu_are_no_strangers_to_each_other() {
        let own = ("GPU-a", Some(0), None);
        assert!(matches!(strangers(&with(500, &[own, ("GPU-a", None, Some(5))])), Passed(_)));
        let outside = with(500, &[own, ("GPU-a", None, None)]);
        assert_eq!(failed(strangers(&outside)), "process 71 is on GPU-a of a");
        // A job that was allocated no share of this GPU, or has ended.
        let other = with(500, &[own, ("GPU-a", None, Some(6))]);
        assert_eq!(failed(strangers(&other)), "process 71 of job 6 is on GPU-a of a");
    }

    #[test]
    fn a_rank_without_the_variable_may_use_any_gpu() {
        for visible in [None, Some(Vec::new())] {
            let mut unset = with(1000, &[("GPU-b", None, None)]);
            unset.seen[0].ranks[0].visible = visible;
            assert_eq!(failed(strangers(&unset)), "process 70 is on GPU-b of a");
        }
    }

    #[test]
    fn gpus_by_number_are_those_that_the_driver_lists() {
        let mut numbered = with(1000, &[("GPU-b", None, None)]);
        numbered.seen[0].ranks[0].visible = Some(vec!["0".to_owned()]);
        assert_eq!(failed(strangers(&numbered)), "process 70 is on GPU-b of a");
        numbered.expected.truncate(1);
        numbered.expected[0].gpus = Some(0);
        assert!(matches!(strangers(&numbered), NotTested(_)));
    }
}
