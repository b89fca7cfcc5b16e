//! What sbatch's environment would change in a script. Its command line counts most, then its environment, then the script (tried on
//! 22.05): what is not in the script is not in the job, and of the environment only what is set here can be told.

use muster_model::imported::ImportReport;

use super::super::variables::VARIABLES;
use super::draft::Draft;
use super::meaning::normal;
use super::option::Given;

/// Options of the script that a variable would overrule with another value, a sentence each. `set` says what a variable holds.
pub fn overruled(report: &ImportReport, set: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let differs = |(option, variable): &(&'static str, &'static str)| {
        let value = set(variable)?;
        let given = report.options.iter().rev().find(|one| one.option == *option)?;
        let is_same = one_way(option, &value) == one_way(option, text(&given.written));
        (!is_same).then(|| {
            format!(
                "{variable}={value} is set here: sbatch takes it in place of {} on line {}, which the job has",
                given.written, given.line
            )
        })
    };
    VARIABLES.iter().filter_map(differs).collect()
}

/// The value of an option as it was written.
fn text(written: &str) -> &str {
    match written.strip_prefix("--") {
        Some(long) => long.split_once(['=', ' ']).map_or("", |(_, value)| value),
        None => written.get(2..).unwrap_or_default().trim_start_matches([' ', '=']),
    }
}

/// A value in one way of writing.
fn one_way(option: &'static str, text: &str) -> String {
    let (written, value) = (format!("--{option}={text}"), Some(text.to_owned()));
    normal(&mut Draft::default(), &Given { line: 0, written, name: Some(option), value }, option, text)
}

#[cfg(test)]
mod tests {
    use super::super::{Submission, import};
    use super::*;

    #[test]
    fn what_the_environment_would_change_is_told_and_nothing_else() {
        let script = "#!/bin/bash\n#SBATCH --time=60 -p gpu -N 2\n#SBATCH --partition=batch\nhostname\n";
        let report = import(script, "x", &Submission::default()).unwrap();
        let check = |variable: &str, value: &str, expected: &[&str]| {
            let told = overruled(&report, |name| (name == variable).then(|| value.to_owned()));
            assert_eq!(told, expected, "{variable}={value}");
        };
        check("SBATCH_TIMELIMIT", "1:00:00", &[]);
        check("SBATCH_PARTITION", "batch", &[]);
        check("SBATCH_QOS", "high", &[]);
        let told = "SBATCH_PARTITION=gpu is set here: sbatch takes it in place of --partition=batch on line 3, which the job has";
        check("SBATCH_PARTITION", "gpu", &[told]);
    }
}
