//! topology.conf: the levels of a cluster file as a tree of switches with one root. It places
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use super::Order;

/// The switch above all, where the cluster file has several widest domains: without a common root
/// no job can have nodes of two of them.
pub const ROOT_SWITCH: &str = "all-nodes";
/// The switch of nodes whose place nobody has said: a node below no switch is left out of every
/// gang.
pub const UNPLACED_SWITCH: &str = "unplaced";

/// What the comment begins with that names the levels, the widest first: switches have none.
pub const LEVELS: &str = "# Levels of the cluster file, widest first: ";

/// The file, and what people should know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Topology {
    pub(super) text: String,
    pub(super) note: Option<String>,
}

/// The file; none where no node has a place.
pub(super) fn text(order: &Order<'_>) -> Option<Topology> {
    // 1. Domains in order of first sight, each with what is directly below it.
    let placed = order.nodes.iter().filter(|node| !node.domains.is_empty());
    let mut leaves: Vec<(Arc<str>, Vec<&str>)> = Vec::new();
    let mut above: Vec<(usize, Arc<str>, Vec<String>)> = Vec::new();
    let names = Names::of(order);
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
# topology.conf: which nodes hang on which switch. A gang is placed below as few leaf switches as can be, and `--switches=1` waits
# for one. Compare with the cabling: `ibnetdiscover` or the switches' own tables know it.
",
    );
    let _ = writeln!(text, "{LEVELS}{}", order.levels.join(", "));
    for (leaf, nodes) in &leaves {
        let _ =
            writeln!(text, "SwitchName={} Nodes={}", names.switch(last, leaf), (order.fold)(nodes));
    }
    let lost: Vec<&str> = order
        .nodes
        .iter()
        .filter(|node| node.domains.is_empty())
        .map(|node| node.name.as_str())
        .collect();
    if !lost.is_empty() {
        text.push_str(
            "# The cluster file does not say where these are; move them to their switch.\n",
        );
        let _ = writeln!(text, "SwitchName={UNPLACED_SWITCH} Nodes={}", (order.fold)(&lost));
    }
    for (level, name, switches) in &above {
        let switches: Vec<&str> = switches.iter().map(String::as_str).collect();
        let _ = writeln!(
            text,
            "SwitchName={} Switches={}",
            names.switch(*level, name),
            (order.fold)(&switches)
        );
    }
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
    if roots.len() > 1 {
        let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
        text.push_str("# What joins all of them, so that a job may have nodes of several.\n");
        let _ = writeln!(text, "SwitchName={ROOT_SWITCH} Switches={}", (order.fold)(&roots));
    }
    let note = (!lost.is_empty()).then(|| {
        format!("topology: {} nodes have no domain in the cluster file; they are below a switch of their own, `{UNPLACED_SWITCH}`", lost.len())
    });
    Some(Topology { text, note })
}

/// Switches have one name each, domains one per level: where two levels have the same, the level is
/// put before it.
struct Names<'a> {
    levels: &'a [Arc<str>],
    twice: BTreeSet<Arc<str>>,
}

impl<'a> Names<'a> {
    fn of(order: &Order<'a>) -> Self {
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
        match self.twice.contains(domain) {
            true => format!("{}-{domain}", self.levels[level]),
            false => domain.to_string(),
        }
    }
}
