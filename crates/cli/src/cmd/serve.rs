//! `muster serve`: runs the daemon in the foreground, or (hidden) in the background when `run`
//! starts it.

mod program;
mod service;
mod unit;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use muster_daemon::{
    DaemonMode, DaemonSettings, Paths, ServeError, ServeOptions, SettingsSource, VirtualGpus,
    accept_older_state, serve,
};
use muster_model::{Bytes, Span};
use muster_spec::quantity::{parse_bytes, parse_span};
use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdout};

use crate::exit::Failure;
use crate::logging::log_to;

/// Run the daemon in the foreground
///
/// `muster run` starts a daemon automatically if none is running, with the settings of the last
/// `muster serve`. Ctrl-C and SIGTERM stop the daemon; running jobs keep running, and the next
/// daemon finds them. With --system, as root, all users of the machine share the daemon, and each
/// job runs as the user who submitted it.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// Serve all users of this machine (as root)
    #[arg(long)]
    system: bool,
    /// Manage simulated GPUs in place of the machine's own: 8, 8:h100, or 2:a100,7:a100-1g.10gb.
    /// Remembered for later starts; 0 reverts it
    #[arg(long, value_name = "N[:MODEL],..")]
    virtual_gpus: Option<VirtualGpus>,
    /// Queue file; by default there is one queue without limits
    #[arg(long, value_name = "FILE")]
    queues: Option<PathBuf>,
    /// Default time limit of jobs, unless the queue file sets one; by default unlimited
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    default_time: Option<Span>,
    /// Keep ended jobs and their logs for this time; by default 30d
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    keep: Option<Span>,
    /// Keep at most this many ended jobs, regardless of age; by default 100000
    #[arg(long, value_name = "N")]
    keep_jobs: Option<u64>,
    /// Keep at most this much of each task's output, its beginning and its end; by default 64MiB; 0
    /// for no limit
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    log_limit: Option<Bytes>,
    /// Maximum number of processes and threads of each task; by default 16384, or a quarter of the
    /// kernel's limit if that is less; 0 for no limit
    #[arg(long, value_name = "N")]
    max_processes: Option<u32>,
    /// After restoring an older database: accept it as the state, and exit. New jobs get numbers
    /// above all that are on disk; running tasks that are not in the database are not touched
    #[arg(long, conflicts_with_all = ["background", "virtual_gpus", "queues"])]
    accept_older_state: bool,
    /// Start your own daemon although this machine has a shared one; both then allocate the same
    /// devices
    #[arg(long, conflicts_with = "system")]
    beside_shared: bool,
    /// Detach, log to a file, and write a byte to stdout when listening
    #[arg(long, hide = true)]
    background: bool,
    /// Use the settings of the last `muster serve`: for daemons that another command starts
    #[arg(long, hide = true, conflicts_with_all = ["default_time", "keep", "keep_jobs", "log_limit", "max_processes"])]
    as_last_time: bool,
    #[command(flatten)]
    service: service::ServiceArgs,
}

/// Runs the daemon until it is stopped.
pub fn run(args: &ServeArgs) -> Result<u8> {
    if args.service.is_given() {
        args.service.run(&args.unit_options()?)?;
        return Ok(0);
    }
    if args.accept_older_state {
        return accept_older(args);
    }
    if args.background {
        // The parent process reads our stdout: one byte once we listen, else an error message.
        let answer: OwnedFd =
            rustix::io::dup(std::io::stdout()).context("cannot duplicate stdout")?;
        if let Err(error) = background(args, &answer) {
            let _ = File::from(answer).write_all(error_lines(&error).as_bytes());
            return Err(error);
        }
    } else {
        log_to(std::io::stderr)?;
        start(args, &paths(args)?, None)?;
    }
    Ok(0)
}

impl ServeArgs {
    /// Returns the options of the daemon as words that are read as the same values.
    fn unit_options(&self) -> Result<Vec<String>> {
        let queues = self.queues.as_deref().map(program::absolute).transpose()?;
        let given = [
            ("--virtual-gpus", self.virtual_gpus.as_ref().map(virtual_gpus)),
            ("--queues", queues),
            ("--default-time", self.default_time.map(exact_span)),
            ("--keep", self.keep.map(exact_span)),
            ("--keep-jobs", self.keep_jobs.map(|jobs| jobs.to_string())),
            ("--log-limit", self.log_limit.map(exact_bytes)),
            ("--max-processes", self.max_processes.map(|processes| processes.to_string())),
        ];
        let given = given.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        Ok(given.flatten().collect())
    }
}

fn virtual_gpus(gpus: &VirtualGpus) -> String {
    let kinds = gpus.kinds.iter().map(|(count, model)| match model {
        Some(model) => format!("{count}:{model}"),
        None => count.to_string(),
    });
    kinds.collect::<Vec<_>>().join(",")
}

/// Returns a time without rounding, unlike the text for people.
fn exact_span(span: Span) -> String {
    let (number, unit) = exact(
        span.0,
        &[(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")],
    );
    format!("{number}{unit}")
}

/// Returns a size without rounding.
fn exact_bytes(bytes: Bytes) -> String {
    let (number, unit) =
        exact(bytes.0, &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")]);
    format!("{number}{unit}")
}

/// Returns a number in the largest unit of which it is a multiple.
fn exact(number: u64, units: &[(u64, &'static str)]) -> (u64, &'static str) {
    let fits = |(size, _): &&(u64, &str)| number > 0 && number.is_multiple_of(*size);
    let (size, unit) = units.iter().find(fits).unwrap_or(&units[units.len() - 1]);
    (number / size, unit)
}

/// Accepts an older state, and prints the consequences.
fn accept_older(args: &ServeArgs) -> Result<u8> {
    let Some(older) = accept_older_state(&paths(args)?).map_err(failure)? else {
        eprintln!("nothing to accept: the state is not older than its task directories");
        return Ok(0);
    };
    eprintln!("accepted; new jobs are numbered from {}", older.first_job);
    for task in &older.running {
        eprintln!("not managed by any daemon, left running: {task}");
    }
    eprintln!("hint: start the daemon now");
    Ok(0)
}

fn background(args: &ServeArgs, answer: &OwnedFd) -> Result<()> {
    // A new session, so that Ctrl-C and the end of the terminal do not signal the daemon.
    setsid().context("cannot leave the terminal's session")?;
    let paths = paths(args)?;
    paths.prepare().map_err(|error| Failure::new(with_causes(&error)).hint(error.hint()))?;
    redirect(&paths.state_dir.join("daemon.log"))?;
    log_to(std::io::stderr)?;
    let ready = answer.try_clone().context("cannot duplicate stdout")?;
    start(args, &paths, Some(ready))
}

fn paths(args: &ServeArgs) -> Result<Paths> {
    let paths = if args.system { Paths::system_to_serve() } else { Paths::personal() };
    Ok(paths.map_err(|error| Failure::new(error.to_string()).hint(error.hint()))?)
}

fn start(args: &ServeArgs, paths: &Paths, ready: Option<OwnedFd>) -> Result<()> {
    let declared = DaemonSettings {
        default_time: args.default_time,
        keep: args.keep,
        keep_jobs: args.keep_jobs,
        log_limit: args.log_limit,
        max_processes: args.max_processes,
    };
    let options = ServeOptions {
        settings: if args.as_last_time {
            SettingsSource::LastServe
        } else {
            SettingsSource::Exactly(declared)
        },
        mode: if args.system { DaemonMode::System } else { DaemonMode::Personal },
        virtual_gpus: args.virtual_gpus.clone(),
        queues_file: args.queues.clone(),
        beside_shared: args.beside_shared,
        ready,
        ..ServeOptions::personal(paths.clone())
    };
    Ok(serve(options).map_err(failure)?)
}

fn failure(error: ServeError) -> Failure {
    let hint = error.hint();
    let failure = match error {
        // The diagnostics are complete by themselves, over several lines.
        ServeError::Queues(diagnostics) => Failure::from(*diagnostics),
        error => Failure::new(with_causes(&error)),
    };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Returns an error with its causes, each once.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = next.source();
    }
    text
}

/// Returns the message and the hints, one per line.
fn error_lines(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Failure>() {
        Some(failure) => [&[failure.to_string()], failure.hints.as_slice()].concat().join("\n"),
        None => format!("{error:#}"),
    }
}

/// Redirects stdout and stderr to a file that only its owner can read.
fn redirect(path: &Path) -> Result<()> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    dup2_stdout(&log).context("cannot redirect stdout")?;
    dup2_stderr(&log).context("cannot redirect stderr")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    #[test]
    fn options_of_the_unit_are_read_as_the_same_values() {
        let line = "serve --system --install --virtual-gpus 2:a100,7:a100-1g.10gb --queues / --default-time 12h \
                    --keep 30d --keep-jobs 7 --log-limit 1536KiB --max-processes 0";
        let args = Line::parse_from(line.split_whitespace()).args;
        assert!(args.service.is_given());
        let words = args.unit_options().unwrap().join(" ");
        let expected = line.trim_start_matches("serve --system --install ");
        assert_eq!(words, expected.split_whitespace().collect::<Vec<_>>().join(" "));
    }

    #[test]
    fn times_and_sizes_lose_nothing() {
        for text in ["90s", "90m", "36h", "250ms", "1d", "0s"] {
            let span = parse_span(text).unwrap();
            assert_eq!(parse_span(&exact_span(span)).unwrap(), span, "{text}");
        }
        for text in ["0B", "1B", "1000KiB", "1025MiB", "3TiB"] {
            let bytes = parse_bytes(text).unwrap();
            assert_eq!(parse_bytes(&exact_bytes(bytes)).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn the_service_needs_system_and_a_dry_run_needs_the_service() {
        for wrong in ["--install", "--system --dry-run", "--system --install --uninstall"] {
            assert!(
                Line::try_parse_from(["serve"].into_iter().chain(wrong.split(' '))).is_err(),
                "{wrong}"
            );
        }
    }
}
