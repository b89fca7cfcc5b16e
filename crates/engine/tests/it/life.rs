//! The life of jobs: start, restart, cancel, hold, dependencies, arrays.

use muster_model::Outcome;
use muster_model::view::State;

use crate::world::{World, job, node};

#[test]
fn two_gangs_contend_and_start_whole_one_after_the_other() {
    let mut world = World::new(&[node("n1", 8)]);
    world.submit(job("left").tasks(5).gpus(1).limit("20s"));
    world.submit(job("right").tasks(5).gpus(1).limit("20s"));
    world.submit(job("quick").gpus(1).limit("3s"));
    world.expect("left", State::Running);
    world.expect("right", State::Pending);
    world.expect("quick", State::Running);
    world.exit("left", 0);
    world.expect_ended("left", &Outcome::Succeeded);
    world.expect("right", State::Running);
}
