//! Scenarios: a text with a cluster, events and the expected transcript, so that it is
//! documentation and test at once. The language is described in `scenarios/README.md`, its reasons
//! in `docs/adr/0009-scenario-language.md`.
//!
//! * `script.rs`, `read.rs`, `command.rs`: text to commands; every mapping in it is a file format
//!   that `muster-spec` reads
//! * `world.rs`, `act.rs`: commands to the production runtime and engine, on a `FaultyStore`
//! * `backend.rs`: tasks that carry out orders at once
//! * `transcript.rs`, `question.rs`: events and answers as lines
//! * `audit.rs`: invariants after every line
//! * `golden.rs`: printed and expected transcripts
//!
//! It must not hold scheduling logic, read a file or a clock: text in, text out.

mod act;
pub(crate) mod audit;
pub(crate) mod backend;
pub(crate) mod command;
mod golden;
pub(crate) mod host;
mod question;
mod read;
mod script;
mod script_error;
mod time_of_day;
mod transcript;
mod usage_account;
mod world;

pub use command::VERBS;
pub use golden::Mismatch;
pub use script::ScenarioScript;
pub use script_error::ScriptError;

use world::ScenarioWorld;

/// Result of a scenario.
#[derive(Clone, Debug)]
pub struct ScenarioResult {
    /// Steps that printed something unexpected.
    pub mismatches: Vec<Mismatch>,
    /// The script with the printed transcripts.
    pub blessed: String,
}

/// Reads and runs a scenario. `file` is its name in messages.
///
/// # Errors
/// A line that cannot be read or executed, or after which an invariant is violated.
pub fn play(text: &str, file: &str) -> Result<ScenarioResult, ScriptError> {
    let script = ScenarioScript::parse(text, file)?;
    let mut world = ScenarioWorld::new().map_err(|message| ScriptError::at(1, message))?;
    let mut printed = Vec::with_capacity(script.steps.len());
    let mut mismatches = Vec::new();
    for step in &script.steps {
        let lines = world.perform(step)?;
        if lines != step.golden {
            let expected = step.golden.clone();
            let printed = lines.clone();
            mismatches.push(Mismatch { line: step.ends_at, expected, printed });
        }
        printed.push(lines);
    }
    let blessed = golden::with_transcripts(text, &script, &printed);
    Ok(ScenarioResult { mismatches, blessed })
}
