//! `muster serve`: the daemon, in the foreground or (hidden) as the background daemon that `run`
//! starts.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use muster_daemon::{
    Declared, Mode, Paths, ServeError, ServeOptions, Settings, VirtualGpus, accept_older_state,
    serve,
};
use muster_model::{Bytes, Span};
use muster_spec::quantity::{parse_bytes, parse_span};
use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdout};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::exit::Failure;

/// Run the daemon in the foreground
///
/// `muster run` starts one by itself where none is running. Ctrl-C and SIGTERM stop it; jobs that
/// run go on, and the next daemon finds them. With --system, as root, all users of the machine
/// share it: each job runs as its submitter. The daemon that another command starts has the
/// settings of the last `muster serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Serve all users of this machine (as root)
    #[arg(long)]
    system: bool,
    /// Have this many GPUs that do not exist, and none that do: 8, 8:h100, or
    /// 2:a100,7:a100-1g.10gb. Kept for later starts; 0 takes it back
    #[arg(long, value_name = "N[:MODEL],..")]
    virtual_gpus: Option<VirtualGpus>,
    /// Queue file; without one there is one queue without limits
    #[arg(long, value_name = "FILE")]
    queues: Option<PathBuf>,
    /// Time limit of jobs that name none, where the queue file names none; without one they are
    /// endless
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    default_time: Option<Span>,
    /// Keep ended jobs and their logs this long; 30d by default
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    keep: Option<Span>,
    /// Keep at most this many ended jobs, whatever their age; 100000 by default
    #[arg(long, value_name = "N")]
    keep_jobs: Option<u64>,
    /// Keep at most this much of each task's output: its beginning and its end; 64MiB by default, 0
    /// for no limit
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    log_limit: Option<Bytes>,
    /// Let each task have at most this many processes and threads at a time; by default 16384, or a
    /// quarter of what the kernel allows if that is less; 0 for no limit
    #[arg(long, value_name = "N")]
    max_processes: Option<u32>,
    /// After a restore of an older database: accept it as the state, and exit. New jobs get numbers
    /// above all that are on disk; running tasks that the database does not know are left alone
    #[arg(long, conflicts_with_all = ["background", "virtual_gpus", "queues"])]
    accept_older_state: bool,
    /// Start a daemon of your own although this machine has a shared one: both then give the same
    /// devices away
    #[arg(long, conflicts_with = "system")]
    beside_shared: bool,
    /// Detach, log to a file, and write a byte to stdout when listening
    #[arg(long, hide = true)]
    background: bool,
    /// Have the settings of the last `muster serve`: for daemons that another command starts
    #[arg(long, hide = true, conflicts_with_all = ["default_time", "keep", "keep_jobs", "log_limit", "max_processes"])]
    as_last_time: bool,
}

/// Runs the daemon until it is stopped.
pub fn run(args: &Args) -> Result<u8> {
    if args.accept_older_state {
        return accept_older(args);
    }
    match args.background {
        false => {
            log_to(std::io::stderr)?;
            start(args, &paths(args)?, None)?;
        }
        true => {
            // The one who started us reads our stdout: a byte when we listen, else why we do not.
            let answer: OwnedFd =
                rustix::io::dup(std::io::stdout()).context("cannot keep the way back")?;
            if let Err(error) = background(args, &answer) {
                let _ = File::from(answer).write_all(told(&error).as_bytes());
                return Err(error);
            }
        }
    }
    Ok(0)
}

/// Accepts the state as it is and says what that means.
fn accept_older(args: &Args) -> Result<u8> {
    let Some(older) = accept_older_state(&paths(args)?).map_err(failure)? else {
        eprintln!("nothing to accept: the state is not older than its task directories");
        return Ok(0);
    };
    eprintln!("accepted; new jobs are numbered from {}", older.first_job);
    for task in &older.running {
        eprintln!("left alone, no daemon ends it: {task}");
    }
    eprintln!("hint: start the daemon now");
    Ok(0)
}

fn background(args: &Args, answer: &OwnedFd) -> Result<()> {
    // A new session: neither Ctrl-C nor the end of the terminal reaches us.
    setsid().context("cannot leave the terminal's session")?;
    let paths = paths(args)?;
    paths.prepare().map_err(|error| Failure::new(chain(&error)).hint(error.hint()))?;
    redirect(&paths.state_dir.join("daemon.log"))?;
    log_to(std::io::stderr)?;
    let ready = answer.try_clone().context("cannot keep the way back")?;
    start(args, &paths, Some(ready))
}

fn paths(args: &Args) -> Result<Paths> {
    let paths = if args.system { Paths::system_to_serve() } else { Paths::personal() };
    Ok(paths.map_err(|error| Failure::new(error.to_string()).hint(error.hint()))?)
}

fn start(args: &Args, paths: &Paths, ready: Option<OwnedFd>) -> Result<()> {
    let declared = Declared {
        default_time: args.default_time,
        keep: args.keep,
        keep_jobs: args.keep_jobs,
        log_limit: args.log_limit,
        max_processes: args.max_processes,
    };
    let options = ServeOptions {
        settings: if args.as_last_time {
            Settings::OfLastServe
        } else {
            Settings::Exactly(declared)
        },
        mode: if args.system { Mode::System } else { Mode::Personal },
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
        // It says by itself where and what, over several lines.
        ServeError::Queues(diagnostics) => Failure::from(*diagnostics),
        error => Failure::new(chain(&error)),
    };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// An error with its causes, each once.
fn chain(error: &dyn std::error::Error) -> String {
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

/// Message and hints, a line each.
fn told(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Failure>() {
        Some(failure) => [&[failure.to_string()], failure.hints.as_slice()].concat().join("\n"),
        None => format!("{error:#}"),
    }
}

/// Stdout and stderr go to a file that only its owner reads.
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

fn log_to<W>(writer: W) -> Result<()>
where
    W: for<'a> tracing_subscriber::fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let wanted = std::env::var("MUSTER_LOG").unwrap_or_else(|_| "info".to_owned());
    let targets = Targets::from_str(&wanted).map_err(|error| {
        Failure::usage(format!("MUSTER_LOG is `{wanted}`: {error}"))
            .hint("such as info, or info,muster_daemon=debug")
    })?;
    let lines =
        tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false).with_target(false);
    tracing_subscriber::registry().with(targets).with(lines).init();
    Ok(())
}
