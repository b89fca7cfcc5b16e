//! The options that sbatch(1) and srun(1) have: long and short names, and whether a value follows.
//! A table and no more; what an option means is in `draft.rs`.

/// Whether a value follows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// None.
    Nothing,
    /// One, after `=` or a blank.
    Value,
    /// One after `=`, or none.
    Perhaps,
}

use Takes::{Nothing, Perhaps, Value};

/// One option.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// The name that is used today.
    pub(super) name: &'static str,
    /// Its letter.
    pub(super) short: Option<char>,
    pub(super) takes: Takes,
}

const fn known(name: &'static str, short: char, takes: Takes) -> Known {
    Known { name, short: if short == ' ' { None } else { Some(short) }, takes }
}

/// Options of sbatch, of 20.11 to 25.05.
pub(super) const SBATCH: &[Known] = &[
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

/// Options of srun that sbatch lacks, or that take a value there and none here.
pub(super) const SRUN: &[Known] = &[
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

/// Options that Pyxis, a plugin of many sites, adds to sbatch and srun.
pub(super) const PYXIS: &[Known] = &[
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

/// Names that sbatch took or takes for another one.
const OLD: &[(&str, &str)] = &[
    ("cluster", "clusters"),
    ("mincores", "cores-per-socket"),
    ("minsockets", "sockets-per-node"),
    ("minthreads", "threads-per-core"),
    ("share", "oversubscribe"),
    ("workdir", "chdir"),
];

/// Names that are as good as the one in the table.
const ALIASES: &[(&str, &str)] =
    &[("tasks-per-node", "ntasks-per-node"), ("extra-node-info", "extra-node-info")];

/// Options that Slurm knows and warns of, and what takes their place.
pub(super) const DEPRECATED: &[(&str, &str)] = &[
    ("batch", "nothing: heterogeneous jobs came in its place"),
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

/// An option by its long name or the beginning of one that no other begins with.
pub(super) fn by_name(tables: &[&'static [Known]], name: &str) -> Option<Known> {
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

/// An option by its letter.
pub(super) fn by_letter(tables: &[&'static [Known]], letter: char) -> Option<Known> {
    tables.iter().flat_map(|table| table.iter()).find(|one| one.short == Some(letter)).copied()
}

/// An option as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// Line, from 1.
    pub(super) line: u32,
    /// As it was written, without quotes.
    pub(super) written: String,
    /// Its long name; `None`: there is no such option.
    pub(super) name: Option<&'static str>,
    /// Its value; `None` for a flag.
    pub(super) value: Option<String>,
}

/// Options among words, up to the first word that is none; answers the words that are left. With
/// `permute`, words that are no option are options without a name, as sbatch skips them.
pub(super) fn options<'a>(
    tables: &[&'static [Known]],
    words: &'a [String],
    line: u32,
    permute: bool,
) -> (Vec<Given>, &'a [String]) {
    let (mut given, mut at) = (Vec::new(), 0);
    while let Some(word) = words.get(at) {
        if word == "--" {
            return (given, &words[at + 1..]);
        }
        let (mut next, is_option) = (at + 1, word.starts_with('-') && word.len() > 1);
        if !is_option && !permute {
            break;
        }
        let mut one = |name, value: Option<String>, written: String| {
            given.push(Given { line, written, name, value });
        };
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            match by_name(tables, name) {
                Some(found) if found.takes == Value && value.is_none() => {
                    let follows = words.get(next);
                    next += usize::from(follows.is_some());
                    let written =
                        [Some(word), follows].into_iter().flatten().cloned().collect::<Vec<_>>();
                    one(
                        Some(found.name),
                        Some(follows.cloned().unwrap_or_default()),
                        written.join(" "),
                    );
                }
                Some(found) => one(Some(found.name), value.map(str::to_owned), word.clone()),
                None => one(None, value.map(str::to_owned), word.clone()),
            }
        } else if is_option {
            let letters: Vec<char> = word.chars().skip(1).collect();
            let mut index = 0;
            while let Some(letter) = letters.get(index) {
                let rest: String = letters[index + 1..].iter().collect();
                match by_letter(tables, *letter) {
                    Some(found) if found.takes == Nothing => {
                        one(Some(found.name), None, format!("-{letter}"))
                    }
                    Some(found) if found.takes == Value && rest.is_empty() => {
                        let follows = words.get(next).cloned();
                        next += usize::from(follows.is_some());
                        let value = follows.unwrap_or_default();
                        one(Some(found.name), Some(value.clone()), format!("-{letter} {value}"));
                        break;
                    }
                    Some(found) => {
                        // getopt takes what stands right behind the letter, a `=` too; people mean
                        // it without.
                        let value = rest.strip_prefix('=').unwrap_or(&rest);
                        let value = (!value.is_empty()).then(|| value.to_owned());
                        one(Some(found.name), value, format!("-{letter}{rest}"));
                        break;
                    }
                    None => {
                        one(None, None, word.clone());
                        break;
                    }
                }
                index += 1;
            }
        } else {
            one(None, None, word.clone());
        }
        at = next;
    }
    (given, &words[at.min(words.len())..])
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
