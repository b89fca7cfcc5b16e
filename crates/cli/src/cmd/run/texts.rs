//! The texts of a submission: job files as they are, and scripts for sbatch as the job files that
//! they become. What an import finds wrong with a script is shown before it is submitted.

use std::path::Path;

use anyhow::Result;
use muster_backends::slurm::import::Submission;

use crate::app::App;
use crate::cmd::import::script;
use crate::source::{self, Content, Text};

/// Reads a file of either kind.
pub fn read(app: &App, path: &Path, cures: &[String]) -> Result<Text> {
    let script = match source::jobs_or_script(path)? {
        Content::Jobs(text) => return Ok(text),
        Content::Script(script) => script,
    };
    let name = script.file.unwrap_or_default();
    let given = Submission { cures: cures.to_vec(), ..Submission::default() };
    let report = script::imported(app, &script.source, &name, &given)?;
    app.ui.status(muster_report::imported::import(&report, &app.ui.status_style()).trim_end());
    Ok(Text { source: report.job, file: Some(format!("{name}, imported")) })
}
