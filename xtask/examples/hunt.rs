//! Plays stories until one breaks, then every scenario, and prints what noticed anything, a line
//! each: what `cargo xtask mutants` runs with one deliberate bug switched on. An example and not
//! part of xtask, so that xtask links no room. It must not know which bug is on.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use muster_sim::{scenario, storm};

/// A story takes milliseconds, a scenario less: what takes this long goes round in circles.
const LIMIT: Duration = Duration::from_secs(15);
/// So many of them, and the rest is left: they cannot be stopped and share the machine with what
/// follows.
const MOST_ENDLESS: usize = 3;

fn main() -> Result<ExitCode> {
    set_hook(Box::new(|_| {}));
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [seeds, folder] = &words[..] else { anyhow::bail!("usage: hunt SEEDS FOLDER") };
    let mut endless = 0;
    // 1. The first story that breaks.
    for seed in 0..seeds.parse::<u64>().context("SEEDS is a number")? {
        let what =
            within_limit(move || storm::play(seed, None, false).err().map(|broken| broken.what));
        if let Some(what) = what {
            endless += usize::from(what == ENDLESS);
            println!("story\t{seed}\t{}", what.replace(['\n', '\t'], " "));
            break;
        }
    }
    // 2. Every scenario that is not as written.
    for path in scripts(Path::new(folder))? {
        let name = path.strip_prefix(folder)?.with_extension("").display().to_string();
        let text = fs::read_to_string(&path)?;
        let noticed = within_limit(move || match scenario::play(&text, "a scenario") {
            Ok(played) if played.mismatches.is_empty() => None,
            Ok(_) => Some("it prints otherwise".to_owned()),
            Err(mistake) => Some(mistake.message),
        });
        if let Some(what) = noticed {
            endless += usize::from(what == ENDLESS);
            println!("scenario\t{name}\t{}", what.replace(['\n', '\t'], " "));
        }
        if endless >= MOST_ENDLESS {
            println!("left\tthe rest, after {endless} that do not end");
            break;
        }
    }
    // What goes round in circles ends with the process.
    std::process::exit(0)
}

const ENDLESS: &str = "it does not end";

/// What a play noticed, if it ends at all; a panic is a notice.
fn within_limit(play: impl FnOnce() -> Option<String> + Send + 'static) -> Option<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let noticed =
            catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|_| Some("it panics".to_owned()));
        // Whoever waited may have gone on.
        let _ = sender.send(noticed);
    });
    match receiver.recv_timeout(LIMIT) {
        Ok(noticed) => noticed,
        Err(RecvTimeoutError::Timeout) => Some(ENDLESS.to_owned()),
        Err(RecvTimeoutError::Disconnected) => Some("it panics".to_owned()),
    }
}

/// All scripts of a folder, by path.
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
