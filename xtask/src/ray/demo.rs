//! Two programs of five actors compete for eight virtual GPUs. As two jobs, one runs whole and then the other; as
//! programs on one Ray cluster, both wait for ever.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Daemon, PAUSE};

const DRIVER: &str = include_str!("driver.py");

/// Time after which a program without its fifth actor counts as one that waits for ever: an actor that fits
/// starts within a few seconds.
const FOR_EVER: Duration = Duration::from_secs(30);

/// Runs the programs in both ways, and prints what the user of each sees.
pub fn show(daemon: &Daemon) -> Result<()> {
    fs::write(daemon.path("driver.py"), DRIVER)?;
    two_jobs(daemon)?;
    one_cluster(daemon)
}

/// Returns the command of a program.
fn driver(daemon: &Daemon, name: &str, other: &str) -> String {
    let python = daemon.python.display();
    let folder = daemon.folder.path().display();
    format!("{python} driver.py {name} {folder} {other}")
}

fn has(daemon: &Daemon, name: &str, mark: &str) -> bool {
    daemon.path(&format!("{name}-{mark}")).exists()
}

/// Runs the programs as two jobs.
fn two_jobs(daemon: &Daemon) -> Result<()> {
    println!("two programs of 5 actors with a GPU each, on 8 GPUs, as two jobs:\n");
    let names = ["first", "second"];
    for name in names {
        daemon.submit(name, 5, &driver(daemon, name, ""))?;
    }
    for name in names {
        daemon.until("all actors of a job", || has(daemon, name, "5"))?;
        println!("{name} has all its actors:\n{}", daemon.muster(&["ps", "--all"])?);
        // A program that has its actors ends.
        fs::write(daemon.path(&format!("{name}-go")), "")?;
        daemon.muster(&["wait", name])?;
    }
    println!("{}", daemon.muster(&["ps", "--all"])?);
    Ok(())
}

/// Runs the programs on one cluster.
fn one_cluster(daemon: &Daemon) -> Result<()> {
    println!("the same two programs on one Ray cluster of 8 GPUs:\n");
    let [left, right] = [driver(daemon, "left", "right"), driver(daemon, "right", "left")];
    daemon.submit("shared", 8, &format!("{left} &\n{right} &\nwait"))?;
    daemon.until("four actors of each program", || {
        has(daemon, "left", "4") && has(daemon, "right", "4")
    })?;
    let start = Instant::now();
    while start.elapsed() < FOR_EVER {
        let is_fifth = has(daemon, "left", "5") || has(daemon, "right", "5");
        ensure!(!is_fifth, "a fifth actor started");
        thread::sleep(PAUSE);
    }
    let status = daemon.muster(&["ray", "status", "shared"])?;
    println!("after {} s each has 4 actors, and waits:\n{status}", FOR_EVER.as_secs());
    ensure!(
        status.contains("each hold GPUs and wait for more"),
        "muster ray status does not say so"
    );
    daemon.muster(&["cancel", "shared"])?;
    Ok(())
}
