//! Generates a trace from a recipe. The same recipe and seed give the same trace.

pub(crate) mod draw;
mod kueue;
mod mix;

use muster_spec::TraceJob;
use muster_spec::recipe::Recipe;

/// Returns the jobs of a recipe in order of submission. `most` ends a mix early; Kueue's workloads
/// are complete.
pub fn generate(
    recipe: &Recipe,
    seed: u64,
    most: Option<u64>,
) -> Box<dyn Iterator<Item = TraceJob> + '_> {
    match recipe {
        Recipe::Mix(recipe) => {
            let most = most.or(recipe.jobs).unwrap_or(u64::MAX);
            Box::new(mix::jobs(recipe, seed).take(usize::try_from(most).unwrap_or(usize::MAX)))
        }
        Recipe::Kueue(queues) => Box::new(kueue::jobs(queues).into_iter()),
    }
}
