//! `muster __probe` of a rank in a container: the probe runs on this machine, and has a shell in the
//! container look, through the program that opens one there.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};
use muster_kubernetes::probe::{self, ProbedRank};
use muster_model::verify::{ProbeAnswer, ProbeQuestion};

use super::print_answer;

/// Digits of the time in nanoseconds, until the year 2286.
const DIGITS: usize = 19;

/// Rank to probe, and how to run a program in its container.
#[derive(Debug, clap::Args)]
pub struct ContainerArgs {
    /// Rank that runs in the container
    #[arg(long, value_name = "N", requires = "node", requires = "command")]
    rank: Option<u32>,
    /// GPUs that the container requests, of a vendor that its environment names
    #[arg(long, value_name = "N")]
    gpus: Option<u32>,
    /// Thousandths of its one GPU that the container has a share of
    #[arg(long, value_name = "N")]
    gpu_share_millis: Option<u32>,
    /// Node of the container
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Program that runs its further arguments in the container
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl ContainerArgs {
    /// Returns true if a container is named.
    pub fn is_given(&self) -> bool {
        self.rank.is_some()
    }
}

/// Shell in a container, which answers questions by lines.
struct ContainerShell {
    child: Child,
    stdin: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

/// Runs the probe until its stdin is closed; returns its exit code.
pub fn run(args: &ContainerArgs) -> Result<u8> {
    let rank = ProbedRank {
        rank: args.rank.unwrap_or_default(),
        gpus: args.gpus,
        gpu_share_millis: args.gpu_share_millis,
        node: args.node.clone().unwrap_or_default(),
    };
    let mut shell = ContainerShell::start(&args.command)?;
    let Some(lines) = shell.look()? else {
        // What it says about that is on stderr.
        return Ok(u8::from(!shell.child.wait()?.success()));
    };
    let look = |lines: &[String]| ProbeAnswer::Seen(Box::new(probe::observation(&rank, lines)));
    print_answer(&look(&lines))?;
    for line in std::io::stdin().lock().lines() {
        let line = line.context("cannot read questions from stdin")?;
        let answer = match serde_json::from_str(&line) {
            Ok(ProbeQuestion::Look) => {
                writeln!(shell.stdin, "look")?;
                shell.look()?.map(|lines| look(&lines))
            }
            Ok(ProbeQuestion::Clock) => shell
                .clock()?
                .map(|unix_nanos| ProbeAnswer::Clock { node: rank.node.clone(), unix_nanos }),
            // Nothing listens in a container for a probe.
            Ok(ProbeQuestion::Reach { .. }) | Err(_) => None,
        };
        answer.as_ref().map(print_answer).transpose()?;
    }
    drop(shell.stdin);
    shell.child.wait()?;
    Ok(0)
}

impl ContainerShell {
    fn start(command: &[String]) -> Result<Self> {
        let (program, args) = command.split_first().context("a container needs a command")?;
        let mut child = Command::new(program)
            .args(args)
            .args(["env", probe::MARK, "sh", "-c", probe::SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {program}"))?;
        let stdin = child.stdin.take().context("its stdin is a pipe")?;
        let stdout = child.stdout.take().context("its stdout is a pipe")?;
        Ok(Self { child, stdin, lines: BufReader::new(stdout).lines() })
    }

    /// Returns the lines of one look; `None` if the shell has ended.
    fn look(&mut self) -> Result<Option<Vec<String>>> {
        let mut look = Vec::new();
        for line in &mut self.lines {
            match line? {
                line if line == probe::DONE => return Ok(Some(look)),
                line => look.push(line),
            }
        }
        Ok(None)
    }

    /// Returns the time in nanoseconds; `None` where the container's `date` has only seconds.
    fn clock(&mut self) -> Result<Option<i64>> {
        writeln!(self.stdin, "clock")?;
        let line = self.lines.next().transpose()?.unwrap_or_default();
        // Seconds have 10 digits: `date` of musl leaves out `%N`.
        let nanos = line.strip_prefix("clock ").filter(|nanos| nanos.len() == DIGITS);
        Ok(nanos.and_then(|nanos| nanos.parse().ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This machine is the container here: the script sees all of its processes.
    #[test]
    fn a_shell_looks_again_and_tells_the_time() {
        let mut rank = Command::new("sh")
            .args(["-c", "read -r wait"])
            .envs([("MUSTER_TASK", "7"), ("WORLD_SIZE", "8")])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut shell = ContainerShell::start(&["env".to_owned()]).unwrap();
        let probed =
            ProbedRank { rank: 7, gpus: None, gpu_share_millis: None, node: "here".to_owned() };
        let mut is_seen = false;
        // A process has its variables once it has started its program.
        for _ in 0..100 {
            let lines = shell.look().unwrap().expect("the shell goes on");
            let seen = probe::observation(&probed, &lines);
            assert!(seen.shared_memory.is_ok(), "{:?}", seen.shared_memory);
            is_seen = seen.ranks.iter().any(|rank| rank.world_size == Some(8));
            if is_seen {
                break;
            }
            writeln!(shell.stdin, "look").unwrap();
        }
        assert!(is_seen);
        writeln!(shell.stdin, "look").unwrap();
        assert!(shell.look().unwrap().is_some());
        let away = shell.clock().unwrap().unwrap().abs_diff(super::super::probe::unix_nanos());
        assert!(away < 60_000_000_000, "{away}");
        drop(shell.stdin);
        assert!(shell.child.wait().unwrap().success());
        drop(rank.stdin.take());
        rank.wait().unwrap();
    }

    #[test]
    fn a_command_without_a_container_fails() {
        let words = ["sh", "-c", "echo no such pod >&2; exit 1"].map(str::to_owned).to_vec();
        let args = ContainerArgs {
            rank: Some(0),
            gpus: None,
            gpu_share_millis: None,
            node: None,
            command: words,
        };
        assert_eq!(run(&args).unwrap(), 1);
    }
}
