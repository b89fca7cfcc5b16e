//! Limits of sweeps on Kubernetes: their values must fit into a command and into an annotation.

use muster_model::sweep::Points;

use super::command::words;
use super::sweep::annotation;
use super::{JobShape, RenderInput};

/// Most bytes of one argument of a program: Linux allows 32 pages of 4 KiB, of which one byte ends it.
const MAX_ARGUMENT_BYTES: usize = (128 << 10) - 1;
/// Most bytes of the commands of all containers of a pod: half of what etcd stores as one object (1.5 MiB), as JSON
/// escapes some letters.
const MAX_POD_BYTES: usize = 768 << 10;
/// Most bytes of the annotation: all of an object have 256 KiB, and those of a job's user are small.
const MAX_ANNOTATION_BYTES: usize = 240 << 10;
/// Share of the computed number of points that is named in a refusal, in percent: it counts what all points share, too.
const NAMED_PERCENT: usize = 95;

/// Refuses sweeps whose values do not fit into an object or a command.
pub(super) fn unsupported(input: &RenderInput<'_>, refuse: &mut impl FnMut(&str, &str)) {
    let Some(sweep) = input.sweep else { return };
    let job = JobShape::of(input);
    let of_role = |role| words(&job, role, 0).iter().map(String::len).max().unwrap_or(0);
    let argument = job.roles.iter().map(of_role).max().unwrap_or(0);
    let containers = job.roles.iter().map(|role| role.tasks_per_pod as usize).max().unwrap_or(1);
    let most = MAX_ARGUMENT_BYTES.min(MAX_POD_BYTES / containers.max(1));
    let sizes = [
        (argument, most, "the command of a container"),
        (annotation(sweep).len(), MAX_ANNOTATION_BYTES, "the annotations of a Job"),
    ];
    // The one that leaves the fewest points.
    let too_large = sizes.into_iter().filter(|(bytes, most, _)| bytes > most);
    let Some((bytes, most, place)) = too_large.max_by_key(|(bytes, most, _)| bytes * 1000 / most)
    else {
        return;
    };
    let points = sweep.count().unwrap_or(u32::MAX) as usize;
    match sweep.points {
        Points::Rows => refuse(
            &format!(
                "a sweep of {points} points: its values take {bytes} bytes of {place}, which has {most}; about {} points fit",
                points * most / bytes * NAMED_PERCENT / 100
            ),
            "submit it in parts: fewer rows in each file, or fewer `samples` with a `seed` of their own",
        ),
        Points::Grid => refuse(
            &format!(
                "the lists of values of this sweep take {bytes} bytes of {place}, which has {most}"
            ),
            "write shorter lists, or submit parts of them as sweeps of their own",
        ),
    }
}
