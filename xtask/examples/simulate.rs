//! Plays stories under faults: `simulate --seeds N [--from N] [--jobs N] [--all]`, or `--seed N
//! [--rounds N] [--trace]`. It stops at the first that breaks, or with `--all` tells of each. An
//! example and not part of xtask, so that xtask itself links no room; `cargo xtask simulate` builds
//! it for speed and runs it.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use muster_sim::storm::{Broken, Cover, play, shrink};

/// Progress is told every so many seeds.
const TELL_EVERY: u64 = 500;

#[derive(Default)]
struct Asked {
    seeds: Option<u64>,
    seed: Option<u64>,
    from: u64,
    jobs: u64,
    rounds: Option<u64>,
    trace: bool,
    all: bool,
}

fn main() -> ExitCode {
    match asked().and_then(|asked| run(&asked)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn asked() -> Result<Asked> {
    let mut asked = Asked { jobs: 1, ..Asked::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64> {
            let text = words.next().with_context(|| format!("{word} wants a number"))?;
            text.parse().with_context(|| format!("{word} wants a number, not `{text}`"))
        };
        match word.as_str() {
            "--seeds" => asked.seeds = Some(number()?),
            "--seed" => asked.seed = Some(number()?),
            "--from" => asked.from = number()?,
            "--jobs" => asked.jobs = number()?.clamp(1, 64),
            "--rounds" => asked.rounds = Some(number()?),
            "--trace" => asked.trace = true,
            "--all" => asked.all = true,
            _ => bail!(
                "unknown argument {word}\nhint: --seeds N [--from N] [--jobs N] [--all], or --seed N [--rounds N] [--trace]"
            ),
        }
    }
    Ok(asked)
}

fn run(asked: &Asked) -> Result<ExitCode> {
    match (asked.seed, asked.seeds) {
        (Some(seed), None) => Ok(one(seed, asked)),
        (None, Some(seeds)) => Ok(many(seeds, asked)),
        _ => bail!("say --seeds N, or --seed N"),
    }
}

/// One story, with its transcript when it is asked for.
fn one(seed: u64, asked: &Asked) -> ExitCode {
    let (lines, told, code) = match play(seed, asked.rounds, asked.trace) {
        Ok(played) => {
            let told = format!(
                "seed {seed}: {} rounds, transcript {:016x}\n{}",
                played.rounds, played.hash, played.cover
            );
            (played.lines, told, ExitCode::SUCCESS)
        }
        Err(broken) => (broken.lines.clone(), broken.to_string(), ExitCode::FAILURE),
    };
    for line in lines {
        println!("{line}");
    }
    println!("{told}");
    code
}

/// Many stories, shared out over threads; stops at the first that breaks, unless all are asked for.
fn many(seeds: u64, asked: &Asked) -> ExitCode {
    let start = Instant::now();
    let (next, done) = (AtomicU64::new(asked.from), AtomicU64::new(0));
    let (end, stop) = (asked.from + seeds, AtomicBool::new(false));
    let cover = Mutex::new(Cover::default());
    let broken: Mutex<Vec<Box<Broken>>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..asked.jobs {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    match play(seed, None, false) {
                        Ok(played) => {
                            cover.lock().unwrap_or_else(PoisonError::into_inner).add(&played.cover)
                        }
                        Err(one) => {
                            stop.store(!asked.all, Ordering::Relaxed);
                            if asked.all {
                                println!("{one}");
                            }
                            broken.lock().unwrap_or_else(PoisonError::into_inner).push(one);
                        }
                    }
                    let so_far = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if so_far.is_multiple_of(TELL_EVERY) {
                        eprintln!("{so_far} seeds, {:.0} seeds/s", rate(so_far, start));
                    }
                }
            });
        }
    });
    let done = done.into_inner();
    let mut broken = broken.into_inner().unwrap_or_else(PoisonError::into_inner);
    broken.sort_by_key(|one| one.seed);
    println!("{}", cover.into_inner().unwrap_or_else(PoisonError::into_inner));
    let Some(first) = broken.into_iter().next() else {
        println!("{done} seeds from {}, {:.0} seeds/s: all hold", asked.from, rate(done, start));
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
