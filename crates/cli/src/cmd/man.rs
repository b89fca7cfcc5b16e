//! `muster man`: manual pages with the usual sections, including EXIT STATUS and EXAMPLES.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_mangen::Man;

use crate::app::App;
use crate::cmd::Cli;
use crate::exit;

/// Print the manual page of muster, or write the pages of all subcommands to a directory
///
/// Read it with `muster man | man -l -`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Write a page for muster and one for each subcommand to this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs `muster man`; returns its exit code.
pub fn run(app: &App, args: &ManArgs) -> Result<u8> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir)
                .with_context(|| format!("cannot create {}", dir.display()))?;
            write_all(dir, &command, "muster")?;
        }
        None => app.ui.bytes(&page(&command, "muster")?)?,
    }
    Ok(0)
}

/// Writes the pages of a command and of its subcommands, such as `muster-nodes-drain.1`.
fn write_all(dir: &Path, command: &clap::Command, name: &str) -> Result<()> {
    let path = dir.join(format!("{name}.1"));
    std::fs::write(&path, page(command, name)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write_all(dir, inner, &format!("{name}-{}", inner.get_name()))?;
    }
    Ok(())
}

fn page(command: &clap::Command, name: &str) -> Result<Vec<u8>> {
    let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let man = Man::new(command.clone().display_name(name));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let status = match name {
        "muster" => exit::HELP.split_once('\n').map_or(exit::HELP, |(_, codes)| codes),
        _ => "See EXIT STATUS in muster(1).",
    };
    section(&mut page, "EXIT STATUS", status)?;
    match help.strip_prefix("Examples:\n") {
        Some(examples) => section(&mut page, "EXAMPLES", examples)?,
        None if name == "muster" => section(&mut page, "EXAMPLES", EXAMPLES)?,
        None if !help.is_empty() => section(&mut page, "NOTES", &help)?,
        None => {}
    }
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// Examples in the page of the program itself.
const EXAMPLES: &str = "\
  muster run --gpus 2 --time 12h -- python train.py
  muster run train.yaml --watch
  muster ps
  muster explain train
  muster logs -f train
  muster cancel --state pending --name 'sweep-*'";

/// Writes a section whose lines are not filled.
fn section(page: &mut Vec<u8>, title: &str, text: &str) -> Result<()> {
    writeln!(page, ".SH \"{title}\"\n.nf")?;
    for line in text.lines() {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        // A leading period or apostrophe would be a roff request.
        let guard = if line.starts_with(['.', '\'']) { "\\&" } else { "" };
        writeln!(page, "{guard}{line}")?;
    }
    writeln!(page, ".fi")?;
    Ok(())
}
