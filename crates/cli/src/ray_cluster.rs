//! State of the Ray cluster of a running job, read by a program beside its rank 0.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use muster_ray::{ClusterStatus, STATUS, WaitingPart, inside};
use serde::Serialize;

use crate::app::App;
use crate::exit::Failure;

/// State of a cluster, with the reasons why parts of its program wait.
#[derive(Debug, Serialize)]
pub struct RayReport {
    #[serde(flatten)]
    pub status: ClusterStatus,
    /// Parts of the program that wait, with the reason.
    pub waiting: Vec<WaitingPart>,
}

impl RayReport {
    /// Reads the state of the cluster of a job.
    ///
    /// # Errors
    /// The job does not run, or its cluster does not answer.
    pub fn read(app: &App, job: &str) -> Result<Self> {
        let status = ask(app, job, STATUS, ClusterStatus::parse)?;
        let waiting = status.waiting();
        Ok(Self { status, waiting })
    }

    /// Describes the state in lines, of which the first begins with the name of the job.
    pub fn text(&self, job: &str) -> String {
        let count = self.status.nodes.len();
        let noun = if count == 1 { "node" } else { "nodes" };
        let mut text = format!("{job}: {count} Ray {noun}; {}\n", self.status.in_use());
        if self.waiting.is_empty() {
            text.push_str("nothing waits\n");
        }
        for part in &self.waiting {
            let _ = writeln!(text, "  {}", part.text);
            if let Some(hint) = &part.hint {
                let _ = writeln!(text, "    hint: {hint}");
            }
        }
        text
    }
}

/// Runs a program in Python on the cluster of a job, and reads its answer.
///
/// # Errors
/// The job does not run, or its cluster does not answer.
pub fn ask<T>(app: &App, job: &str, program: &str, parse: fn(&str) -> Option<T>) -> Result<T> {
    let mut attach = Command::new(std::env::current_exe().context("cannot find this program")?);
    if let Some(socket) = &app.global.socket {
        attach.arg("--socket").arg(socket);
    }
    if let Some(on) = &app.global.on {
        attach.arg(format!("--on={on}"));
    }
    let words = inside(&["python", "-c", program].map(str::to_owned));
    attach.args(["attach", job, "--"]).args(words).stdin(Stdio::null());
    let output = attach.output().context("cannot run this program")?;
    let answer = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(no_answer(job, &answer, &said).into());
    }
    let unread = || Failure::new(format!("the answer of Ray cannot be read:\n{}", answer.trim()));
    Ok(parse(&answer).ok_or_else(unread)?)
}

/// Returns the error for a cluster that did not answer. What `attach` said comes first: it knows whether the
/// job runs. Of what a program said the last line counts.
fn no_answer(job: &str, answer: &str, said: &str) -> Failure {
    let mut lines = said.lines().filter(|line| !line.trim().is_empty());
    if let Some(error) = lines.clone().find_map(|line| line.strip_prefix("error: ")) {
        let failure = Failure::new(error);
        return match lines.find_map(|line| line.trim().strip_prefix("hint: ")) {
            Some(hint) => failure.hint(hint),
            None => failure,
        };
    }
    let last = lines.next_back().or_else(|| answer.lines().rfind(|line| !line.trim().is_empty()));
    Failure::new(format!(
        "the Ray cluster of {job} did not answer: {}",
        last.unwrap_or("no output")
    ))
    .hint("a job of kind `ray` has one once all its nodes are up: see `muster logs`")
}
