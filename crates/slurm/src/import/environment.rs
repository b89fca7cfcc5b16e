//! Effects of sbatch's environment on a script. The command line takes precedence over the
//! environment, and that over the script (tested on 22.05). The job only has what is in the script;
//! of the environment only variables that are set here are reported.

use muster_model::imported::ImportReport;

use super::super::variables;
use super::draft::ImportedJob;
use super::meaning::normal;
use super::option::{GivenOption, OptionArity, SBATCH};

/// Returns a message for each option of the script that a variable would override with another
/// value. `set` returns the value of a variable.
pub fn overruled(report: &ImportReport, set: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let differs = |(option, variable): (&'static str, &'static str)| {
        let value = set(variable)?;
        let given =
            report.options.iter().rev().find(|one| variables::replaces(option, &one.option))?;
        let is_unset_flag = is_flag(option) && !is_on(&value);
        let is_equal = given.option == option
            && (is_flag(option)
                || one_way(option, &value) == one_way(option, text(&given.written)));
        let is_same = is_unset_flag || is_equal;
        (!is_same).then(|| {
            format!(
                "{variable}={value} is set here: sbatch uses it instead of {} on line {}, which the job has",
                given.written, given.line
            )
        })
    };
    variables::all().filter_map(differs).collect()
}

/// Returns whether an option takes no value.
fn is_flag(option: &str) -> bool {
    SBATCH.iter().any(|known| known.name == option && known.takes == OptionArity::Nothing)
}

/// Returns whether a value sets a flag (sbatch(1), INPUT ENVIRONMENT VARIABLES); all others do not.
fn is_on(value: &str) -> bool {
    matches!(value, "" | "yes") || value.parse::<i64>().is_ok_and(|number| number != 0)
}

/// Returns the value of an option as written.
fn text(written: &str) -> &str {
    match written.strip_prefix("--") {
        Some(long) => long.split_once(['=', ' ']).map_or("", |(_, value)| value),
        None => written.get(2..).unwrap_or_default().trim_start_matches([' ', '=']),
    }
}

/// Normalises a value for comparison.
fn one_way(option: &'static str, text: &str) -> String {
    let written = format!("--{option}={text}");
    let value = Some(text.to_owned());
    normal(
        &mut ImportedJob::default(),
        &GivenOption { line: 0, written, name: Some(option), value },
        option,
        text,
    )
}

#[cfg(test)]
mod tests {
    use super::super::{ImportInput, import};
    use super::*;

    #[test]
    fn what_the_environment_would_change_is_told_and_nothing_else() {
        let script =
            "#!/bin/bash\n#SBATCH --time=60 -p gpu -N 2\n#SBATCH --partition=batch\nhostname\n";
        let report = import(script, "x", &ImportInput::default()).unwrap();
        let check = |variable: &str, value: &str, expected: &[&str]| {
            let reported = overruled(&report, |name| (name == variable).then(|| value.to_owned()));
            assert_eq!(reported, expected, "{variable}={value}");
        };
        check("SBATCH_TIMELIMIT", "1:00:00", &[]);
        check("SBATCH_PARTITION", "batch", &[]);
        check("SBATCH_QOS", "high", &[]);
        let reported = "SBATCH_PARTITION=gpu is set here: sbatch uses it instead of --partition=batch on line 3, which the job has";
        check("SBATCH_PARTITION", "gpu", &[reported]);
        let script = "#!/bin/bash\n#SBATCH --requeue --mem-per-cpu=4G\n#SBATCH --hint=nomultithread\nhostname\n";
        let report = import(script, "x", &ImportInput::default()).unwrap();
        let check = |variable: &str, value: &str, expected: Option<&str>| {
            let reported = overruled(&report, |name| (name == variable).then(|| value.to_owned()));
            let expected = expected.map(|given| {
                format!(
                    "{variable}={value} is set here: sbatch uses it instead of {given}, which the job has"
                )
            });
            assert_eq!(reported, Vec::from_iter(expected), "{variable}={value}");
        };
        check("SBATCH_NO_REQUEUE", "1", Some("--requeue on line 2"));
        check("SBATCH_NO_REQUEUE", "0", None);
        check("SBATCH_REQUEUE", "yes", None);
        check("SBATCH_MEM_PER_NODE", "4G", Some("--mem-per-cpu=4G on line 2"));
        check("SBATCH_MEM_PER_CPU", "4G", None);
        check("SLURM_HINT", "multithread", Some("--hint=nomultithread on line 3"));
    }
}
