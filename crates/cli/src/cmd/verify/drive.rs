//! Drives the probes of one job through the programs that start them, one for each component of it:
//! what goes into one reaches each of its probes, and their lines come back mixed. Every step has a
//! deadline; who does not answer in time is not waited for. It judges nothing.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use muster_doctor::job::ClockBound;
use muster_model::verify::{PROBE_MARK, ProbeAnswer, ProbeQuestion, Seen};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::probe::unix_nanos;

/// For a step of Slurm to start on every node.
const START: Duration = Duration::from_secs(30);
/// For connections, which the probes give up earlier.
const REACH: Duration = Duration::from_secs(15);
/// For one question about the time.
const CLOCK: Duration = Duration::from_secs(3);
/// For the program to end once nobody asks any more.
const END: Duration = Duration::from_secs(5);
/// Lines that wait to be looked at.
const LINES: usize = 1024;
/// Questions about the time: the fastest answer bounds it best.
const CLOCKS: usize = 3;
/// Looks before a rank counts as missing: programs are replaced, and ranks of one start come up one
/// after the other.
const LOOKS: usize = 4;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(500);

/// What the probes said.
#[derive(Debug, Default)]
pub struct Driven {
    /// What each saw.
    pub seen: Vec<Seen>,
    /// Whether each reached the port beside rank 0.
    pub reached: Vec<(String, Option<String>)>,
    /// Bounds of each node's clock.
    pub clocks: Vec<ClockBound>,
    /// Time was over before all had said what they see, and what starts them had not ended.
    pub is_late: bool,
    /// What the programs that start them complained of.
    pub why: Option<String>,
}

/// Starts the probes and asks them everything; while one of `ranks` was not seen they look again.
/// The programs that start them do not see the variables `without`.
pub async fn drive(
    starts: &[Vec<String>],
    probes: usize,
    ranks: &[u32],
    without: &[OsString],
) -> Driven {
    let mut driven = Driven::default();
    let mut asked = match Asked::start(starts, without) {
        Ok(asked) => asked,
        Err(error) => return Driven { why: Some(error.to_string()), ..driven },
    };

    // 1. What each sees, unasked.
    for answer in asked.hear(probes, START).await {
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
        for answer in asked.hear(there, START).await {
            if let (_, ProbeAnswer::Seen(seen)) = answer {
                driven.seen.retain(|old| old.node != seen.node);
                driven.seen.push(*seen);
            }
        }
    }

    // 2. The way to rank 0.
    let master =
        driven.seen.iter().flat_map(|seen| &seen.ranks).find_map(|rank| rank.master.clone());
    let port = driven.seen.iter().find_map(|seen| seen.listens);
    if let (Some(address), Some(port)) = (master, port) {
        asked.ask(&ProbeQuestion::Reach { address, port }).await;
        for answer in asked.hear(there, REACH).await {
            if let (_, ProbeAnswer::Reached { node, error }) = answer {
                driven.reached.push((node, error));
            }
        }
    }

    // 3. Clocks.
    for _ in 0..CLOCKS {
        let sent = unix_nanos();
        asked.ask(&ProbeQuestion::Clock).await;
        for (heard, answer) in asked.hear(there, CLOCK).await {
            if let ProbeAnswer::Clock { node, unix_nanos } = answer {
                bound(&mut driven.clocks, ClockBound::of(node, sent, unix_nanos, heard));
            }
        }
    }

    // 4. The end.
    driven.why = asked.end().await;
    driven
}

fn bound(clocks: &mut Vec<ClockBound>, new: ClockBound) {
    match clocks.iter_mut().find(|bound| bound.node == new.node) {
        Some(bound) => bound.narrow(&new),
        None => clocks.push(new),
    }
}

/// The programs, and the lines that go in and come out.
struct Asked {
    children: Vec<(Child, ChildStdin)>,
    lines: mpsc::Receiver<(i64, String)>,
}

impl Asked {
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
        // A program that has ended hears nothing, and says nothing either: the deadline of the
        // answer tells.
        let Ok(line) = serde_json::to_string(question) else { return };
        for (_, stdin) in &mut self.children {
            let _ = stdin.write_all(format!("{line}\n").as_bytes()).await;
            let _ = stdin.flush().await;
        }
    }

    /// So many answers, each with the instant when it came; fewer when the program ends or time is
    /// over.
    async fn hear(&mut self, count: usize, patience: Duration) -> Vec<(i64, ProbeAnswer)> {
        let deadline = Instant::now() + patience;
        let mut answers = Vec::new();
        while answers.len() < count {
            let Ok(Some((heard, line))) = timeout_at(deadline, self.lines.recv()).await else {
                break;
            };
            // Something else may have begun the line.
            let answer =
                line.split_once(PROBE_MARK).and_then(|(_, json)| serde_json::from_str(json).ok());
            answers.extend(answer.map(|answer| (heard, answer)));
        }
        answers
    }

    /// Lets the probes go; what the programs complained of.
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
                // srun takes its step with it when it is told to end, and leaves it there when it
                // is killed.
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
        // It is the same clock.
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
