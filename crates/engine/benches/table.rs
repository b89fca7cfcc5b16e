//! The table of docs/PERFORMANCE.md: `cargo xtask bench [--json] [--only NAMES] [--instructions]
//! [--quick]`.
//!
//! Every number is measured in a process of its own, so that none profits from another's memory.
//! Times are CPU time, not wall time. On a shared machine even CPU time varies, since caches are
//! shared; so each number is also given relative to a fixed piece of work measured in the same
//! process. `rows` defines what is measured.

#![allow(clippy::disallowed_methods, reason = "a bench reads the clock; the library may not")]
#![allow(clippy::disallowed_types, reason = "each number is taken in a process of its own")]

mod mix;
mod rows;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use mix::{Scale, SeededNumbers};
use rows::{BenchRow, Meter, RowUnit, own_time};
use serde_json::{Value, json};

/// Samples of a row: the wanted number, the minimum, and the time after which the minimum suffices.
const SAMPLES: (usize, usize, Duration) = (200, 5, Duration::from_secs(2));
/// The same for the 99th percentile.
const MANY_SAMPLES: (usize, usize, Duration) = (2_000, 500, Duration::from_secs(8));
/// Samples under valgrind, which is fifty times slower and counts the same each time.
const COUNTED: usize = 3;

const USAGE: &str = "\
usage: cargo xtask bench [--json] [--only NAME,NAME] [--quick] [--instructions]
  --only          these rows; a name is the first column of --list
  --quick         without doubling nodes, running and pending jobs
  --instructions  count instructions besides, with valgrind: some minutes
  --list          names of the rows
";

/// Options of the command line.
#[derive(Default)]
struct BenchArgs {
    json: bool,
    list: bool,
    quick: bool,
    instructions: bool,
    only: Option<Vec<String>>,
    measure: Option<(String, Scale, bool)>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let done = parse_args(&args).and_then(|asked| match &asked.measure {
        Some((name, scale, is_exact)) => measure(name, *scale, *is_exact),
        None if asked.list => {
            rows::all().iter().for_each(|row| println!("{:<20} {}", row.name, row.what));
            Ok(())
        }
        None => table(&asked),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprint!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn parse_args(args: &[String]) -> Result<BenchArgs, String> {
    let mut asked = BenchArgs::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => asked.json = true,
            "--list" => asked.list = true,
            "--quick" => asked.quick = true,
            "--instructions" => asked.instructions = true,
            "--only" => {
                let names = args.next().ok_or_else(|| USAGE.to_owned())?;
                asked.only = Some(names.split(',').map(str::to_owned).collect());
            }
            // The table runs itself so for one number, in a process of its own.
            "--measure" => {
                let [name, numbers, how] =
                    [(); 3].map(|()| args.next().cloned().unwrap_or_default());
                let of: Vec<usize> =
                    numbers.split(',').filter_map(|one| one.parse().ok()).collect();
                let [nodes, running, pending, queues] = of[..] else {
                    return Err(USAGE.to_owned());
                };
                asked.measure =
                    Some((name, Scale { nodes, running, pending, queues }, how == "exact"));
            }
            other => return Err(format!("unknown argument {other}\n\n{USAGE}")),
        }
    }
    Ok(asked)
}

// ---- one number ----

/// Measures one row at one size and prints the result as a line of JSON.
fn measure(name: &str, scale: Scale, is_exact: bool) -> Result<(), String> {
    let row = find(name)?;
    let (wanted, few, patience) = if row.unit == RowUnit::P99 { MANY_SAMPLES } else { SAMPLES };
    let mut meter =
        if is_exact { Meter::exactly(COUNTED) } else { Meter::within(wanted, few, patience) };
    let is_timed = !is_exact && row.unit != RowUnit::Bytes;
    let before = if is_timed { calibration() } else { Duration::ZERO };
    (row.run)(scale, &mut meter);
    let after = if is_timed { calibration() } else { Duration::ZERO };
    let mut taken: Vec<f64> = meter.taken.iter().map(Duration::as_secs_f64).collect();
    taken.sort_by(f64::total_cmp);
    let at = |percent: usize| taken.get(taken.len() * percent / 100).copied().unwrap_or(0.0);
    let value = match row.unit {
        RowUnit::Seconds => at(50),
        RowUnit::P99 => at(99),
        RowUnit::PerSecond(items) => at(50) / f64::from(items),
        RowUnit::Bytes => meter.bytes.unwrap_or(0) as f64,
    };
    println!(
        "{}",
        json!({
            "value": value,
            "samples": taken.len(),
            "calibration": (before + after).as_secs_f64() / 2.0,
        })
    );
    Ok(())
}

fn find(name: &str) -> Result<BenchRow, String> {
    let mut all = rows::all().into_iter();
    all.find(|row| row.name == name)
        .ok_or_else(|| format!("no row {name}\nhint: --list shows all rows\n"))
}

/// Returns the median time of a fixed piece of work: filling and emptying an ordered map, which
/// uses cache and branch predictor like the engine.
fn calibration() -> Duration {
    let mut taken = [(); 9].map(|()| {
        let begin = own_time();
        let mut numbers = SeededNumbers::new();
        let mut map = BTreeMap::new();
        for at in 0..20_000u64 {
            map.insert(numbers.below(1 << 40), at);
        }
        while let Some(last) = map.pop_first() {
            std::hint::black_box(last);
        }
        own_time() - begin
    });
    taken.sort_unstable();
    taken[4]
}

// ---- the table ----

fn table(asked: &BenchArgs) -> Result<(), String> {
    for name in asked.only.iter().flatten() {
        find(name)?;
    }
    if asked.instructions && !has_valgrind() {
        return Err("valgrind is not installed, so instructions cannot be counted\n\
             hint: install the package valgrind, or leave --instructions out\n"
            .to_owned());
    }
    let mut lines = Vec::new();
    let is_asked = |row: &BenchRow| {
        asked.only.as_ref().is_none_or(|only| only.iter().any(|name| name == row.name))
    };
    for row in rows::all().into_iter().filter(is_asked) {
        eprintln!("{}", row.what);
        lines.push(line(asked, &row)?);
    }
    if asked.json {
        println!("{}", serde_json::to_string_pretty(&lines).expect("values are writable"))
    } else {
        print!("{}", rows::print::markdown(&lines))
    }
    Ok(())
}

/// Returns all values of one row.
fn line(asked: &BenchArgs, row: &BenchRow) -> Result<Value, String> {
    let usual = child(row, row.scale, &[])?;
    let number = |value: &Value, key: &str| value[key].as_f64().unwrap_or(0.0);
    let in_units = |value: &Value| match row.unit {
        RowUnit::Bytes => number(value, "value"),
        _ => number(value, "value") / number(value, "calibration"),
    };
    let Scale { nodes, running, pending, queues } = row.scale;
    let mut line = json!({
        "name": row.name,
        "what": row.what,
        "nodes": nodes, "running": running, "pending": pending, "queues": queues,
        "samples": usual["samples"],
        "unit": match row.unit {
            RowUnit::Seconds => "seconds, median",
            RowUnit::P99 => "seconds, p99",
            RowUnit::PerSecond(_) => "per second, median",
            RowUnit::Bytes => "bytes",
        },
        "value": match row.unit {
            RowUnit::PerSecond(_) => 1.0 / number(&usual, "value"),
            _ => number(&usual, "value"),
        },
    });
    if row.unit != RowUnit::Bytes {
        line["calibrations"] = json!(in_units(&usual));
    }
    match row.goal {
        Some(rows::Goal::AtLeast(goal)) => line["at_least"] = json!(goal),
        Some(rows::Goal::AtMost(goal)) => line["at_most"] = json!(goal),
        None => {}
    }
    let doubled = [
        ("nodes", nodes, Scale { nodes: nodes * 2, ..row.scale }),
        ("running", running, Scale { running: running * 2, ..row.scale }),
        ("pending", pending, Scale { pending: pending * 2, ..row.scale }),
    ];
    for (axis, _, scale) in doubled.into_iter().filter(|(_, base, _)| *base > 0 && !asked.quick) {
        line["doubled"][axis] = json!(in_units(&child(row, scale, &[])?) / in_units(&usual));
    }
    if asked.instructions && row.unit != RowUnit::Bytes {
        line["instructions"] = json!(instructions(row)?);
    }
    Ok(line)
}

/// Measures a row in a process of its own.
fn child(row: &BenchRow, scale: Scale, under: &[&str]) -> Result<Value, String> {
    let own = std::env::current_exe().map_err(|error| format!("own path: {error}\n"))?;
    let own = own.to_string_lossy().into_owned();
    let Scale { nodes, running, pending, queues } = scale;
    let numbers = format!("{nodes},{running},{pending},{queues}");
    let how = if under.is_empty() { "timed" } else { "exact" };
    let mut words = under.to_vec();
    words.extend([&*own, "--measure", row.name, &numbers, how]);
    let stderr = if under.is_empty() { Stdio::inherit() } else { Stdio::null() };
    let output = Command::new(words[0]).args(&words[1..]).stderr(stderr).output();
    let output = output.map_err(|error| format!("{}: {error}\n", words[0]))?;
    if !output.status.success() {
        return Err(format!("{} at {numbers}: {}\n", row.name, output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{}: {error}\n", row.name))
}

fn has_valgrind() -> bool {
    let quiet = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

/// Returns the instructions of one sample, or of one item if a sample has many.
fn instructions(row: &BenchRow) -> Result<u64, String> {
    let file =
        std::env::temp_dir().join(format!("muster-bench-{}-{}", std::process::id(), row.name));
    let out = format!("--callgrind-out-file={}", file.display());
    let tool = [
        "valgrind",
        "--tool=callgrind",
        "--collect-atstart=no",
        "--toggle-collect=*measured_section*",
        &out,
    ];
    child(row, row.scale, &tool)?;
    let text =
        std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}\n", file.display()))?;
    let _ = std::fs::remove_file(&file);
    let total =
        text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse::<u64>().ok());
    let items = if let RowUnit::PerSecond(items) = row.unit { u64::from(items) } else { 1 };
    total
        .map(|total| total / COUNTED as u64 / items)
        .ok_or_else(|| "callgrind counted nothing\n".to_owned())
}
