//! Generates topology.conf: the levels of a cluster file as a tree of switches with one root.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use muster_model::hostlist;

use super::InitInput;

/// Root switch above several widest domains: without a common root no job can use nodes of two of
/// them.
pub const ROOT_SWITCH: &str = "all-nodes";
/// Switch of nodes without a known place: nodes below no switch are left out of every gang.
pub const UNPLACED_SWITCH: &str = "unplaced";

/// Beginning of the comment that names the levels, widest first, as switches have none.
pub const LEVELS: &str = "# Levels of the cluster file, widest first: ";

/// Text of the file, and a note for the administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopologyFile {
    pub(super) text: String,
    pub(super) note: Option<String>,
}

/// The file; none where no node has a place.
pub(super) fn text(order: &InitInput<'_>) -> Option<TopologyFile> {
    // 1. Domains in order of first sight, each with what is directly below it.
    let placed = order.nodes.iter().filter(|node| !node.domains.is_empty());
    let mut leaves: Vec<(Arc<str>, Vec<&str>)> = Vec::new();
    let mut above: Vec<(usize, Arc<str>, Vec<String>)> = Vec::new();
    let names = SwitchNames::of(order);
    for node in placed {
        let leaf = node.domains.last().expect("a placed node has a domain of every level");
        match leaves.iter_mut().find(|(known, _)| known == leaf) {
            Some((_, nodes)) => nodes.push(node.name.as_str()),
            None => leaves.push((Arc::clone(leaf), vec![node.name.as_str()])),
        }
        for (level, pair) in node.domains.windows(2).enumerate() {
            let below = names.switch(level + 1, &pair[1]);
            match above.iter_mut().find(|(own, name, _)| *own == level && *name == pair[0]) {
                Some((_, _, switches)) if switches.contains(&below) => {}
                Some((_, _, switches)) => switches.push(below),
                None => above.push((level, Arc::clone(&pair[0]), vec![below])),
            }
        }
    }
    let last = order.levels.len().checked_sub(1).filter(|_| !leaves.is_empty())?;
    above.sort_by_key(|(level, ..)| std::cmp::Reverse(*level));

    // 2. Leaves, what is above them, and one root.
    let mut text = String::from(
        "\
# topology.conf: which nodes are connected to which switch. A gang is placed below as few leaf switches as possible, and
# `--switches=1` waits for one. Compare with the cabling, as shown by `ibnetdiscover` or the switches' own tables.
",
    );
    let _ = writeln!(text, "{LEVELS}{}", order.levels.join(", "));
    for (leaf, nodes) in &leaves {
        line(&mut text, &names.switch(last, leaf), "Nodes", nodes);
    }
    let lost = unplaced(order);
    if !lost.is_empty() {
        text.push_str(
            "# The cluster file has no place for these nodes; move them to their switch.\n",
        );
        line(&mut text, UNPLACED_SWITCH, "Nodes", &lost);
    }
    for (level, name, switches) in &above {
        line(&mut text, &names.switch(*level, name), "Switches", switches);
    }
    let roots = roots(order, &names);
    if roots.len() > 1 {
        text.push_str("# Root switch, so that a job can use nodes of all of them.\n");
        line(&mut text, ROOT_SWITCH, "Switches", &roots);
    }
    let note = (!lost.is_empty()).then(|| {
        format!("topology: {} nodes have no domain in the cluster file; they are below a separate switch, `{UNPLACED_SWITCH}`", lost.len())
    });
    Some(TopologyFile { text, note })
}

fn line(text: &mut String, switch: &str, key: &str, names: &[impl AsRef<str>]) {
    let names = hostlist::folded(names.iter().map(AsRef::as_ref));
    let _ = writeln!(text, "SwitchName={switch} {key}={names}");
}

/// Returns the nodes without a place in the topology.
fn unplaced<'a>(order: &InitInput<'a>) -> Vec<&'a str> {
    let unplaced = order.nodes.iter().filter(|node| node.domains.is_empty());
    unplaced.map(|node| node.name.as_str()).collect()
}

/// Returns the switches without a parent, in order of their first node.
fn roots(order: &InitInput<'_>, names: &SwitchNames<'_>) -> Vec<String> {
    let mut roots: Vec<String> = Vec::new();
    for node in order.nodes {
        let root = match node.domains.first() {
            Some(widest) => names.switch(0, widest),
            None => UNPLACED_SWITCH.to_owned(),
        };
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    roots
}

/// Names of switches, which are unique, while domains are unique per level only: a domain name that
/// two levels share is prefixed with the level.
struct SwitchNames<'a> {
    levels: &'a [Arc<str>],
    twice: BTreeSet<Arc<str>>,
}

impl<'a> SwitchNames<'a> {
    fn of(order: &InitInput<'a>) -> Self {
        let mut levels_of: BTreeMap<Arc<str>, BTreeSet<usize>> = BTreeMap::new();
        for node in order.nodes {
            for (level, domain) in node.domains.iter().enumerate() {
                levels_of.entry(Arc::clone(domain)).or_default().insert(level);
            }
        }
        let twice = levels_of
            .into_iter()
            .filter(|(_, levels)| levels.len() > 1)
            .map(|(name, _)| name)
            .collect();
        Self { levels: order.levels, twice }
    }

    fn switch(&self, level: usize, domain: &Arc<str>) -> String {
        if self.twice.contains(domain) {
            format!("{}-{domain}", self.levels[level])
        } else {
            domain.to_string()
        }
    }
}
