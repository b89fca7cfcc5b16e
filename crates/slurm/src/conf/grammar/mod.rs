//! Grammar of Slurm's configuration files: the keys of each kind of line, and the kind of value of
//! each key. The tables cover all keys of releases 20.11 to 25.11. Only the syntax is checked, no
//! setting is judged.

mod keys;

pub use keys::{CGROUP, DBD, DOWN_NODES, NODE, NODE_SET, PARTITION, SETTINGS, SWITCH};

/// Kind of value that a key takes.
#[derive(Clone, Copy, Debug)]
pub enum ValueKind {
    /// Any text at all.
    Any,
    /// Unsigned number, or one of the words for no limit.
    Count,
    /// Unsigned number below 65536, or one of the words for no limit.
    Short,
    /// Decimal number, optionally with a percent sign.
    Share,
    /// Yes or no, in Slurm's spellings.
    Switch,
    /// Minutes, `HH:MM:SS`, `D-HH:MM:SS`, or a word for no limit.
    Length,
    /// One word of a list.
    OneOf(&'static [&'static str]),
    /// List of these words; each may be followed by `=` or `:` and a value.
    Each(&'static [&'static str]),
    /// One plugin, or a list of plugins: type, and the names that come with Slurm.
    Plugin(&'static str, &'static [&'static str]),
    /// List of hosts, such as `node[01-04]`.
    Hosts,
    /// List of trackable resources, each with `=` and a number.
    Weights,
    /// List of trackable resources, without numbers.
    Resources,
}

/// Keys that take the same kind of value, separated by blanks.
pub type KeyGroup = (ValueKind, &'static str);

/// Words for no limit.
const NO_LIMIT: [&str; 3] = ["infinite", "unlimited", "-1"];
/// Types of trackable resources.
const KINDS: [&str; 12] = [
    "bb", "billing", "cpu", "energy", "fs", "gres", "ic", "license", "mem", "node", "pages", "vmem",
];
/// Largest 16-bit number; Slurm reads the two largest values as no limit and as unset.
const SHORT: u64 = 0xffff;
const LONG: u64 = 0xffff_ffff;

/// Returns the kind of value that a key takes; `None` where no release has the key.
#[must_use]
pub fn takes(table: &[KeyGroup], key: &str) -> Option<ValueKind> {
    let has = |names: &str| names.split_whitespace().any(|name| name.eq_ignore_ascii_case(key));
    table.iter().find(|(_, names)| has(names)).map(|(takes, _)| *takes)
}

/// Returns the known key most similar to an unknown one, if it is similar enough.
#[must_use]
pub fn nearest(table: &[KeyGroup], key: &str) -> Option<&'static str> {
    /// Maximum edit distance of a suggestion.
    const MAX_DISTANCE: usize = 3;
    let names = table.iter().flat_map(|(_, names)| names.split_whitespace());
    let lower = key.to_ascii_lowercase();
    let near =
        names.map(|name| (strsim::levenshtein(&lower, &name.to_ascii_lowercase()), name)).min();
    near.filter(|(far, name)| *far < MAX_DISTANCE && *far * 3 <= name.len()).map(|(_, name)| name)
}

impl ValueKind {
    /// Returns the expected form for a value that the key does not take; `None` where the value is
    /// valid.
    #[must_use]
    pub fn expected_form(self, value: &str) -> Option<String> {
        let is = |word: &&&str| word.eq_ignore_ascii_case(value.trim());
        let list = |words: &[&str]| format!("one of {}", words.join(", "));
        match self {
            ValueKind::Any => None,
            ValueKind::Count => number(value, LONG),
            ValueKind::Short => number(value, SHORT),
            ValueKind::Share => {
                let is_right =
                    value.trim_end_matches('%').parse::<f32>().is_ok_and(|share| share >= 0.0);
                (!is_right).then(|| "a number, in percent".to_owned())
            }
            ValueKind::Switch => {
                const WORDS: [&str; 8] = ["yes", "up", "true", "1", "no", "down", "false", "0"];
                (!WORDS.iter().any(|word| is(&word))).then(|| "yes or no".to_owned())
            }
            ValueKind::Length => length(value),
            ValueKind::OneOf(words) => (!words.iter().any(|word| is(&word))).then(|| list(words)),
            ValueKind::Each(words) => {
                let knows = |part: &str| {
                    let bare = part.trim().split(['=', ':']).next().unwrap_or_default();
                    bare.is_empty() || words.iter().any(|word| word.eq_ignore_ascii_case(bare))
                };
                let odd = value.split(',').find(|part| !knows(part))?;
                Some(format!("`{}` is not one of {}", odd.trim(), words.join(", ")))
            }
            ValueKind::Plugin(kind, names) => plugin(value, kind, names),
            ValueKind::Hosts => muster_model::hostlist::expand(value)
                .is_err()
                .then(|| "a list such as node[01-04,7]".to_owned()),
            ValueKind::Weights => {
                let is_weight = |part: &str| {
                    part.split_once('=').is_some_and(|(name, weight)| {
                        let digits = weight
                            .trim_end_matches(['K', 'M', 'G', 'T', 'P', 'k', 'm', 'g', 't', 'p']);
                        is_resource(name)
                            && !digits.is_empty()
                            && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
                    })
                };
                let odd = value
                    .split(',')
                    .find(|part| !part.trim().is_empty() && !is_weight(part.trim()))?;
                Some(format!(
                    "`{}` is not a resource with a number, such as GRES/gpu=1.0",
                    odd.trim()
                ))
            }
            ValueKind::Resources => {
                let odd = value
                    .split(',')
                    .find(|part| !part.trim().is_empty() && !is_resource(part.trim()))?;
                Some(format!(
                    "`{}` is not a resource, such as gres/gpu or license/NAME",
                    odd.trim()
                ))
            }
        }
    }
}

fn is_resource(name: &str) -> bool {
    let (kind, own) = name.split_once('/').map_or((name, None), |(kind, own)| (kind, Some(own)));
    let is_kind = KINDS.iter().any(|known| known.eq_ignore_ascii_case(kind));
    let needs_name =
        ["gres", "license", "fs", "bb", "ic"].iter().any(|known| known.eq_ignore_ascii_case(kind));
    is_kind && own.is_some_and(|own| !own.is_empty()) == needs_name
}

fn number(value: &str, most: u64) -> Option<String> {
    let value = value.trim();
    if NO_LIMIT[..2].iter().any(|word| word.eq_ignore_ascii_case(value)) {
        return None;
    }
    let read = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => value.parse::<u64>().ok(),
    };
    match read {
        None => Some("a number without sign or unit".to_owned()),
        Some(read) if read > most => Some(format!("a number of at most {most}")),
        Some(_) => None,
    }
}

fn length(value: &str) -> Option<String> {
    let is_word = NO_LIMIT.iter().chain(&["none"]).any(|word| word.eq_ignore_ascii_case(value));
    let is_clock = value.starts_with(|c: char| c.is_ascii_digit())
        && value.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'-'));
    (!is_word && !is_clock).then(|| "minutes, HH:MM:SS, D-HH:MM:SS or UNLIMITED".to_owned())
}

fn plugin(value: &str, kind: &str, names: &[&str]) -> Option<String> {
    let knows = |part: &str| {
        let part = part.trim().to_ascii_lowercase();
        let name = part.strip_prefix(kind).and_then(|rest| rest.strip_prefix('/')).unwrap_or(&part);
        part.is_empty() || names.contains(&name)
    };
    let odd = value.split(',').find(|part| !knows(part))?;
    Some(format!("Slurm has no plugin `{}`: {kind}/ has {}", odd.trim(), names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_that_a_key_takes() {
        for (key, value, is_right) in [
            ("KillWait", "30", true),
            ("killwait", "0x1e", true),
            ("KillWait", "UNLIMITED", true),
            ("KillWait", "70000", false),
            ("KillWait", "5min", false),
            ("KillWait", "-1", false),
            ("MaxJobCount", "70000", true),
            ("UsePAM", "2", false),
            ("UsePAM", "Yes", true),
            ("PriorityMaxAge", "7-0", true),
            ("PriorityMaxAge", "abc", false),
            ("SchedulerType", "sched/backfill", true),
            ("SchedulerType", "sched/foo", false),
            ("TaskPlugin", "affinity,task/cgroup", true),
            ("PrologFlags", "Alloc,contain", true),
            ("PrologFlags", "Foo", false),
            ("PriorityWeightTRES", "CPU=1000,GRES/gpu=2.5", true),
            ("PriorityWeightTRES", "foo=1", false),
            ("AccountingStorageTRES", "gres/gpu:h100,license/x", true),
            ("AccountingStorageTRES", "gres/", false),
        ] {
            let refused = takes(SETTINGS, key).unwrap().expected_form(value);
            assert_eq!(refused.is_none(), is_right, "{key}={value}: {refused:?}");
        }
    }

    #[test]
    fn a_key_is_known_in_its_own_kind_of_line_and_once() {
        assert!(takes(SETTINGS, "SlurmctldTimout").is_none());
        assert_eq!(nearest(SETTINGS, "SlurmctldTimout"), Some("SlurmctldTimeout"));
        assert_eq!(nearest(SETTINGS, "Whatever"), None);
        assert!(takes(NODE, "CPUs").is_some() && takes(SETTINGS, "CPUs").is_none());
        for table in [SETTINGS, NODE, PARTITION, NODE_SET, DOWN_NODES, SWITCH, CGROUP, DBD] {
            let mut names: Vec<String> = table
                .iter()
                .flat_map(|(_, names)| names.split_whitespace().map(str::to_ascii_lowercase))
                .collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
