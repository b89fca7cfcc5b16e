//! `muster trace generate`: drawn in `muster-sim`, written line by line.

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

/// Make a trace from a recipe: how often jobs arrive, what kinds there are, how long they run
///
/// The same recipe and seed make the same trace. It is written in our own table, which
/// docs/traces.md describes together with recipes; `muster schema trace-recipe` is for editors.
/// Generators of Kueue's performance tests are read, too: they draw nothing.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The recipe, in YAML; `-` is stdin
    #[arg(value_name = "RECIPE")]
    recipe: PathBuf,
    /// What chance starts from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many jobs, in place of what the recipe says
    #[arg(long, value_name = "N")]
    jobs: Option<u64>,
    /// Write to this file in place of stdout; packed with gzip if its name ends in .gz
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over the file if it is there
    #[arg(long, requires = "output")]
    force: bool,
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    // 1. What to make.
    let text = source::read(&args.recipe)?;
    let recipe = parse_recipe(&text.source, text.file.as_deref()).map_err(Failure::from)?;
    if matches!(recipe, Recipe::Kueue(_)) && args.jobs.is_some() {
        return Err(Failure::usage("a generator of Kueue says itself how many jobs there are")
            .hint("without `--jobs` all of them are made")
            .into());
    }

    // 2. Out.
    let jobs = generate(&recipe, args.seed, args.jobs);
    let count = match args.output.as_deref().filter(|path| path.as_os_str() != "-") {
        None => write(BufWriter::new(io::stdout().lock()), jobs)?,
        Some(path) => {
            let file = BufWriter::new(output_files::create(path, args.force)?);
            let written = match is_packed(path) {
                true => write(GzEncoder::new(file, Compression::default()), jobs),
                false => write(file, jobs),
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

fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

/// The table, line by line.
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
