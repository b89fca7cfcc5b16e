//! The topology request of a job: one rule, optional slices, and levels that the site has. The
//! engine checks whether a domain is large enough.

use std::sync::Arc;

use muster_model::{Segment, TaskGroup, Topology, TopologyRule};

use crate::diagnostic::{Problem, Problems, show};
use crate::field::{Located, Text};
use crate::job::document::{SegmentDocument, TopologyDocument};
use crate::job::shape::contradiction;
use crate::site::SubmissionSite;
use crate::suggest::nearest;

/// A level as written, and its index from the widest; `None` if the nodes of the site are unknown.
struct Level {
    name: Arc<str>,
    at: Option<usize>,
}

/// Returns the topology request of a job; `None` after a problem.
pub(super) fn topology(
    written: &Located<TopologyDocument>,
    site: &SubmissionSite<'_>,
    groups: &[TaskGroup],
    problems: &mut Problems,
) -> Option<Topology> {
    let TopologyDocument { required, preferred, spread, segment } = &written.value;
    let before = problems.len();
    // 1. One rule.
    let rules = [("required", required), ("preferred", preferred), ("spread", spread)];
    let rules: Vec<_> =
        rules.iter().filter_map(|(name, rule)| Some((*name, rule.as_ref()?))).collect();
    if let [(one, first), (other, second), ..] = &rules[..] {
        let hint = "keep one; `required` also uses few narrower domains".to_owned();
        problems.add(contradiction(other, second.key, one, first.key).hint(hint));
    }
    if rules.is_empty() && segment.is_none() {
        let hint =
            "write `topology: {required: leaf}`, `preferred`, `spread` or `segment`".to_owned();
        problems.add(
            Problem::new("`topology` says nothing").at(written.place, "of which level?").hint(hint),
        );
    }
    // 2. Levels that exist.
    let rule = rules.first().map(|(name, rule)| (*name, *rule, level(rule, site, problems)));
    let segment =
        segment.as_ref().map(|segment| (segment, slices(segment, site, groups, problems)));
    if problems.len() > before {
        return None;
    }
    // 3. Both together.
    if let (Some((name, rule, Some(level))), Some((segment, Some((_, narrow))))) = (&rule, &segment)
    {
        refuse_together((name, rule, level), segment, narrow, problems);
    }
    let rule = match rule {
        None => TopologyRule::Anywhere,
        Some((name, _, level)) => match (name, level?.name) {
            ("required", level) => TopologyRule::Required(level),
            ("preferred", level) => TopologyRule::Preferred(level),
            (_, level) => TopologyRule::Spread(level),
        },
    };
    let segment = match segment {
        None => None,
        Some((_, slices)) => {
            let (tasks, level) = slices?;
            Some(Segment { tasks, level: level.name })
        }
    };
    (problems.len() == before).then_some(Topology { rule, segment })
}

fn refuse_together(
    (name, rule, wide): (&str, &Located<Text>, &Level),
    segment: &Located<SegmentDocument>,
    narrow: &Level,
    problems: &mut Problems,
) {
    if name == "spread" {
        let hint = "to keep slices together, remove `spread`".to_owned();
        problems.add(contradiction("segment", segment.key, "spread", rule.key).hint(hint));
        return;
    }
    if narrow.name == wide.name
        || matches!((narrow.at, wide.at), (Some(narrow), Some(wide)) if narrow <= wide)
    {
        let label = format!(
            "a segment is within one {}, the job within one {}",
            show(&narrow.name),
            show(&wide.name)
        );
        problems.add(
            Problem::new(format!("the level of `segment` is not narrower than that of `{name}`"))
                .at(segment.place, label)
                .also(rule.place, "this level")
                .hint("name a narrower level in `segment`, or remove it".to_owned()),
        );
    }
}

fn level(
    written: &Located<Text>,
    site: &SubmissionSite<'_>,
    problems: &mut Problems,
) -> Option<Level> {
    let name: &str = &written.value.0;
    let found = |at| Some(Level { name: name.into(), at });
    if name == Topology::NODE {
        return found(Some(site.levels.len()));
    }
    if let Some(at) = site.levels.iter().position(|level| **level == *name) {
        return found(Some(at));
    }
    if site.hosts.is_empty() {
        return found(None);
    }
    let problem = Problem::new(format!("there is no topology level {}", show(name)));
    let problem = if site.levels.is_empty() {
        problem
            .at(written.place, "the only level of this site is `node`")
            .hint("levels are declared in the cluster file: `levels: [block, leaf]`".to_owned())
    } else {
        let known = || site.levels.iter().map(|level| &**level).chain([Topology::NODE]);
        let listed: Vec<_> = known().map(|level| format!("`{level}`")).collect();
        let near = nearest(name, known()).map(|near| format!("did you mean `{near}`?"));
        problem.at(written.place, format!("there is {}", listed.join(", "))).hint(near)
    };
    problems.add(problem);
    None
}

/// Returns the slices, which must divide every group, and must not split the tasks of a node.
fn slices(
    written: &Located<SegmentDocument>,
    site: &SubmissionSite<'_>,
    groups: &[TaskGroup],
    problems: &mut Problems,
) -> Option<(u32, Level)> {
    let tasks = written.value.tasks.as_ref()?;
    let name = written.value.level.as_ref()?;
    let count = tasks.value.0 as u32;
    if *name.value.0 == *Topology::NODE {
        let hint = format!("write `tasks-per-node: {count}` instead");
        problems.add(
            Problem::new("`segment` of the level `node`")
                .at(name.place, "these are the tasks of one node")
                .hint(hint),
        );
        return None;
    }
    let level = level(name, site, problems)?;
    for group in groups {
        let all = group.min_tasks;
        let block = group.tasks_per_node.unwrap_or(1);
        let problem = match (all % count, count % block) {
            (0, 0) => continue,
            (0, _) => Problem::new("`segment` splits the tasks of a node")
                .at(tasks.place, format!("{block} tasks are on each node"))
                .hint(format!("write `tasks: {}`", count.div_ceil(block) * block)),
            (over, _) => Problem::new("the tasks do not divide into segments")
                .at(tasks.place, format!("{all} tasks of {} leave {over} over", show(&group.name)))
                .hint(divisor(all, count, block).map(|near| format!("write `tasks: {near}`"))),
        };
        problems.add(problem);
        return None;
    }
    Some((count, level))
}

/// Returns the largest size of a segment up to the written one that divides the tasks and is a
/// multiple of the tasks of a node.
fn divisor(tasks: u32, written: u32, block: u32) -> Option<u32> {
    (1..=written)
        .rev()
        .find(|size| tasks.is_multiple_of(*size) && size.is_multiple_of(block) && *size > 1)
}
