//! Import of a Slurm batch script: a job file, and the problems of the script. Pure: text in, one
//! report out, which covers every option of the script. The caller validates the job file.

mod arguments;
mod body;
mod cure;
mod draft;
mod environment;
mod exported;
mod finding;
mod geometry;
mod launch;
mod meaning;
mod option;
mod own_node;
mod program;
mod ray;
mod read;
mod rules;
mod shell;
mod sizes;
mod value;
mod variables;

use muster_model::imported::{ImportReport, ImportSource, ImportedLaunch, LaunchMode};

pub use environment::overruled;
pub use read::NotAScript;
pub use rules::ids;

use finding::ScriptFacts;
use geometry::geometry;
use read::BatchScript;
use variables::ShellVariables;

/// Input of the import beside the script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportInput {
    /// Arguments after the script's name.
    pub arguments: Vec<String>,
    /// Rules whose fix is applied to the job, out of [`CURES`].
    pub cures: Vec<String>,
}

/// Rules with a fix that can be applied on request.
pub const CURES: [&str; 1] = [cure::SQUARED];

/// Imports a script. `file` is its name, which names a job without a name.
///
/// # Errors
///
/// When the text is not a script for sbatch.
pub fn import(text: &str, file: &str, given: &ImportInput) -> Result<ImportReport, NotAScript> {
    let script = BatchScript { arguments: &given.arguments, ..read::read(text)? };
    let report = imported(&script, text, file);
    // A fix changes the requested sizes, and everything derived from them.
    let is_found = report.findings.iter().any(|finding| finding.rule == cure::SQUARED);
    if is_found && given.cures.iter().any(|rule| rule == cure::SQUARED) {
        return Ok(imported(&cure::one_task_a_node(&script), text, file));
    }
    Ok(report)
}

fn imported(script: &BatchScript<'_>, text: &str, file: &str) -> ImportReport {
    // 1. Translate its options.
    let stem = file.rsplit('/').next().unwrap_or(file).split('.').next().unwrap_or_default();
    let (mut draft, mut options, sizes) = meaning::draft(script, stem);
    let asks = meaning::requested(script, &sizes);
    // 2. Find what it starts, and the number of processes.
    let body = script.body();
    let commands = if script.is_shell() { shell::commands(&body) } else { Vec::new() };
    let (steps, variables) = launch::steps(&commands, &ShellVariables::of_job(&sizes[0]));
    let steps: Vec<_> = steps
        .into_iter()
        .map(|step| {
            let geometry = geometry(&step, sizes_of(&step, &sizes));
            (step, geometry)
        })
        .collect();
    // 3. Convert the body; a script exported by Muster is read back.
    let mut launch = ImportedLaunch {
        how: LaunchMode::Exported,
        text: "exported by `muster export slurm`; it becomes the original job".to_owned(),
        steps: Vec::new(),
    };
    let is_own =
        exported::is_exported(text) && exported::read(text, &mut draft, &mut options).is_some();
    let mut findings = Vec::new();
    if !is_own {
        let understood = ray::translate(script, &commands, &steps, &sizes)
            .map(|of_ray| of_ray.put_into(&mut draft))
            .unwrap_or_else(|| body::translate_body(script, &commands, &steps, &sizes));
        for (group, program) in draft.groups.iter_mut().zip(understood.programs) {
            group.run = program;
        }
        if understood.is_merged {
            own_node::merge(&sizes[0], &mut draft, &mut options);
        }
        draft.env.extend(understood.env);
        draft.files.output = draft.files.output.or(understood.files.output);
        draft.files.error = draft.files.error.or(understood.files.error);
        options.extend(understood.options);
        let first_line = u32::try_from(script.body + 1).unwrap_or(u32::MAX);
        launch = ImportedLaunch {
            how: understood.how,
            text: understood.says,
            steps: steps.iter().map(|(step, geometry)| geometry.answer(step, first_line)).collect(),
        };
        // 4. Check the rules.
        let facts = ScriptFacts {
            script,
            sizes: &sizes[0],
            commands: &commands,
            options: &options,
            groups: &draft.groups,
            how: launch.how,
            steps: &steps,
            variables: &variables,
        };
        findings = rules::findings(&facts);
    }
    // Variables are sorted by name, as in job files.
    draft.env.sort();
    ImportReport {
        script: file.to_owned(),
        source: ImportSource::Slurm,
        job: draft.yaml(),
        options,
        asks,
        launch,
        findings,
    }
}

/// Returns the sizes of the component in which a step runs.
fn sizes_of<'a>(
    step: &launch::LaunchCommand,
    sizes: &'a [sizes::RequestedSizes],
) -> &'a sizes::RequestedSizes {
    step.component().and_then(|component| sizes.get(component)).unwrap_or(&sizes[0])
}
