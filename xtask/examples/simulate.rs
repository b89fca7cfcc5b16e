//! Runs the deterministic simulation test: `simulate --seeds N [--from N] [--jobs N] [--all]`, or
//! `--seed N [--rounds N] [--trace]`. It stops at the first failure, or with `--all` prints every
//! failure. An example rather than a part of xtask, so that xtask itself links no other crate;
//! `cargo xtask simulate` builds it in release mode and runs it.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use muster_testkit::dst::{Coverage, DstFailure, play, shrink};

/// Number of seeds between two progress lines.
const PROGRESS_SEEDS: u64 = 500;

#[derive(Default)]
struct DstOptions {
    seeds: Option<u64>,
    seed: Option<u64>,
    from: u64,
    jobs: u64,
    rounds: Option<u64>,
    trace: bool,
    all: bool,
}

fn main() -> ExitCode {
    match parse_args().and_then(|options| run(&options)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse_args() -> Result<DstOptions> {
    let mut options = DstOptions { jobs: 1, ..DstOptions::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64> {
            let text = words.next().with_context(|| format!("{word} requires a number"))?;
            text.parse().with_context(|| format!("{word} requires a number, not `{text}`"))
        };
        match word.as_str() {
            "--seeds" => options.seeds = Some(number()?),
            "--seed" => options.seed = Some(number()?),
            "--from" => options.from = number()?,
            "--jobs" => options.jobs = number()?.clamp(1, 64),
            "--rounds" => options.rounds = Some(number()?),
            "--trace" => options.trace = true,
            "--all" => options.all = true,
            _ => bail!(
                "unknown argument {word}\nhint: --seeds N [--from N] [--jobs N] [--all], or --seed N [--rounds N] [--trace]"
            ),
        }
    }
    Ok(options)
}

fn run(options: &DstOptions) -> Result<ExitCode> {
    match (options.seed, options.seeds) {
        (Some(seed), None) => Ok(one(seed, options)),
        (None, Some(seeds)) => Ok(many(seeds, options)),
        _ => bail!("use either --seeds N or --seed N"),
    }
}

/// Runs one seed, and prints its transcript with `--trace`.
fn one(seed: u64, options: &DstOptions) -> ExitCode {
    let (lines, summary, code) = match play(seed, options.rounds, options.trace) {
        Ok(played) => {
            let summary = format!(
                "seed {seed}: {} rounds, transcript {:016x}\n{}",
                played.rounds, played.hash, played.coverage
            );
            (played.lines, summary, ExitCode::SUCCESS)
        }
        Err(broken) => (broken.lines.clone(), broken.to_string(), ExitCode::FAILURE),
    };
    for line in lines {
        println!("{line}");
    }
    println!("{summary}");
    code
}

/// Runs many seeds on several threads; stops at the first failure, except with `--all`.
fn many(seeds: u64, options: &DstOptions) -> ExitCode {
    let start = Instant::now();
    let next = AtomicU64::new(options.from);
    let done = AtomicU64::new(0);
    let end = options.from + seeds;
    let stop = AtomicBool::new(false);
    let coverage = Mutex::new(Coverage::default());
    let broken: Mutex<Vec<Box<DstFailure>>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    match play(seed, None, false) {
                        Ok(played) => coverage
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .add(&played.coverage),
                        Err(one) => {
                            stop.store(!options.all, Ordering::Relaxed);
                            if options.all {
                                println!("{one}");
                            }
                            broken.lock().unwrap_or_else(PoisonError::into_inner).push(one);
                        }
                    }
                    let so_far = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if so_far.is_multiple_of(PROGRESS_SEEDS) {
                        eprintln!("{so_far} seeds, {:.0} seeds/s", rate(so_far, start));
                    }
                }
            });
        }
    });
    let done = done.into_inner();
    let mut broken = broken.into_inner().unwrap_or_else(PoisonError::into_inner);
    broken.sort_by_key(|one| one.seed);
    println!("{}", coverage.into_inner().unwrap_or_else(PoisonError::into_inner));
    let Some(first) = broken.into_iter().next() else {
        println!(
            "{done} seeds from {}, {:.0} seeds/s: no failure",
            options.from,
            rate(done, start)
        );
        return ExitCode::SUCCESS;
    };
    println!("after {done} seeds: {first}");
    let least = shrink(&first).unwrap_or(first);
    println!("shortest: {least}");
    println!("hint: cargo xtask simulate --seed {} --rounds {} --trace", least.seed, least.rounds);
    ExitCode::FAILURE
}

fn rate(done: u64, start: Instant) -> f64 {
    done as f64 / start.elapsed().as_secs_f64().max(0.001)
}
