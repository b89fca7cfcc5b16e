//! Drives the probes of one job through the programs that start them, one per component of the job:
//! what is written to such a program reaches each of its probes, and their lines come back
//! interleaved. Every step has a deadline, after which missing answers are given up.
//! `muster-doctor` evaluates the answers.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use muster_doctor::job::ClockBound;
use muster_model::verify::{PROBE_MARK, ProbeAnswer, ProbeObservation, ProbeQuestion};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::probe::unix_nanos;

/// Deadline for a Slurm step to start on every node.
const START: Duration = Duration::from_secs(30);
/// Deadline for connections to rank 0; the probes give up earlier.
const REACH: Duration = Duration::from_secs(15);
/// Deadline for one reading of the clocks.
const CLOCK: Duration = Duration::from_secs(3);
/// Deadline for a program to exit after its stdin is closed.
const END: Duration = Duration::from_secs(5);
/// Capacity of the channel of received lines.
const LINES: usize = 1024;
/// Number of readings of the clocks; the fastest answer gives the tightest bound.
const CLOCKS: usize = 3;
/// Number of looks before a rank counts as missing: a rank may not have started yet, or may just be
/// replacing itself by exec.
const LOOKS: usize = 4;
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// Answers of the probes.
#[derive(Debug, Default)]
pub struct ProbeAnswers {
    /// Observation of each probe.
    pub seen: Vec<ProbeObservation>,
    /// Node of each probe, and the error if it could not connect to the node of rank 0.
    pub reached: Vec<(String, Option<String>)>,
    /// Bounds of each node's clock offset.
    pub clocks: Vec<ClockBound>,
    /// True if the deadline passed before all probes had answered, with the programs that start
    /// them still running.
    pub is_late: bool,
    /// First error message of the programs that start the probes.
    pub why: Option<String>,
}

/// Starts the probes and collects all answers. The probes look again while one of `ranks` was not
/// seen. The environment variables `without` are removed for the programs that start the probes.
pub async fn drive(
    starts: &[Vec<String>],
    probes: usize,
    ranks: &[u32],
    without: &[OsString],
) -> ProbeAnswers {
    let mut driven = ProbeAnswers::default();
    let mut asked = match ProbeProcesses::start(starts, without) {
        Ok(asked) => asked,
        Err(error) => return ProbeAnswers { why: Some(error.to_string()), ..driven },
    };

    // 1. Collect the observations, which the probes send at start.
    for answer in asked.receive(probes, START).await {
        if let (_, ProbeAnswer::Seen(seen)) = answer {
            driven.seen.push(*seen);
        }
    }
    let there = driven.seen.len();
    driven.is_late = there < probes && !asked.lines.is_closed();
    for _ in 1..LOOKS {
        let is_seen = |rank: &u32| {
            driven.seen.iter().flat_map(|seen| &seen.ranks).any(|one| one.rank == *rank)
        };
        if there < probes || ranks.iter().all(is_seen) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        asked.ask(&ProbeQuestion::Look).await;
        let mut again = Vec::new();
        for answer in asked.receive(there, START).await {
            if let (_, ProbeAnswer::Seen(seen)) = answer {
                again.push(*seen);
            }
        }
        // A node may have several probes: their answers replace the earlier ones together.
        if again.len() == there {
            driven.seen = again;
        }
    }

    // 2. Test connections to the node of rank 0.
    let master =
        driven.seen.iter().flat_map(|seen| &seen.ranks).find_map(|rank| rank.master.clone());
    let port = driven.seen.iter().find_map(|seen| seen.listens);
    if let (Some(address), Some(port)) = (master, port) {
        asked.ask(&ProbeQuestion::Reach { address, port }).await;
        for answer in asked.receive(there, REACH).await {
            if let (_, ProbeAnswer::Reached { node, error }) = answer {
                driven.reached.push((node, error));
            }
        }
    }

    // 3. Bound the clock offsets.
    driven.clocks = clocks(&mut asked, there).await;

    // 4. Stop the probes.
    driven.why = asked.end().await;
    driven
}

/// Returns bounds of the clock offsets of the nodes, from several readings.
async fn clocks(asked: &mut ProbeProcesses, probes: usize) -> Vec<ClockBound> {
    let mut clocks = Vec::new();
    for _ in 0..CLOCKS {
        let sent = unix_nanos();
        asked.ask(&ProbeQuestion::Clock).await;
        let answers = asked.receive(probes, CLOCK).await;
        // `date` of some containers has only seconds: if no probe answers once, none will.
        if answers.is_empty() {
            break;
        }
        for (heard, answer) in answers {
            if let ProbeAnswer::Clock { node, unix_nanos } = answer {
                bound(&mut clocks, ClockBound::of(node, sent, unix_nanos, heard));
            }
        }
    }
    clocks
}

fn bound(clocks: &mut Vec<ClockBound>, new: ClockBound) {
    match clocks.iter_mut().find(|bound| bound.node == new.node) {
        Some(bound) => bound.narrow(&new),
        None => clocks.push(new),
    }
}

/// Programs that start the probes, with their stdin and the lines of their stdout.
struct ProbeProcesses {
    children: Vec<(Child, ChildStdin)>,
    lines: mpsc::Receiver<(i64, String)>,
}

impl ProbeProcesses {
    fn start(starts: &[Vec<String>], without: &[OsString]) -> std::io::Result<Self> {
        let (sender, lines) = mpsc::channel(LINES);
        let mut children = Vec::new();
        for words in starts {
            let (program, args) = words.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
            let mut command = Command::new(program);
            command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            without.iter().for_each(|name| {
                command.env_remove(name);
            });
            let mut child = command.kill_on_drop(true).spawn()?;
            let stdin = child.stdin.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
            let stdout = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
            children.push((child, stdin));
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut lines = BufReader::new(stdout).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    if sender.send((unix_nanos(), line)).await.is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self { children, lines })
    }

    async fn ask(&mut self, question: &ProbeQuestion) {
        // Errors are ignored: if a program has ended, its answers are missing at the deadline.
        let Ok(line) = serde_json::to_string(question) else { return };
        for (_, stdin) in &mut self.children {
            let _ = stdin.write_all(format!("{line}\n").as_bytes()).await;
            let _ = stdin.flush().await;
        }
    }

    /// Returns up to `count` answers, each with its time of arrival; fewer if the programs end or
    /// `patience` has elapsed.
    async fn receive(&mut self, count: usize, patience: Duration) -> Vec<(i64, ProbeAnswer)> {
        let deadline = Instant::now() + patience;
        let mut answers = Vec::new();
        while answers.len() < count {
            let Ok(Some((heard, line))) = timeout_at(deadline, self.lines.recv()).await else {
                break;
            };
            // Other output may precede the answer on the line.
            let answer =
                line.split_once(PROBE_MARK).and_then(|(_, json)| serde_json::from_str(json).ok());
            answers.extend(answer.map(|answer| (heard, answer)));
        }
        answers
    }

    /// Closes the stdin of the probes and waits for their exit. Returns the first error message.
    async fn end(self) -> Option<String> {
        let (mut children, stdins): (Vec<Child>, Vec<ChildStdin>) =
            self.children.into_iter().unzip();
        drop(stdins);
        let deadline = Instant::now() + END;
        let mut why = None;
        for child in &mut children {
            let mut text = String::new();
            if let Some(stderr) = &mut child.stderr {
                let _ = timeout_at(deadline, stderr.read_to_string(&mut text)).await;
            }
            why = why.or(text
                .lines()
                .map(str::trim)
                .find(|line| !line.is_empty())
                .map(str::to_owned));
            if timeout_at(deadline, child.wait()).await.is_err() {
                // On SIGTERM srun ends its step; on SIGKILL it would leave the step running.
                if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
                    let _ = kill_process(pid, Signal::TERM);
                }
                if timeout(END, child.wait()).await.is_err() {
                    let _ = child.kill().await;
                }
            }
        }
        why
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(script: &str) -> [Vec<String>; 1] {
        [["sh", "-c", script].map(str::to_owned).to_vec()]
    }

    #[tokio::test]
    async fn answers_among_other_lines_are_heard() {
        let seen = r#"muster-probe {"seen":{"node":"n1","allocation":7,"ranks":[{"rank":0,"world_size":1,"gpus":null,"visible":null,"memlock_bytes":null,"master":"n1"}],"device_files":[],"gpu_users":null,"shared_memory":{"Ok":1},"rdma_devices":[],"listens":9}}"#;
        let script = format!(
            r#"printf loading; echo '{seen}'
            while read -r line; do case $line in
              *reach*) echo 'muster-probe {{"reached":{{"node":"n1","error":"no route"}}}}';;
              *) echo "muster-probe {{\"clock\":{{\"node\":\"n1\",\"unix_nanos\":$(date +%s%N)}}}}";;
            esac; done"#
        );
        let driven = drive(&words(&script), 1, &[0], &[]).await;
        assert_eq!(driven.seen.len(), 1);
        assert_eq!(driven.reached, [("n1".to_owned(), Some("no route".to_owned()))]);
        let [bound] = driven.clocks.as_slice() else { panic!("{driven:?}") };
        // Both sides read the same clock.
        assert!(bound.low_nanos <= 0 && bound.high_nanos >= 0, "{bound:?}");
        assert_eq!(driven.why, None);
    }

    #[tokio::test]
    async fn a_rank_that_was_not_seen_is_looked_for_again() {
        let seen = |ranks: &str| {
            format!(
                r#"muster-probe {{"seen":{{"node":"n1","allocation":7,"ranks":[{ranks}],"device_files":[],"gpu_users":null,"shared_memory":{{"Ok":1}},"rdma_devices":[],"listens":null}}}}"#
            )
        };
        let rank = r#"{"rank":0,"world_size":1,"gpus":null,"visible":null,"memlock_bytes":null,"master":null}"#;
        let script = format!(
            "echo '{}'; read -r line; case $line in *look*) echo '{}';; esac",
            seen(""),
            seen(rank)
        );
        let driven = drive(&words(&script), 1, &[0], &[]).await;
        let ranks: Vec<u32> =
            driven.seen.iter().flat_map(|seen| &seen.ranks).map(|one| one.rank).collect();
        assert_eq!((driven.seen.len(), ranks), (1, vec![0]));
    }

    #[tokio::test]
    async fn probes_of_one_node_are_looked_at_together() {
        let seen = |ranks: &str| {
            format!(
                r#"muster-probe {{"seen":{{"node":"n1","allocation":null,"ranks":[{ranks}],"device_files":[],"gpu_users":null,"shared_memory":{{"Ok":1}},"rdma_devices":[],"listens":null}}}}"#
            )
        };
        let rank = |rank: u32| {
            format!(
                r#"{{"rank":{rank},"world_size":2,"gpus":null,"visible":null,"memlock_bytes":null,"master":null}}"#
            )
        };
        let probe = |first: &str, second: &str| {
            let script = format!("echo '{}'; read -r line; echo '{}'", seen(first), seen(second));
            ["sh", "-c", &script].map(str::to_owned).to_vec()
        };
        // Rank 1 starts late.
        let starts = [probe(&rank(0), &rank(0)), probe("", &rank(1))];
        let driven = drive(&starts, 2, &[0, 1], &[]).await;
        let mut ranks: Vec<u32> =
            driven.seen.iter().flat_map(|seen| &seen.ranks).map(|one| one.rank).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, [0, 1]);
    }

    #[tokio::test]
    async fn a_program_that_does_not_start_them_says_why() {
        let driven =
            drive(&words("echo 'srun: error: no such job' >&2; exit 1"), 2, &[], &[]).await;
        assert!(driven.seen.is_empty());
        assert_eq!(driven.why.as_deref(), Some("srun: error: no such job"));
        assert!(!driven.is_late);
        assert!(
            drive(&[vec!["muster-no-such-program".to_owned()]], 1, &[], &[]).await.why.is_some()
        );
    }
}
