//! The report of `muster verify` on a job's actual resources: a line for each check, failures
//! first. Nothing is evaluated here.

use muster_model::check::ProbeOutcome;
use muster_model::verify::{VerifyCheck, VerifyReport};

use crate::RenderContext;
use crate::amount::count;
use crate::style::{Ink, clean, wrap};
use crate::table::Labels;

/// Columns if the output is not a terminal.
const WIDTH: usize = 120;
/// Columns of the outcome, and of the name of a check.
const WORD: usize = 12;
const NAME: usize = 16;

/// Returns the report as text. `job` is the job as commands take it: its number, or its name on
/// Kubernetes.
#[must_use]
pub fn verify(report: &VerifyReport, job: &str, context: RenderContext) -> String {
    // 1. The summary.
    let of = |outcome| report.checks.iter().filter(move |check| check.outcome == outcome);
    let job = report.index.map_or(job.to_owned(), |index| format!("{job}[{index}]"));
    let mut text = format!(
        "job {job}: {} on {}: {} passed, {} failed, {} not tested\n\n",
        count(u64::from(report.ranks), "rank"),
        count(report.nodes.len() as u64, "node"),
        of(ProbeOutcome::Passed).count(),
        of(ProbeOutcome::Failed).count(),
        of(ProbeOutcome::NotTested).count(),
    );

    // 2. Each check: failed, then passed, then not tested.
    for outcome in [ProbeOutcome::Failed, ProbeOutcome::Passed, ProbeOutcome::NotTested] {
        text.extend(of(outcome).map(|check| row(check, context)));
    }
    text
}

fn row(check: &VerifyCheck, context: RenderContext) -> String {
    let (word, ink, says) = match check.outcome {
        ProbeOutcome::Passed => ("passed", Ink::Good, clean(&check.text).into_owned()),
        ProbeOutcome::Failed => ("failed", Ink::Bad, clean(&check.text).into_owned()),
        ProbeOutcome::NotTested => {
            ("not tested", Ink::Waiting, format!("needs {}", clean(&check.text)))
        }
    };
    let space = context.width.unwrap_or(WIDTH).saturating_sub(WORD + NAME).max(20);
    let cure = check.cure.as_ref().map(|cure| format!("cure: {}", clean(cure)));
    let lines =
        wrap(&says, space).into_iter().chain(cure.iter().flat_map(|cure| wrap(cure, space)));
    let named = Labels { indent: 0, width: NAME, ink: Ink::Plain };
    let named = named.lines(&clean(&check.check), lines, context);
    Labels { indent: 0, width: WORD, ink }.lines(word, named.lines(), context)
}

#[cfg(test)]
mod tests {
    use muster_model::Time;

    use super::*;

    #[test]
    fn what_is_wrong_stands_first_with_its_cure() {
        let check = |id: &str, outcome, says: &str, cure: Option<&str>| VerifyCheck {
            check: id.to_owned(),
            outcome,
            text: says.to_owned(),
            cure: cure.map(str::to_owned),
        };
        let report = VerifyReport {
            job: 7,
            index: Some(2),
            at: Time(0),
            ranks: 4,
            nodes: vec!["n1".to_owned(), "n2".to_owned()],
            checks: vec![
                check("whole", ProbeOutcome::Passed, "4 ranks on 2 nodes", None),
                check(
                    "strangers",
                    ProbeOutcome::NotTested,
                    "NVIDIA's management library on the nodes",
                    None,
                ),
                check(
                    "leaf-switches",
                    ProbeOutcome::Failed,
                    "2 nodes below 2 leaf switches",
                    Some("ask for one"),
                ),
            ],
        };
        assert_eq!(
            verify(&report, &report.job.to_string(), RenderContext::plain()),
            "job 7[2]: 4 ranks on 2 nodes: 1 passed, 1 failed, 1 not tested\n\n\
             failed      leaf-switches   2 nodes below 2 leaf switches\n\
             \x20                           cure: ask for one\n\
             passed      whole           4 ranks on 2 nodes\n\
             not tested  strangers       needs NVIDIA's management library on the nodes\n"
        );
    }
}
