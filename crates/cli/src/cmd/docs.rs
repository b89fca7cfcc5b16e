//! `muster __docs`: documents that are generated from what the program itself reads, so that they
//! cannot be wrong: docs/cli.md from the definitions of the command line, docs/advise.md,
//! docs/check.md and docs/verify.md from the rules.

use std::fmt::Write as _;

use anyhow::Result;
use clap::CommandFactory;

use crate::app::App;
use crate::args::Cli;
use crate::exit;

/// Columns of the help texts in the document.
const WIDTH: usize = 100;

/// Print a document of docs/
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which document
    #[arg(value_enum, default_value_t = Document::Cli)]
    document: Document,
}

/// Documents, by their names in docs/.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Document {
    /// docs/cli.md
    Cli,
    /// docs/advise.md
    Advise,
    /// docs/check.md
    Check,
    /// docs/verify.md
    Verify,
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    let document = match args.document {
        Document::Cli => command_line()?,
        Document::Advise => muster_advise::document(),
        Document::Check => muster_doctor::document(),
        Document::Verify => muster_doctor::job::document(),
    };
    app.ui.bytes(document.as_bytes())?;
    Ok(0)
}

fn command_line() -> Result<String> {
    let mut command = Cli::command().term_width(WIDTH).disable_help_subcommand(true);
    command.build();
    let mut text = String::from(
        "# The command line\n\n\
         Made by `muster __docs` from the definitions that the program itself uses; a test compares the two.\n\n\
         Data goes to stdout, status and hints to stderr. With `--json` (or `-o json`) the data is JSON in the shapes of\n\
         `docs/openapi.json` and `docs/schema`: fields may be added, none is renamed or removed. Colour and redrawing in place only appear on a\n\
         terminal; `NO_COLOR` turns colour off. Jobs are named by number (`3`), by number and array index (`3[7]`, or `3_7` as in\n\
         Slurm), or by name: the job of that name that has not ended, else the newest that has. Several that have not ended are refused\n\
         with their numbers. Times of day are in the time zone of the reader. Characters that would steer a terminal or reorder text, in names,\n\
         labels and reasons, are shown as `?`.\n\n\
         `cancel`, `hold`, `release` and `requeue` take many jobs: numbers, ranges (`12-40`), names, and filters (`--user`, `--queue`,\n\
         `--state`, `--name`, `--all`), which select among your own jobs that have not ended and narrow each other. More than 10 jobs that\n\
         were not typed one by one are asked about first; where nobody can answer, `--yes` must be given. What is refused for one job is told\n\
         of it and done for the others; the exit code is that of the first refusal.\n\n\
         ## Errors as JSON\n\n\
         With `--json`, an error is one line of JSON, the last on stderr; stdout holds data only:\n\n\
         ```json\n\
         {\"error\":{\"code\":\"not_found\",\"message\":\"there is no job 7\",\"hints\":[\"`muster ps -a` lists all jobs\"],\"exit_code\":4}}\n\
         ```\n\n\
         `code` is one of the API (`invalid_request`, `invalid_spec`, `not_found`, `forbidden`, `conflict`, `refused`, `busy`,\n\
         `store_unavailable`, `unavailable`, `interrupted`, `internal`), or `usage`, `no_daemon`, `failure`. `rendered`, where it is there, is the whole complaint about a\n\
         text, as people are shown it. Fields may be added, none is renamed or removed.\n\n\
         ## Environment\n\n\
         | variable | meaning |\n|---|---|\n\
         | `MUSTER_SOCKET` | socket of the daemon, as `--socket` |\n\
         | `MUSTER_ON` | where jobs run and are looked for, as `--on` |\n\
         | `MUSTER_SLURM_BIN` | folder of Slurm's programs, where they are not in the path |\n\
         | `MUSTER_SLURMRESTD` | slurmrestd, `unix:/path/to/socket` or `http://host:port`, which is asked before the programs for the queue and the nodes |\n\
         | `SLURM_JWT`, `SLURM_USER_NAME` | token for it, as `scontrol token` prints it, and for whom: only oneself |\n\
         | `MUSTER_SSH` | another ssh for `--on slurm@HOST`, with its first words |\n\
         | `MUSTER_HOME` | where this user's daemon keeps state and socket; else the XDG state and runtime directories |\n\
         | `MUSTER_LOG` | what a daemon logs: `error`, `warn`, `info`, `debug`, `trace`, or per part: `info,muster_daemon=debug` |\n\
         | `LC_ALL`, `LC_CTYPE`, `LANG` | the first that is set says the locale; where it has no UTF-8, tables and timelines are drawn in ASCII |\n\
         | `NO_COLOR`, `TERM` | colour is off when `NO_COLOR` is not empty, or `TERM` is `dumb` or not set |\n\n\
         ## Exit codes\n\n```text\n",
    );
    writeln!(text, "{}\n```", exit::HELP.trim_start_matches("Exit codes:\n"))?;
    for verb in command.get_subcommands_mut().filter(|verb| !verb.is_hide_set()) {
        section(&mut text, verb, 2)?;
    }
    Ok(text)
}

fn section(text: &mut String, command: &mut clap::Command, level: usize) -> Result<()> {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    writeln!(text, "\n{} `{name}`\n\n```text\n{}\n```", "#".repeat(level), help.join("\n"))?;
    for verb in command.get_subcommands_mut().filter(|verb| !verb.is_hide_set()) {
        section(text, verb, level + 1)?;
    }
    Ok(())
}
