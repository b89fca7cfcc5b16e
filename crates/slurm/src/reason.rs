//! Slurm's reasons why a job is pending, as sentences: squeue(1), JOB REASON CODES, and
//! resource_limits.html for limits. Reasons that Slurm adds later are shown unchanged.

/// Reasons other than limits.
const WORDS: &[(&str, &str)] = &[
    ("None", "the scheduler has not considered it yet"),
    ("Priority", "jobs with higher priority are pending"),
    ("Resources", "the resources that it requests are not free"),
    ("Dependency", "its dependency is not met yet"),
    ("DependencyNeverSatisfied", "its dependency can never be met: it will never start"),
    ("JobHeldUser", "on hold until it is released"),
    ("JobHeldAdmin", "an administrator holds it, and only an administrator can release it"),
    ("BeginTime", "its begin time, or its delay after a requeue, is in the future"),
    ("JobArrayTaskLimit", "its array runs as many elements as its own limit allows"),
    ("PartitionTimeLimit", "its time limit is longer than its partition allows"),
    ("PartitionNodeLimit", "it requests more or fewer nodes than its partition allows"),
    ("PartitionDown", "its partition is down"),
    ("PartitionInactive", "its partition is inactive"),
    ("PartitionConfig", "its partition does not allow its request"),
    ("AccountNotAllowed", "its account may not use the partition"),
    ("QOSNotAllowed", "its account or partition may not use this QOS"),
    ("InvalidAccount", "its account does not exist"),
    ("InvalidQOS", "its QOS does not exist"),
    ("BadConstraints", "no nodes can ever satisfy its request"),
    ("NodeDown", "a node that it needs is down"),
    ("ReqNodeNotAvail", "nodes that it could use are down, drained or reserved"),
    (
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
        "nodes that it could use are down, drained, or reserved for jobs in partitions of higher priority",
    ),
    ("Reservation", "its advance reservation has not begun, or has no free nodes"),
    ("ReservationDeleted", "its advance reservation was deleted"),
    ("ReservationInvalid", "its advance reservation was deleted or does not admit it"),
    ("MaxMemPerLimit", "it requests more memory per CPU or node than allowed"),
    ("Licenses", "licences that it needs are in use"),
    ("Cleaning", "the clean-up of its last attempt is still running"),
    ("Prolog", "its prolog runs"),
    ("JobLaunchFailure", "its last attempt could not be launched"),
    ("JobHoldMaxRequeue", "it was requeued as often as the cluster allows, and is on hold"),
    ("FrontEndDown", "no front end accepts it"),
    ("BurstBufferResources", "its burst buffer has no free space"),
    ("BurstBufferStageIn", "its burst buffer is being filled"),
    ("InactiveLimit", "it was inactive for longer than the cluster allows"),
    ("DeadLine", "it can no longer end before its deadline"),
    ("NonZeroExitCode", "its last attempt failed"),
    ("TimeLimit", "its last attempt reached its time limit"),
    ("OutOfMemory", "its last attempt ran out of memory"),
    ("SystemFailure", "Slurm, the file system or the network failed"),
    ("NodeFail", "a node of its last attempt failed"),
    ("RaisedSignal", "a signal ended its last attempt"),
    ("Preempted", "it was preempted"),
    ("WaitingForScheduling", "the scheduler has not considered it yet"),
    ("SchedDefer", "it was submitted to start at once, and the cluster defers all starts"),
];

/// Prefixes of reasons, with the owner of the limit.
const OWNERS: &[(&str, &str)] = &[
    ("Association", "its account, or one above it"),
    ("Assoc", "its account, or one above it"),
    ("QOS", "its QOS"),
];

/// Limits by the rest of the reason.
const LIMITS: &[(&str, &str)] = &[
    ("JobLimit", "allows no more running jobs"),
    ("ResourceLimit", "allows no more resources in use"),
    ("TimeLimit", "does not allow its time limit"),
    ("UsageThreshold", "has reached its usage threshold"),
    ("GrpJobsLimit", "allows no more running jobs of all its users together"),
    ("GrpSubmitJobsLimit", "accepts no more jobs of all its users together"),
    ("GrpSubmitLimit", "accepts no more jobs of all its users together"),
    ("MaxJobsLimit", "allows no more running jobs of one user"),
    ("MaxSubmitJobLimit", "accepts no more jobs of one user"),
    ("MaxSubmitJobsLimit", "accepts no more jobs of one user"),
    ("MaxWallDurationPerJobLimit", "does not allow so long a time limit"),
    ("GrpWallLimit", "has used up its wall-clock time for all jobs together"),
    ("MaxJobsPerUserLimit", "allows no more running jobs of one user"),
    ("MaxSubmitJobPerUserLimit", "accepts no more jobs of one user"),
    ("MaxJobsPerAccountLimit", "allows no more running jobs of one account"),
];

/// Resources in the names of limits, as in `QOSMaxGRESPerUser` and `AssocGrpGRESRunMinutes`.
const RESOURCES: &[(&str, &str)] = &[
    ("CPU", "CPUs"),
    ("Cpu", "CPUs"),
    ("GRES", "GPUs or other generic resources"),
    ("Memory", "memory"),
    ("Mem", "memory"),
    ("Node", "nodes"),
    ("License", "licences"),
    ("Billing", "billed resources"),
    ("Energy", "energy"),
    ("BB", "burst buffer"),
];

/// Returns the sentence for a reason.
#[must_use]
pub fn sentence(word: &str) -> String {
    let word = word.strip_prefix('(').and_then(|word| word.strip_suffix(')')).unwrap_or(word);
    // In `ReqNodeNotAvail, UnavailableNodes:node[1-2]` details follow the reason.
    let (word, more) = match word.split_once([',', '(']) {
        // A reason that is a sentence contains commas itself.
        Some((first, more)) if !first.trim().contains(' ') => {
            (first.trim(), Some(more.trim_matches([' ', ')'])))
        }
        _ => (word, None),
    };
    let mut text = WORDS
        .iter()
        .find(|(known, _)| *known == word)
        .map(|(_, text)| (*text).to_owned())
        .or_else(|| limit(word))
        .unwrap_or_else(|| format!("Slurm's reason is {word}"));
    if let Some(more) = more.filter(|more| !more.is_empty()) {
        text.push_str(&format!(" ({})", more.replace("UnavailableNodes:", "unavailable: ")));
    }
    text
}

/// Parses `QOSMaxGRESPerUser`, `AssocGrpCPULimit`, `AssociationJobLimit` into owner, resource and
/// scope.
fn limit(word: &str) -> Option<String> {
    let (prefix, owner) = OWNERS.iter().find(|(prefix, _)| word.starts_with(prefix))?;
    let rest = &word[prefix.len()..];
    if let Some((_, what)) = LIMITS.iter().find(|(known, _)| *known == rest) {
        return Some(format!("{owner} {what}"));
    }
    let (scope, rest) =
        match (rest.strip_prefix("Grp"), rest.strip_prefix("Max"), rest.strip_prefix("Min")) {
            (Some(rest), _, _) => ("for all of it together", rest),
            (_, Some(rest), _) => ("at most", rest),
            (_, _, Some(rest)) => ("at least", rest),
            _ => return None,
        };
    let (_, resource) = RESOURCES.iter().find(|(known, _)| rest.starts_with(known))?;
    let whom = match rest {
        _ if rest.contains("PerUser") || rest.contains("PU") => " for one user",
        _ if rest.contains("PerAccount") || rest.contains("PA") => " for one account",
        _ if rest.contains("PerNode") => " on one node",
        _ if rest.contains("PerJob") => " for one job",
        _ => "",
    };
    let kind = if rest.contains("Minutes") { "time on " } else { "" };
    Some(match scope {
        "at least" => format!("{owner} requires more {resource}{whom} than it requests"),
        "at most" => format!("{owner} allows no more {kind}{resource}{whom}"),
        _ => format!("{owner} allows no more {kind}{resource} {scope}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_sentences() {
        for (word, text) in [
            ("Resources", "the resources that it requests are not free"),
            ("(Priority)", "jobs with higher priority are pending"),
            (
                "QOSMaxGRESPerUser",
                "its QOS allows no more GPUs or other generic resources for one user",
            ),
            (
                "AssocGrpGRES",
                "its account, or one above it allows no more GPUs or other generic resources for all of it together",
            ),
            (
                "AssocGrpGRESRunMinutes",
                "its account, or one above it allows no more time on GPUs or other generic resources for all of it together",
            ),
            (
                "AssocGrpJobsLimit",
                "its account, or one above it allows no more running jobs of all its users together",
            ),
            (
                "QOSMinGRES",
                "its QOS requires more GPUs or other generic resources than it requests",
            ),
            ("QOSMaxCpuPerUserLimit", "its QOS allows no more CPUs for one user"),
            (
                "ReqNodeNotAvail, UnavailableNodes:node[1-2]",
                "nodes that it could use are down, drained or reserved (unavailable: node[1-2])",
            ),
            (
                "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
                "nodes that it could use are down, drained, or reserved for jobs in partitions of higher priority",
            ),
            (
                "Asks for more, or less, than (any) site",
                "Slurm's reason is Asks for more, or less, than (any) site",
            ),
            ("SomethingNew", "Slurm's reason is SomethingNew"),
        ] {
            assert_eq!(sentence(word), text);
        }
    }
}
