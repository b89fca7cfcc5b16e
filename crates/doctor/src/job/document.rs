//! docs/verify.md, made from the checks themselves.

use std::fmt::Write as _;

use super::check::CHECKS;

const INTRODUCTION: &str = "\
# Verify: whether a job got what it was given

Made by `muster __docs verify` from the checks that `muster verify` itself makes; a test compares the two. Every id that an answer shows
is a heading here.

- `muster verify JOB` puts a probe beside the ranks of a job that runs, on each of its nodes. It reads the environment and the limits of the
  real processes, with those that they started: what each is told, which device files of GPUs it has open, and, where NVIDIA's library tells,
  which GPU it is on. It never connects to a port of theirs, and looks again before it says that a rank is missing. Of a job that has ended only what it printed is looked at.
- `verify: true` in a job checks before the program starts, on Slurm: every rank starts the probe in its own place first. What fails ends
  the job with exit code 78; what could not be tested does not. It takes a few seconds; what has not answered within 30 is not waited for.
- A check has three outcomes: it **passed**, it **failed**, or it was **not tested**, and then the answer says what would be needed.
  Nothing that was not looked at passes.
- `muster verify` exits 0 when nothing failed, 1 when something did; with `--strict` also when something was not tested.
";

/// The whole document, as Markdown.
#[must_use]
pub fn document() -> String {
    let mut text = String::from(INTRODUCTION);
    for check in CHECKS {
        let _ = writeln!(
            text,
            "\n### {}\n\n**{}**\n\n- *if not*: {}\n- *cure*: {}",
            check.id, check.title, check.meaning, check.cure
        );
    }
    text
}
