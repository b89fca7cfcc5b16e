//! Makes a trace from a recipe. The same recipe and seed make the same trace; chance comes in as
//! the seed alone.

pub(crate) mod draw;
mod kueue;
mod mix;

use muster_spec::TraceJob;
use muster_spec::recipe::Recipe;

/// The jobs of a recipe, in the order of their submits. `most` ends a mix early; what Kueue's
/// generator creates is complete.
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
