//! `muster trace generate`: `muster-sim` generates the jobs; they are written line by line.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use muster_sim::trace::generate;
use muster_spec::recipe::{Recipe, parse_recipe};
use muster_spec::{TRACE_HEADER, TraceJob, write_trace_job};

use crate::app::App;
use crate::exit::Failure;
use crate::output_files;
use crate::source;

const EXAMPLES: &str = "\
Examples:
  muster trace generate recipe.yaml -o trace.csv.gz
  muster trace generate recipe.yaml --seed 7 --jobs 1000000 | muster trace summary -

A recipe:
  length: 7d
  every: 90s
  hours: [1, 1, 1, 1, 1, 1, 2, 3, 5, 6, 6, 6, 5, 6, 6, 6, 5, 4, 3, 2, 2, 1, 1, 1]
  weekend: 40
  users: 30
  classes:
  - {name: small, weight: 80, gpus: 1, cpus: 8, runtime: {median: 10m, p95: 6h, max: 2d}, overestimate: 4}
  - {name: gang, weight: 3, gpus: 8, tasks: [2, 4, 8], runtime: {from: 1h, to: 3d}, requested: 2d, failed: 20}";

/// Generate a trace from a recipe of arrival rates, job classes and runtimes
///
/// The same recipe and seed give the same trace. The trace is a CSV table in Muster's own format;
/// docs/traces.md describes it and the recipes, and `muster schema trace-recipe` prints their
/// schema. Generator files of Kueue's performance tests are accepted, too; they are deterministic.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct TraceGenerateArgs {
    /// Recipe in YAML; `-` is stdin
    #[arg(value_name = "RECIPE")]
    recipe: PathBuf,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of jobs, overriding the recipe
    #[arg(long, value_name = "N")]
    jobs: Option<u64>,
    /// Write to this file in place of stdout; compressed with gzip if its name ends in .gz
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

/// Runs `muster trace generate`; returns its exit code.
pub fn run(app: &App, args: &TraceGenerateArgs) -> Result<u8> {
    // 1. Read the recipe.
    let text = source::read(&args.recipe)?;
    let recipe = parse_recipe(&text.source, text.file.as_deref()).map_err(Failure::from)?;
    if matches!(recipe, Recipe::Kueue(_)) && args.jobs.is_some() {
        return Err(Failure::usage("`--jobs` does not apply to Kueue's generator files")
            .hint("without `--jobs`, all jobs of the file are generated")
            .into());
    }

    // 2. Write the trace.
    let jobs = generate(&recipe, args.seed, args.jobs);
    let count = match args.output.as_deref().filter(|path| path.as_os_str() != "-") {
        None => write(BufWriter::new(io::stdout().lock()), jobs)?,
        Some(path) => {
            let file = BufWriter::new(output_files::create(path, args.force)?);
            let written = if is_gzip(path) {
                write(GzEncoder::new(file, Compression::default()), jobs)
            } else {
                write(file, jobs)
            };
            written.with_context(|| format!("cannot write {}", path.display()))?
        }
    };
    app.ui.status(&match count {
        1 => "1 job".to_owned(),
        count => format!("{count} jobs"),
    });
    Ok(0)
}

fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

/// Writes the table line by line. Returns the number of jobs.
fn write(mut to: impl Write, jobs: impl Iterator<Item = TraceJob>) -> io::Result<u64> {
    to.write_all(TRACE_HEADER.as_bytes())?;
    let mut count = 0;
    for job in jobs {
        to.write_all(write_trace_job(&job).as_bytes())?;
        count += 1;
    }
    to.flush()?;
    Ok(count)
}
