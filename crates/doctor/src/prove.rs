//! Probe jobs for properties that no configuration proves: the scripts to run, and the judgement of
//! their output. Runs nothing itself.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use muster_model::check::{CheckProbe, ProbeOutcome};
use muster_model::hostlist::expand;

use muster_slurm::conf::ConfLine;
use muster_slurm::conf::evidence::Evidence;

/// Ids of the probes, in order.
pub const PROBES: [&str; 3] = ["one-gpu-sees-one", "gpu-seconds-recorded", "gang-on-one-leaf"];

/// Device files on NVIDIA nodes where gres.conf names none.
const USUAL_FILES: &str = "/dev/nvidia[0-15]";

/// Builds the result of a probe.
#[must_use]
pub fn probe(id: &'static str, outcome: ProbeOutcome, says: impl Into<String>) -> CheckProbe {
    CheckProbe { probe: id, outcome, text: says.into() }
}

/// Returns the script of a job with one GPU: it prints its job number, its CUDA_VISIBLE_DEVICES,
/// and the device files that it can open.
#[must_use]
pub fn one_gpu_script(evidence: &Evidence) -> String {
    let gpu =
        |line: &&ConfLine| line.get("Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu"));
    let lines = evidence.gres.iter().flatten().filter(gpu);
    let mut files: BTreeSet<String> =
        lines.filter_map(|line| line.get("File")).flat_map(expand).flatten().collect();
    // Only plain paths are passed to the shell.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_.-".contains(c);
    files.retain(|file| file.starts_with('/') && file.chars().all(is_plain));
    if files.is_empty() {
        files.extend(expand(USUAL_FILES).unwrap_or_default());
    }
    let mut script = String::from(
        "export LC_ALL=C\necho \"job $SLURM_JOB_ID\"\necho \"visible $CUDA_VISIBLE_DEVICES\"\n",
    );
    for file in files {
        // Nothing is read: a successful open counts, even where no driver answers behind the file.
        let _ = writeln!(
            script,
            "if [ -e {file} ]; then if said=$( (: < {file}) 2>&1 ); then echo 'open {file}'; else case \"$said\" in \
             *'not permitted'*) echo 'refused {file}';; *'ermission denied'*) echo 'closed {file}';; *) echo 'open {file}';; esac; fi; fi"
        );
    }
    // The accounting counts whole seconds.
    script.push_str("sleep 1\n");
    script
}

/// Returns the job number in the script's output.
#[must_use]
pub fn job_of(output: &str) -> Option<&str> {
    let job = output.lines().find_map(|line| line.strip_prefix("job "))?;
    (!job.is_empty() && job.bytes().all(|byte| byte.is_ascii_digit())).then_some(job)
}

/// Judges the script's output.
#[must_use]
pub fn check_one_gpu(output: &str) -> CheckProbe {
    let id = PROBES[0];
    let files = |word: &str| output.lines().filter(|line| line.starts_with(word)).count();
    let open = files("open ");
    let refused = files("refused ");
    let closed = files("closed ");
    let Some(visible) = output.lines().find_map(|line| line.strip_prefix("visible ")) else {
        return probe(
            id,
            ProbeOutcome::Failed,
            "CUDA_VISIBLE_DEVICES is not set in a job with one GPU",
        );
    };
    let seen = visible.split(',').filter(|entry| !entry.trim().is_empty()).count();
    if seen != 1 {
        return probe(
            id,
            ProbeOutcome::Failed,
            format!("CUDA_VISIBLE_DEVICES={visible} in a job with one GPU"),
        );
    }
    match (open, refused, closed) {
        (1, 0, 0) => probe(id, ProbeOutcome::NotTested, "a node with more than one device file"),
        (1, _, 0) => probe(
            id,
            ProbeOutcome::Passed,
            format!("one device file can be opened, {refused} are denied"),
        ),
        (0, 0, 0) => probe(
            id,
            ProbeOutcome::NotTested,
            "device files of gres.conf: the node has none of them",
        ),
        (0 | 1, _, _) => probe(
            id,
            ProbeOutcome::NotTested,
            format!(
                "a user with permission to open device files: {closed} files are closed to this user"
            ),
        ),
        _ => probe(
            id,
            ProbeOutcome::Failed,
            format!("a job with one GPU can open the device files of {open}"),
        ),
    }
}

/// Judges a line of `sacct -X -n -P -o State,ElapsedRaw,AllocTRES` of a job with one GPU. `None`
/// while the job runs.
#[must_use]
pub fn check_recorded(job: &str, line: &str) -> Option<CheckProbe> {
    let id = PROBES[1];
    let cells: Vec<&str> = line.trim().split('|').collect();
    let [state, seconds, tres] = cells.as_slice() else { return None };
    if matches!(*state, "" | "PENDING" | "RUNNING" | "COMPLETING") || tres.is_empty() {
        return None;
    }
    Some(if tres.split(',').any(|entry| entry == "gres/gpu=1") {
        probe(id, ProbeOutcome::Passed, format!("sacct shows one GPU for {seconds} s of job {job}"))
    } else {
        probe(id, ProbeOutcome::Failed, format!("job {job} had one GPU, but sacct shows {tres}"))
    })
}

/// Returns the size of a gang that fills the smallest leaf of several nodes, if a leaf with as many
/// idle nodes is known.
///
/// # Errors
///
/// The input that would be needed.
pub fn gang_size(evidence: &Evidence) -> Result<usize, String> {
    let Some(switches) = &evidence.switches else { return Err("topology.conf".to_owned()) };
    let leaves: Vec<Vec<String>> = switches
        .iter()
        .filter_map(|line| expand(line.get("Nodes")?).ok())
        .filter(|nodes| nodes.len() > 1)
        .collect();
    if leaves.len() < 2 {
        return Err("two leaf switches with several nodes each".to_owned());
    }
    let size = leaves.iter().map(Vec::len).min().unwrap_or_default();
    let is_idle = |name: &&String| {
        let node = evidence.nodes.iter().find(|node| node.name == **name);
        node.and_then(|node| node.get("State")).is_some_and(|state| state == "IDLE")
    };
    if leaves.iter().any(|nodes| nodes.iter().filter(is_idle).count() >= size) {
        Ok(size)
    } else {
        Err(format!("{size} idle nodes below one leaf switch"))
    }
}

/// Judges the output of such a gang: the `SLURM_TOPOLOGY_ADDR` of each rank, one per line.
#[must_use]
pub fn check_gang(output: &str, size: usize) -> CheckProbe {
    let id = PROBES[2];
    let nodes: BTreeSet<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let leaves: BTreeSet<&str> =
        nodes.iter().filter_map(|node| Some(node.rsplit_once('.')?.0)).collect();
    match (nodes.len(), leaves.len()) {
        (_, 0) => probe(
            id,
            ProbeOutcome::NotTested,
            "a topology plugin that names switches in SLURM_TOPOLOGY_ADDR",
        ),
        (count, _) if count != size => {
            probe(id, ProbeOutcome::NotTested, format!("{size} nodes in the job; {count} answered"))
        }
        (_, 1) => probe(id, ProbeOutcome::Passed, format!("{size} nodes below one leaf switch")),
        (_, count) => probe(
            id,
            ProbeOutcome::Failed,
            format!(
                "{size} nodes below {count} leaf switches, although one leaf had as many idle nodes"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProbeOutcome::{Failed, NotTested, Passed};

    #[test]
    fn one_gpu_is_one_and_no_other_can_be_opened() {
        for (output, expected) in [
            ("job 1\nvisible 0\nopen /dev/a\nrefused /dev/b\n", Passed),
            ("job 1\nvisible 0\nopen /dev/a\nopen /dev/b\n", Failed),
            ("job 1\nvisible 0,1\nopen /dev/a\nrefused /dev/b\n", Failed),
            ("job 1\nvisible \n", Failed),
            ("job 1\n", Failed),
            ("job 1\nvisible 0\n", NotTested),
            ("job 1\nvisible 0\nopen /dev/a\n", NotTested),
            ("job 1\nvisible 0\nclosed /dev/a\nclosed /dev/b\n", NotTested),
        ] {
            assert_eq!(check_one_gpu(output).outcome, expected, "{output}");
        }
        assert_eq!(job_of("job 17\nvisible 0\n"), Some("17"));
        assert_eq!(job_of("job 1;x\n"), None);
    }

    #[test]
    fn records_are_waited_for_and_then_judged() {
        let outcome = |line| check_recorded("7", line).map(|probe| probe.outcome);
        assert_eq!(
            outcome("COMPLETED|2|billing=1,cpu=1,gres/gpu:h100=1,gres/gpu=1,mem=200M,node=1"),
            Some(Passed)
        );
        assert_eq!(outcome("COMPLETED|2|billing=1,cpu=1,mem=200M,node=1"), Some(Failed));
        assert_eq!(outcome("RUNNING|2|cpu=1"), None);
        assert_eq!(outcome(""), None);
    }

    #[test]
    fn leaves_of_a_gang_are_counted() {
        assert_eq!(check_gang("spine.leaf1.n1\nspine.leaf1.n2\n", 2).outcome, Passed);
        assert_eq!(check_gang("spine.leaf1.n1\nspine.leaf2.n2\n", 2).outcome, Failed);
        assert_eq!(check_gang("n1\nn2\n", 2).outcome, NotTested);
        assert_eq!(check_gang("spine.leaf1.n1\n", 2).outcome, NotTested);
    }
}
