//! Texts of a submission: job files as they are, sbatch scripts converted to job files. Findings of
//! the conversion are printed before the job is submitted.

use std::path::Path;

use anyhow::Result;
use muster_slurm::import::ImportInput;

use crate::app::App;
use crate::cmd::import::script;
use crate::source::{self, Content, SourceText};

/// Reads a job file, or converts an sbatch script to one.
pub fn read(app: &App, path: &Path, cures: &[String]) -> Result<SourceText> {
    let script = match source::jobs_or_script(path)? {
        Content::Jobs(text) => return Ok(text),
        Content::Script(script) => script,
    };
    let name = script.file.unwrap_or_default();
    let given = ImportInput { cures: cures.to_vec(), ..ImportInput::default() };
    let report = script::convert(app, &script.source, &name, &given)?;
    app.ui.status(muster_report::imported::import(&report, app.ui.status_context()).trim_end());
    Ok(SourceText { source: report.job, file: Some(format!("{name}, imported")) })
}
