//! Scenarios: one text that says what there is, what happens, and what comes of it, so that it is
//! documentation and test at once. The language is described in `scenarios/README.md`, its reasons
//! in `docs/adr/0009-scenario-language.md`.
//!
//! * `script.rs`, `read.rs`, `command.rs`: text to commands; every mapping in it is a file shape
//!   that `muster-spec` reads
//! * `world.rs`, `act.rs`: commands to the production runtime and engine, with `journal.rs` as its
//!   store
//! * `backend.rs`: tasks that do at once as they are told
//! * `story.rs`, `question.rs`: what happened, as lines
//! * `audit.rs`: what must hold after every line
//! * `golden.rs`: printed beside written
//!
//! It must not hold scheduling logic, read a file or a clock: text in, text out.

mod act;
pub(crate) mod audit;
pub(crate) mod backend;
pub(crate) mod command;
mod golden;
pub(crate) mod host;
mod journal;
mod mistake;
mod question;
mod read;
mod script;
mod story;
mod world;

pub use command::VERBS;
pub use golden::Mismatch;
pub use mistake::Mistake;
pub use script::Script;

use world::World;

/// What running a scenario came to.
#[derive(Clone, Debug)]
pub struct Played {
    /// Steps that printed something else than is written.
    pub mismatches: Vec<Mismatch>,
    /// The text as it would be if what was printed were right.
    pub blessed: String,
}

/// Reads and runs a scenario. `file` is what it is called in messages.
///
/// # Errors
/// A line that cannot be read or carried out, or after which something does not hold that always
/// must.
pub fn play(text: &str, file: &str) -> Result<Played, Mistake> {
    let script = Script::parse(text, file)?;
    let mut world = World::new().map_err(|message| Mistake::at(1, message))?;
    let mut printed = Vec::with_capacity(script.steps.len());
    let mut mismatches = Vec::new();
    for step in &script.steps {
        let lines = world.perform(step)?;
        if lines != step.golden {
            let (expected, printed) = (step.golden.clone(), lines.clone());
            mismatches.push(Mismatch { line: step.ends_at, expected, printed });
        }
        printed.push(lines);
    }
    let blessed = golden::blessed(text, &script, &printed);
    Ok(Played { mismatches, blessed })
}
