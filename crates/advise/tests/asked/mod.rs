//! Facts of one workload in short words, for the tables of tests. Asserts nothing.

use muster_advise::advise;
use muster_model::advice::{Advice, Fact, FactValue, Facts, Flip, Label, Ruleset, Thresholds};

/// The flags in the order of the guide, with the short words of the tables.
pub const FLAGS: [(&str, Fact); 6] = [
    ("coupled", Fact::TightlyCoupled),
    ("bare", Fact::BareMetal),
    ("services", Fact::LongLivedServices),
    ("tenants", Fact::MultiTenant),
    ("python", Fact::PythonNativePipeline),
    ("edge", Fact::EdgeOrDev),
];

/// `"8 coupled bare"`: nodes, when there is a number, and the flags that are set.
pub fn facts(words: &str) -> Facts {
    words.split_whitespace().fold(Facts::default(), |facts, word| {
        match FLAGS.iter().find(|(name, _)| *name == word) {
            Some((_, flag)) => facts.with(*flag, 1),
            None => facts
                .with(Fact::Nodes, word.parse().expect("a flag of the table or a number of nodes")),
        }
    })
}

/// All 64 combinations of the flags with this many nodes.
pub fn combinations(nodes: u32) -> impl Iterator<Item = Facts> {
    (0..64u32).map(move |bits| flags(bits).with(Fact::Nodes, nodes))
}

/// The flags whose bits are set, the first of the list in the lowest bit.
pub fn flags(bits: u32) -> Facts {
    let set = FLAGS.iter().enumerate();
    set.fold(Facts::default(), |facts, (bit, (_, flag))| facts.with(*flag, (bits >> bit) & 1))
}

/// Returns the advice for facts in words, with default thresholds and rules.
#[allow(dead_code, reason = "not every test file asks for the whole answer")]
pub fn asked(words: &str) -> Advice {
    advise(&facts(words), &Thresholds::default(), Ruleset::Corrected)
}

/// Facts with the change of a flip.
#[allow(dead_code, reason = "not every test file looks at flips")]
pub fn changed(facts: &Facts, flip: &Flip) -> Facts {
    flip.change.0.iter().fold(*facts, |facts, (fact, value)| facts.with(*fact, stored(*value)))
}

/// A value as facts store it.
#[allow(dead_code, reason = "not every test file looks at flips")]
pub fn stored(value: FactValue) -> u32 {
    match value {
        FactValue::Flag(flag) => u32::from(flag),
        FactValue::Count(number) | FactValue::Hundredths(number) => number,
    }
}

/// The label as tuple.
#[allow(dead_code, reason = "not every test file compares whole labels")]
pub fn parts(label: &Label) -> (&'static str, &str, Option<&str>) {
    (label.primary.name(), &label.addon, label.hybrid.as_deref())
}
