//! The parts of a RayJob of KubeRay that are Ray's: the parameters of each node, and the line by which the
//! job's program starts, in both directions.

use std::collections::BTreeMap;

use muster_model::payload::{RayTask, TaskCommand, shell_word};

/// Script that waits for nodes and then runs the program.
const WAIT: &str = include_str!("wait.py");
const WAIT_FILE: &str = "wait.py";
/// Script of the job's program, where it is more than plain words.
const PROGRAM_FILE: &str = "program";
/// Folder with these files in the head's container.
pub const PROGRAM_FOLDER: &str = "/muster/ray";

/// End of the line, which runs beside the head after `ray job submit` when the program has failed. KubeRay looks every 3
/// seconds; where it finds that the submitter has failed before it has found the program's exit code, the code is lost.
const UNTIL_SEEN: &str = " || { sleep 15; false; }";

/// Size below which Ray refuses an object store, in bytes.
const LEAST_OBJECT_STORE_BYTES: u64 = 100 << 20;

/// First words by which a shell runs something itself, so that there is no program of that name.
const OF_THE_SHELL: [&str; 24] = [
    ".", ":", "[", "cd", "command", "eval", "exec", "exit", "export", "for", "if", "return", "set",
    "shift", "source", "time", "trap", "ulimit", "umask", "unset", "until", "wait", "while",
    "case",
];

/// Start of the program of a RayJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrypoint {
    /// Line for a shell: `spec.entrypoint`.
    pub line: String,
    /// Files that it names, by their names in [`PROGRAM_FOLDER`].
    pub files: BTreeMap<&'static str, String>,
}

/// Returns the parameters of `ray start` for a node: exactly what the job gives to it.
#[must_use]
pub fn start_params(task: &RayTask) -> BTreeMap<&'static str, String> {
    let cpus = match task.cpus.0.div_ceil(1000) {
        0 => task.gpus + 1,
        cpus => cpus,
    };
    let mut params =
        BTreeMap::from([("num-gpus", task.gpus.to_string()), ("num-cpus", cpus.to_string())]);
    if task.memory.0 > 0 {
        let store = task.memory.0 / 100 * u64::from(task.object_store_percent);
        let store = store.max(LEAST_OBJECT_STORE_BYTES);
        params.insert("object-store-memory", store.to_string());
        params.insert("memory", task.memory.0.saturating_sub(store).max(1).to_string());
    }
    params
}

/// Returns how the program starts on a cluster that may have fewer nodes at first than it waits for, and whose
/// pods KubeRay may not have seen ready when the program ends.
///
/// The line passes through two shells and through Ray, which quotes arguments as Windows does: the program has plain
/// words only. Any other is a file.
#[must_use]
pub fn entrypoint(task: &RayTask, driver: &TaskCommand) -> Entrypoint {
    let mut files = BTreeMap::new();
    let program = plain_words(driver).unwrap_or_else(|| {
        let text = match driver {
            TaskCommand::Argv(words) => {
                let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
                format!("exec {}\n", words.join(" "))
            }
            other => other.text(),
        };
        let shell = if text.starts_with("#!") { "" } else { "/bin/sh " };
        files.insert(PROGRAM_FILE, text);
        format!("{shell}{PROGRAM_FOLDER}/{PROGRAM_FILE}")
    });
    files.insert(WAIT_FILE, WAIT.to_owned());
    let python = shell_word(&task.python);
    let line =
        format!("{python} {PROGRAM_FOLDER}/{WAIT_FILE} {} {program}{UNTIL_SEEN}", task.nodes);
    Entrypoint { line, files }
}

/// Returns a program as a line of plain words; `None` if it is more.
fn plain_words(driver: &TaskCommand) -> Option<String> {
    let words: Vec<&str> = match driver {
        TaskCommand::Argv(words) => words.iter().map(String::as_str).collect(),
        TaskCommand::Script(text) if !text.trim().contains('\n') => {
            text.split_whitespace().collect()
        }
        TaskCommand::Script(_) | TaskCommand::Ray(_) => return None,
    };
    let is_plain = |word: &&str| !word.is_empty() && shell_word(word) == **word;
    let is_program = |first: &&str| {
        !OF_THE_SHELL.contains(first) && !first.contains('=') && !first.starts_with('-')
    };
    (words.first().is_some_and(is_program) && words.iter().all(is_plain)).then(|| words.join(" "))
}

/// Program of a RayJob, as its line starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadEntrypoint {
    /// Line or script for a shell.
    pub program: String,
    /// Nodes that it waits for; `None` if the line does not say it.
    pub wait: Option<u32>,
    /// Interpreter of the wait, which has Ray; `None` if the line does not say it.
    pub python: Option<String>,
}

/// Reads a line of [`entrypoint`], or one of other origin as it is. `file` returns files by their names in
/// [`PROGRAM_FOLDER`].
#[must_use]
pub fn read_entrypoint(line: &str, file: impl Fn(&str) -> Option<String>) -> ReadEntrypoint {
    let line = line.trim();
    let line = line.strip_suffix(UNTIL_SEEN).unwrap_or(line);
    let waiting = line.split_once(&format!(" {PROGRAM_FOLDER}/{WAIT_FILE} "));
    let waiting = waiting.and_then(|(python, rest)| {
        let (nodes, program) = rest.split_once(' ')?;
        Some((python.to_owned(), nodes.parse().ok()?, program))
    });
    let (python, wait, program) = match waiting {
        Some((python, nodes, program)) => (Some(python), Some(nodes), program),
        None => (None, None, line),
    };
    let path = program.strip_prefix("/bin/sh ").unwrap_or(program);
    let is_file = path == format!("{PROGRAM_FOLDER}/{PROGRAM_FILE}");
    let text = is_file.then(|| file(PROGRAM_FILE)).flatten();
    ReadEntrypoint { program: text.unwrap_or_else(|| program.to_owned()), wait, python }
}

#[cfg(test)]
mod tests {
    use muster_model::Bytes;

    use super::*;

    fn task(nodes: u32) -> RayTask {
        RayTask { nodes, gpus: 2, memory: Bytes(10_000_000_000), ..RayTask::new(None) }
    }

    #[test]
    fn a_node_has_what_the_job_gives_to_it() {
        let params = start_params(&task(1));
        let expected = [
            ("memory", "7000000000"),
            ("num-cpus", "3"),
            ("num-gpus", "2"),
            ("object-store-memory", "3000000000"),
        ];
        let found: Vec<(&str, &str)> =
            params.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(found, expected);
    }

    /// Checks the line of a program on one node, and that it is read back on one and on three.
    fn check(driver: TaskCommand, line: &str, program: &str) {
        let found = entrypoint(&task(3), &driver);
        let end = " || { sleep 15; false; }";
        assert_eq!(found.line, format!("python3 /muster/ray/wait.py 3 {line}{end}"));
        assert_eq!(found.files["wait.py"], WAIT);
        let of_others = ReadEntrypoint { program: line.to_owned(), wait: None, python: None };
        assert_eq!(read_entrypoint(line, |_| None), of_others);
        let read = read_entrypoint(&found.line, |name| found.files.get(name).cloned());
        assert_eq!((read.program.as_str(), read.wait), (program, Some(3)));
        assert_eq!(read.python.as_deref(), Some("python3"));
    }

    #[test]
    fn programs_are_plain_words_or_files() {
        let script = |text: &str| TaskCommand::Script(text.to_owned());
        let argv =
            |words: &[&str]| TaskCommand::Argv(words.iter().map(|one| (*one).to_owned()).collect());
        check(
            script("python train.py --lr=1e-3\n"),
            "python train.py --lr=1e-3",
            "python train.py --lr=1e-3",
        );
        check(argv(&["python", "train.py"]), "python train.py", "python train.py");
        let shell = "/bin/sh /muster/ray/program";
        for text in
            ["cd /data\npython a.py\n", "LR=1 python a.py", "exec python a.py", "echo $HOME", ""]
        {
            check(script(text), shell, text);
        }
        check(argv(&["python", "a b.py"]), shell, "exec python 'a b.py'\n");
        let own = "#!/usr/bin/env python3\nprint(1)\n";
        check(script(own), "/muster/ray/program", own);
    }
}
