//! A batch script of Slurm as a job file, and what is wrong with the script. Pure: text in, one
//! answer out, in which every option of the script is accounted for. What a job file means is
//! checked by whoever prints it.

mod arguments;
mod body;
mod cure;
mod draft;
mod environment;
mod finding;
mod geometry;
mod known;
mod launch;
mod meaning;
mod option;
mod own;
mod own_node;
mod program;
mod read;
mod rules;
mod shell;
mod sizes;
mod value;

use muster_model::imported::{ImportReport, ImportedLaunch, LaunchMode};

pub use environment::overruled;
pub use finding::ids;
pub use read::NotAScript;

use finding::Facts;
use geometry::geometry;
use known::Variables;
use read::Script;

/// What sbatch is given beside a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Submission {
    /// Behind the script's name.
    pub arguments: Vec<String>,
    /// Rules whose cure is to be written into the job, of [`CURES`].
    pub cures: Vec<String>,
}

/// Rules whose cure can be chosen.
pub const CURES: [&str; 1] = [cure::SQUARED];

/// Reads a script. `file` is what to call it; a job without a name gets that of the file.
///
/// # Errors
/// What is no script for sbatch.
pub fn import(text: &str, file: &str, given: &Submission) -> Result<ImportReport, NotAScript> {
    let script = Script { arguments: &given.arguments, ..read::read(text)? };
    let report = imported(&script, text, file);
    // A cure changes what the script asks for, and all that follows from it.
    let is_found = report.findings.iter().any(|finding| finding.rule == cure::SQUARED);
    if is_found && given.cures.iter().any(|rule| rule == cure::SQUARED) {
        return Ok(imported(&cure::one_task_a_node(&script), text, file));
    }
    Ok(report)
}

fn imported(script: &Script<'_>, text: &str, file: &str) -> ImportReport {
    // 1. Its options.
    let stem = file.rsplit('/').next().unwrap_or(file).split('.').next().unwrap_or_default();
    let (mut draft, mut options, sizes) = meaning::draft(script, stem);
    let asks = meaning::asks(script, &sizes);
    // 2. What it starts, and how many that are.
    let body = script.body();
    let commands = if script.is_shell() { shell::commands(&body) } else { Vec::new() };
    let (steps, variables) = launch::steps(&commands, &Variables::of_job(&sizes[0]));
    let steps: Vec<_> = steps
        .into_iter()
        .map(|step| {
            let geometry = geometry(&step, sizes_of(&step, &sizes));
            (step, geometry)
        })
        .collect();
    // 3. What the tasks run: a script of Muster's own says that by itself.
    let mut launch = ImportedLaunch {
        how: LaunchMode::Exported,
        says: "it was made by `muster export slurm`, and is the job that it was made of".to_owned(),
        steps: Vec::new(),
    };
    let is_own = own::is_exported(text) && own::read(text, &mut draft, &mut options).is_some();
    let mut findings = Vec::new();
    if !is_own {
        let understood = body::understand(script, &commands, &steps, &sizes);
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
            says: understood.says,
            steps: steps.iter().map(|(step, geometry)| geometry.answer(step, first_line)).collect(),
        };
        // 4. What is wrong with it.
        let facts = Facts {
            script,
            sizes: &sizes[0],
            commands: &commands,
            options: &options,
            groups: &draft.groups,
            how: launch.how,
            steps: &steps,
            variables: &variables,
        };
        findings = finding::findings(&facts);
    }
    // Files have variables in order of their names.
    draft.env.sort();
    ImportReport { script: file.to_owned(), job: draft.yaml(), options, asks, launch, findings }
}

/// The component in which a step runs.
fn sizes_of<'a>(step: &launch::Step, sizes: &'a [sizes::Sizes]) -> &'a sizes::Sizes {
    step.component().and_then(|component| sizes.get(component)).unwrap_or(&sizes[0])
}
