//! Runs the simulation until a seed fails, then every scenario, and prints a line per failure:
//! `cargo xtask mutants` runs this with one mutant enabled. An example rather than a part of xtask,
//! so that xtask links no other crate. It does not depend on the enabled mutant.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use muster_testkit::{dst, scenario};

/// CPU time after which a run counts as endless: a simulation run takes milliseconds, a scenario
/// less. Not time on the clock, which passes without the run on a busy machine.
const LIMIT: Duration = Duration::from_secs(15);
/// Time between two looks at the CPU time of a run.
const LOOK: Duration = Duration::from_secs(1);
/// Number of endless runs after which the rest is skipped: their threads cannot be stopped and slow
/// down the following runs.
const MAX_ENDLESS: usize = 3;

fn main() -> Result<ExitCode> {
    set_hook(Box::new(|_| {}));
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [seeds, folder] = &words[..] else { anyhow::bail!("usage: hunt SEEDS FOLDER") };
    let mut endless = 0;
    // 1. Find the first seed that fails.
    for seed in 0..seeds.parse::<u64>().context("SEEDS is a number")? {
        let what =
            within_limit(move || dst::play(seed, None, false).err().map(|broken| broken.what));
        if let Some(what) = what {
            endless += usize::from(what == ENDLESS);
            println!("simulation\t{seed}\t{}", what.replace(['\n', '\t'], " "));
            break;
        }
    }
    // 2. Find every scenario that fails.
    for path in scripts(Path::new(folder))? {
        let name = path.strip_prefix(folder)?.with_extension("").display().to_string();
        let text = fs::read_to_string(&path)?;
        let failure = within_limit(move || match scenario::play(&text, "a scenario") {
            Ok(played) if played.mismatches.is_empty() => None,
            Ok(_) => Some("its output differs".to_owned()),
            Err(mistake) => Some(mistake.message),
        });
        if let Some(what) = failure {
            endless += usize::from(what == ENDLESS);
            println!("scenario\t{name}\t{}", what.replace(['\n', '\t'], " "));
        }
        if endless >= MAX_ENDLESS {
            println!("left\tthe rest, after {endless} endless runs");
            break;
        }
    }
    // Endless threads end with the process.
    std::process::exit(0)
}

const ENDLESS: &str = "it does not terminate";

/// Returns the failure of a run; panics and endless runs are failures, too.
fn within_limit(play: impl FnOnce() -> Option<String> + Send + 'static) -> Option<String> {
    let (sender, receiver) = channel();
    let (starts, started) = channel();
    thread::spawn(move || {
        // The receiver lives until the thread is known.
        let _ = starts.send(fs::read_link("/proc/thread-self"));
        let failure =
            catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|_| Some("it panics".to_owned()));
        // The receiver may have timed out.
        let _ = sender.send(failure);
    });
    let thread = started.recv().expect("the thread sends first").expect("/proc is mounted");
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(failure) => return failure,
            Err(RecvTimeoutError::Timeout) if cpu_time(&thread) < LIMIT => {}
            Err(RecvTimeoutError::Timeout) => return Some(ENDLESS.to_owned()),
            Err(RecvTimeoutError::Disconnected) => return Some("it panics".to_owned()),
        }
    }
}

/// Returns the CPU time of a thread, by its path below `/proc`; 0 once it has ended.
fn cpu_time(thread: &Path) -> Duration {
    let stat = fs::read_to_string(Path::new("/proc").join(thread).join("schedstat"));
    let nanos = stat.ok().and_then(|stat| stat.split(' ').next()?.parse().ok());
    nanos.map_or(Duration::ZERO, Duration::from_nanos)
}

/// Returns all scripts of a folder, sorted by path.
fn scripts(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(scripts(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
