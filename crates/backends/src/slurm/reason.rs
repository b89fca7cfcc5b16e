//! Slurm's words for why a job waits, as sentences: squeue(1), JOB REASON CODES, and
//! resource_limits.html for limits. A word that Slurm adds later is still shown as it is.

/// Words with a meaning of their own.
const WORDS: &[(&str, &str)] = &[
    ("None", "the scheduler has not looked at it yet"),
    ("Priority", "jobs before it in the queue wait, too"),
    ("Resources", "what it needs is not free"),
    ("Dependency", "a job that it depends on has not come so far"),
    ("DependencyNeverSatisfied", "a job that it depends on ended otherwise: it will never start"),
    ("JobHeldUser", "on hold until it is released"),
    ("JobHeldAdmin", "an administrator holds it, and only one can release it"),
    ("BeginTime", "its begin time, or the wait before it starts again, lies ahead"),
    ("JobArrayTaskLimit", "as many of its array run as it allows itself"),
    ("PartitionTimeLimit", "its time limit is longer than its partition allows"),
    ("PartitionNodeLimit", "it asks for more or fewer nodes than its partition allows"),
    ("PartitionDown", "its partition is down"),
    ("PartitionInactive", "its partition takes no jobs now"),
    ("PartitionConfig", "its partition does not allow what it asks for"),
    ("AccountNotAllowed", "its account may not use the partition"),
    ("QOSNotAllowed", "its account or partition may not use this QOS"),
    ("InvalidAccount", "its account does not exist"),
    ("InvalidQOS", "its QOS does not exist"),
    ("BadConstraints", "no nodes can ever satisfy what it asks for"),
    ("NodeDown", "a node that it needs is down"),
    ("ReqNodeNotAvail", "nodes that it could use are down, drained or reserved"),
    (
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
        "nodes that it could use are down, drained, or kept for partitions that go first",
    ),
    ("Reservation", "its advance reservation is not open yet, or holds no room"),
    ("ReservationDeleted", "its advance reservation is gone"),
    ("ReservationInvalid", "its advance reservation is gone or not for it"),
    ("MaxMemPerLimit", "it asks for more memory per CPU or node than is allowed"),
    ("Licenses", "licences that it needs are in use"),
    ("Cleaning", "its last attempt is still being cleaned up after"),
    ("Prolog", "its prolog runs"),
    ("JobLaunchFailure", "its last attempt could not be launched"),
    ("JobHoldMaxRequeue", "it was queued again as often as the cluster allows, and is on hold"),
    ("FrontEndDown", "no front end takes it"),
    ("BurstBufferResources", "its burst buffer has no room"),
    ("BurstBufferStageIn", "its burst buffer is being filled"),
    ("InactiveLimit", "it was inactive for longer than the cluster allows"),
    ("DeadLine", "it can no longer end before its deadline"),
    ("NonZeroExitCode", "its last attempt failed"),
    ("TimeLimit", "its last attempt reached its time limit"),
    ("OutOfMemory", "its last attempt ran out of memory"),
    ("SystemFailure", "Slurm, the file system or the network failed"),
    ("NodeFail", "a node of its last attempt failed"),
    ("RaisedSignal", "a signal ended its last attempt"),
    ("Preempted", "it made room for others"),
    ("WaitingForScheduling", "the scheduler has not looked at it yet"),
    ("SchedDefer", "it was submitted to start at once, and the cluster defers all starts"),
];

/// Whose limit a word is about.
const OWNERS: &[(&str, &str)] = &[
    ("Association", "its account, or one above it"),
    ("Assoc", "its account, or one above it"),
    ("QOS", "its QOS"),
];

/// What is limited.
const LIMITS: &[(&str, &str)] = &[
    ("JobLimit", "lets no more jobs run at once"),
    ("ResourceLimit", "lets no more resources be used at once"),
    ("TimeLimit", "does not allow its time limit"),
    ("UsageThreshold", "has used too much for now"),
    ("GrpJobsLimit", "lets no more jobs of all its users together run at once"),
    ("GrpSubmitJobsLimit", "takes no more jobs of all its users together"),
    ("GrpSubmitLimit", "takes no more jobs of all its users together"),
    ("MaxJobsLimit", "lets no more jobs of one user run at once"),
    ("MaxSubmitJobLimit", "takes no more jobs of one user"),
    ("MaxSubmitJobsLimit", "takes no more jobs of one user"),
    ("MaxWallDurationPerJobLimit", "does not allow so long a time limit"),
    ("GrpWallLimit", "has used up its time for all jobs together"),
    ("MaxJobsPerUserLimit", "lets no more jobs of one user run at once"),
    ("MaxSubmitJobPerUserLimit", "takes no more jobs of one user"),
    ("MaxJobsPerAccountLimit", "lets no more jobs of one account run at once"),
];

/// Resources in words of limits, as in `QOSMaxGRESPerUser` and `AssocGrpGRESRunMinutes`.
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

/// The sentence of a word.
#[must_use]
pub fn sentence(word: &str) -> String {
    let word = word.strip_prefix('(').and_then(|word| word.strip_suffix(')')).unwrap_or(word);
    // `ReqNodeNotAvail, UnavailableNodes:node[1-2]` says more behind the word.
    let (word, more) = match word.split_once([',', '(']) {
        // A sentence of Slurm's own has commas of its own.
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
        .unwrap_or_else(|| format!("Slurm says {word}"));
    if let Some(more) = more.filter(|more| !more.is_empty()) {
        text.push_str(&format!(" ({})", more.replace("UnavailableNodes:", "unavailable: ")));
    }
    text
}

/// `QOSMaxGRESPerUser`, `AssocGrpCPULimit`, `AssociationJobLimit`: whose limit, on what, for whom.
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
        "at least" => format!("{owner} wants more {resource}{whom} than it asks for"),
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
            ("Resources", "what it needs is not free"),
            ("(Priority)", "jobs before it in the queue wait, too"),
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
                "its account, or one above it lets no more jobs of all its users together run at once",
            ),
            ("QOSMinGRES", "its QOS wants more GPUs or other generic resources than it asks for"),
            ("QOSMaxCpuPerUserLimit", "its QOS allows no more CPUs for one user"),
            (
                "ReqNodeNotAvail, UnavailableNodes:node[1-2]",
                "nodes that it could use are down, drained or reserved (unavailable: node[1-2])",
            ),
            (
                "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
                "nodes that it could use are down, drained, or kept for partitions that go first",
            ),
            (
                "Asks for more, or less, than (any) site",
                "Slurm says Asks for more, or less, than (any) site",
            ),
            ("SomethingNew", "Slurm says SomethingNew"),
        ] {
            assert_eq!(sentence(word), text);
        }
    }
}
