//! Options of sbatch(1) and srun(1): long and short names, and whether they take a value. A table
//! only; `meaning.rs` translates the options.

/// Number of values that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionArity {
    /// The option takes no value.
    Nothing,
    /// Required value, after `=` or a blank.
    Value,
    /// Optional value, after `=`.
    Perhaps,
}

use OptionArity::{Nothing, Perhaps, Value};

/// Option in the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct SbatchOption {
    /// Long name in current releases.
    pub(super) name: &'static str,
    /// One-letter name, if any.
    pub(super) short: Option<char>,
    pub(super) takes: OptionArity,
}

const fn known(name: &'static str, short: char, takes: OptionArity) -> SbatchOption {
    SbatchOption { name, short: if short == ' ' { None } else { Some(short) }, takes }
}

/// Options of sbatch 20.11 to 25.05.
pub(super) const SBATCH: &[SbatchOption] = &[
    known("account", 'A', Value),
    known("acctg-freq", ' ', Value),
    known("array", 'a', Value),
    known("batch", ' ', Value),
    known("bb", ' ', Value),
    known("bbf", ' ', Value),
    known("begin", 'b', Value),
    known("chdir", 'D', Value),
    known("cluster-constraint", ' ', Value),
    known("clusters", 'M', Value),
    known("comment", ' ', Value),
    known("consolidate-segments", ' ', Nothing),
    known("constraint", 'C', Value),
    known("container", ' ', Value),
    known("container-id", ' ', Value),
    known("contiguous", ' ', Nothing),
    known("core-spec", 'S', Value),
    known("cores-per-socket", ' ', Value),
    known("cpu-freq", ' ', Value),
    known("cpus-per-gpu", ' ', Value),
    known("cpus-per-task", 'c', Value),
    known("deadline", ' ', Value),
    known("delay-boot", ' ', Value),
    known("dependency", 'd', Value),
    known("distribution", 'm', Value),
    known("error", 'e', Value),
    known("exclude", 'x', Value),
    known("exclusive", ' ', Perhaps),
    known("export", ' ', Value),
    known("export-file", ' ', Value),
    known("extra", ' ', Value),
    known("extra-node-info", 'B', Value),
    known("get-user-env", ' ', Perhaps),
    known("gid", ' ', Value),
    known("gpu-bind", ' ', Value),
    known("gpu-freq", ' ', Value),
    known("gpus", 'G', Value),
    known("gpus-per-node", ' ', Value),
    known("gpus-per-socket", ' ', Value),
    known("gpus-per-task", ' ', Value),
    known("gres", ' ', Value),
    known("gres-flags", ' ', Value),
    known("help", 'h', Nothing),
    known("hint", ' ', Value),
    known("hold", 'H', Nothing),
    known("ignore-pbs", ' ', Nothing),
    known("immediate", 'I', Perhaps),
    known("input", 'i', Value),
    known("job-name", 'J', Value),
    known("kill-on-invalid-dep", ' ', Value),
    known("licenses", 'L', Value),
    known("mail-type", ' ', Value),
    known("mail-user", ' ', Value),
    known("mcs-label", ' ', Value),
    known("mem", ' ', Value),
    known("mem-bind", ' ', Value),
    known("mem-per-cpu", ' ', Value),
    known("mem-per-gpu", ' ', Value),
    known("mincpus", ' ', Value),
    known("network", ' ', Value),
    known("nice", ' ', Perhaps),
    known("no-kill", 'k', Perhaps),
    known("no-requeue", ' ', Nothing),
    known("nodefile", 'F', Value),
    known("nodelist", 'w', Value),
    known("nodes", 'N', Value),
    known("ntasks", 'n', Value),
    known("ntasks-per-core", ' ', Value),
    known("ntasks-per-gpu", ' ', Value),
    known("ntasks-per-node", ' ', Value),
    known("ntasks-per-socket", ' ', Value),
    known("open-mode", ' ', Value),
    known("output", 'o', Value),
    known("overcommit", 'O', Nothing),
    known("oversubscribe", 's', Nothing),
    known("parsable", ' ', Perhaps),
    known("partition", 'p', Value),
    known("power", ' ', Value),
    known("prefer", ' ', Value),
    known("priority", ' ', Value),
    known("profile", ' ', Value),
    known("propagate", ' ', Perhaps),
    known("qos", 'q', Value),
    known("quiet", 'Q', Nothing),
    known("reboot", ' ', Nothing),
    known("requeue", ' ', Nothing),
    known("reservation", ' ', Value),
    known("resv-ports", ' ', Perhaps),
    known("segment", ' ', Value),
    known("signal", ' ', Value),
    known("sockets-per-node", ' ', Value),
    known("spread-job", ' ', Nothing),
    known("stepmgr", ' ', Nothing),
    known("switches", ' ', Value),
    known("test-only", ' ', Nothing),
    known("thread-spec", ' ', Value),
    known("threads-per-core", ' ', Value),
    known("time", 't', Value),
    known("time-min", ' ', Value),
    known("tmp", ' ', Value),
    known("tres-bind", ' ', Value),
    known("tres-per-task", ' ', Value),
    known("uid", ' ', Value),
    known("usage", 'u', Nothing),
    known("use-min-nodes", ' ', Nothing),
    known("verbose", 'v', Nothing),
    known("version", 'V', Nothing),
    known("wait", 'W', Nothing),
    known("wait-all-nodes", ' ', Value),
    known("wckey", ' ', Value),
    known("wrap", ' ', Value),
    known("x11", ' ', Perhaps),
];

/// Options of srun that sbatch lacks, or that take a value in srun only.
pub(super) const SRUN: &[SbatchOption] = &[
    known("accel-bind", ' ', Value),
    known("bcast", ' ', Perhaps),
    known("compress", ' ', Perhaps),
    known("cpu-bind", ' ', Value),
    known("disable-status", 'X', Nothing),
    known("epilog", ' ', Value),
    known("exact", ' ', Nothing),
    known("export", ' ', Value),
    known("het-group", ' ', Value),
    known("interactive", ' ', Nothing),
    known("jobid", ' ', Value),
    known("kill-on-bad-exit", 'K', Perhaps),
    known("label", 'l', Nothing),
    known("mpi", ' ', Value),
    known("msg-timeout", ' ', Value),
    known("multi-prog", ' ', Nothing),
    known("no-allocate", 'Z', Nothing),
    known("overlap", ' ', Nothing),
    known("preserve-env", 'E', Nothing),
    known("prolog", ' ', Value),
    known("pty", ' ', Perhaps),
    known("quit-on-interrupt", ' ', Nothing),
    known("relative", 'r', Value),
    known("send-libs", ' ', Perhaps),
    known("slurmd-debug", ' ', Value),
    known("task-epilog", ' ', Value),
    known("task-prolog", ' ', Value),
    known("threads", 'T', Value),
    known("unbuffered", 'u', Nothing),
    known("wait", 'W', Value),
    known("whole", ' ', Nothing),
];

/// Options of Pyxis, a common plugin for sbatch and srun.
pub(super) const PYXIS: &[SbatchOption] = &[
    known("container-entrypoint", ' ', Nothing),
    known("container-entrypoint-log", ' ', Nothing),
    known("container-env", ' ', Value),
    known("container-image", ' ', Value),
    known("container-mount-home", ' ', Nothing),
    known("container-mounts", ' ', Value),
    known("container-name", ' ', Value),
    known("container-readonly", ' ', Nothing),
    known("container-remap-root", ' ', Nothing),
    known("container-save", ' ', Value),
    known("container-workdir", ' ', Value),
    known("container-writable", ' ', Nothing),
    known("no-container-entrypoint", ' ', Nothing),
    known("no-container-mount-home", ' ', Nothing),
    known("no-container-remap-root", ' ', Nothing),
];

/// Earlier names of options.
const OLD: &[(&str, &str)] = &[
    ("cluster", "clusters"),
    ("mincores", "cores-per-socket"),
    ("minsockets", "sockets-per-node"),
    ("minthreads", "threads-per-core"),
    ("share", "oversubscribe"),
    ("workdir", "chdir"),
];

/// Alternative names of options.
const ALIASES: &[(&str, &str)] =
    &[("tasks-per-node", "ntasks-per-node"), ("extra-node-info", "extra-node-info")];

/// Options that Slurm deprecates, with their replacement.
pub(super) const DEPRECATED: &[(&str, &str)] = &[
    ("batch", "nothing: heterogeneous jobs replaced it"),
    ("cluster", "--clusters"),
    ("extra-node-info", "--sockets-per-node, --cores-per-socket, --threads-per-core"),
    ("gid", "nothing"),
    ("immediate", "nothing"),
    ("mincores", "--cores-per-socket"),
    ("minsockets", "--sockets-per-node"),
    ("minthreads", "--threads-per-core"),
    ("power", "nothing"),
    ("share", "--oversubscribe"),
    ("uid", "nothing"),
    ("workdir", "--chdir"),
];

/// Finds an option by its long name or an unambiguous prefix.
pub(super) fn by_name(tables: &[&'static [SbatchOption]], name: &str) -> Option<SbatchOption> {
    let name = OLD.iter().chain(ALIASES).find(|(old, _)| *old == name).map_or(name, |(_, new)| new);
    let all = || tables.iter().flat_map(|table| table.iter());
    if let Some(exact) = all().find(|one| one.name == name) {
        return Some(*exact);
    }
    let mut longer = all().filter(|one| one.name.starts_with(name));
    match (longer.next(), longer.next()) {
        (Some(one), None) if !name.is_empty() => Some(*one),
        _ => None,
    }
}

/// Finds an option by its letter.
pub(super) fn by_letter(tables: &[&'static [SbatchOption]], letter: char) -> Option<SbatchOption> {
    tables.iter().flat_map(|table| table.iter()).find(|one| one.short == Some(letter)).copied()
}

/// Option as given in the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GivenOption {
    /// Line in the script, from 1.
    pub(super) line: u32,
    /// Text as written, without quotes.
    pub(super) written: String,
    /// Long name; `None` where there is no such option.
    pub(super) name: Option<&'static str>,
    /// Value of the option; `None` for a flag.
    pub(super) value: Option<String>,
}

/// Parses options up to the first word that is not one, and returns the remaining words. With
/// `permute`, such words become options without a name, as sbatch skips them.
pub(super) fn options<'a>(
    tables: &[&'static [SbatchOption]],
    words: &'a [String],
    line: u32,
    permute: bool,
) -> (Vec<GivenOption>, &'a [String]) {
    let mut given = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if word == "--" {
            return (given, &words[at + 1..]);
        }
        let is_option = word.starts_with('-') && word.len() > 1;
        if !is_option && !permute {
            break;
        }
        let follows = words.get(at + 1);
        let takes_next = if let Some(long) = word.strip_prefix("--") {
            let (one, takes_next) = long_option(tables, word, long, follows, line);
            given.push(one);
            takes_next
        } else if is_option {
            short_options(tables, word, follows, line, &mut given)
        } else {
            given.push(GivenOption { line, written: word.clone(), name: None, value: None });
            false
        };
        at += 1 + usize::from(takes_next && follows.is_some());
    }
    (given, &words[at.min(words.len())..])
}

/// Parses a word that begins with `--`; the second result is true where the next word, `follows`,
/// is its value.
fn long_option(
    tables: &[&'static [SbatchOption]],
    word: &str,
    long: &str,
    follows: Option<&String>,
    line: u32,
) -> (GivenOption, bool) {
    let (name, value) =
        long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
    let found = by_name(tables, name);
    let name = found.map(|found| found.name);
    if found.is_some_and(|found| found.takes == Value) && value.is_none() {
        let written =
            follows.map_or_else(|| word.to_owned(), |follows| format!("{word} {follows}"));
        let value = Some(follows.cloned().unwrap_or_default());
        return (GivenOption { line, written, name, value }, true);
    }
    (GivenOption { line, written: word.to_owned(), name, value: value.map(str::to_owned) }, false)
}

/// Parses a word of one-letter options; returns true where the next word, `follows`, is the value
/// of the last one.
fn short_options(
    tables: &[&'static [SbatchOption]],
    word: &str,
    follows: Option<&String>,
    line: u32,
    given: &mut Vec<GivenOption>,
) -> bool {
    let mut one = |name, value: Option<String>, written: String| {
        given.push(GivenOption { line, written, name, value });
    };
    let letters: Vec<char> = word.chars().skip(1).collect();
    for (index, letter) in letters.iter().enumerate() {
        let rest: String = letters[index + 1..].iter().collect();
        match by_letter(tables, *letter) {
            Some(found) if found.takes == Nothing => {
                one(Some(found.name), None, format!("-{letter}"));
            }
            Some(found) if found.takes == Value && rest.is_empty() => {
                let value = follows.cloned().unwrap_or_default();
                one(Some(found.name), Some(value.clone()), format!("-{letter} {value}"));
                return true;
            }
            Some(found) => {
                // getopt takes everything after the letter, even a `=`; the author means it
                // without.
                let value = rest.strip_prefix('=').unwrap_or(&rest);
                let value = (!value.is_empty()).then(|| value.to_owned());
                one(Some(found.name), value, format!("-{letter}{rest}"));
                return false;
            }
            None => {
                one(None, None, word.to_owned());
                return false;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_getopt_reads_them() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let (given, _) = options(&[SBATCH], &words, 1, true);
            let given: Vec<(&str, &str)> = given
                .iter()
                .map(|one| (one.name.unwrap_or("?"), one.value.as_deref().unwrap_or_default()))
                .collect();
            assert_eq!(given, expected, "{text}");
        };
        check("--nodes=2 --ntasks 4", &[("nodes", "2"), ("ntasks", "4")]);
        check("-N2 -n 4 -Jname", &[("nodes", "2"), ("ntasks", "4"), ("job-name", "name")]);
        check("-HN2", &[("hold", ""), ("nodes", "2")]);
        check("--exclusive --exclusive=user", &[("exclusive", ""), ("exclusive", "user")]);
        check("--tasks-per-node=4 --share", &[("ntasks-per-node", "4"), ("oversubscribe", "")]);
        check("--gpus-per-n=4 --gpu=3", &[("gpus-per-node", "4"), ("?", "3")]);
        check("hello --nothing", &[("?", ""), ("?", "")]);
        check("-p=gpu", &[("partition", "gpu")]);
    }
}
