//! Output files that the user named: opened by a rank's script as the user on its own node, or as
//! options of Slurm where the script runs without Muster.

use muster_model::output::{self, OutputMark, PatternPart};
use muster_model::payload::shell_word;
use muster_model::{OutputFiles, WorkloadKind};

use super::ScriptInput;
use super::directive::Directive;

/// Redirects a rank's output to the user's file, to which Muster's own file name links, or to
/// Muster's file.
pub(super) fn of_rank(source: &ScriptInput<'_>) -> String {
    let is_probed = source.verify;
    let Some(file) = &source.files.output else {
        let as_probe = if is_probed { "[ -n \"$MUSTER_PROBE\" ] || " } else { "" };
        let error = source.files.error.as_deref().map(|error| opened(source, error));
        return match error {
            None => format!("{as_probe}exec >> \"$MUSTER_LOGS/rank-$RANK.log\" 2>&1 < /dev/null\n"),
            Some(error) => {
                let to =
                    "exec >> \"$MUSTER_LOGS/rank-$RANK.log\" 2>> \"$muster_file\" < /dev/null\n";
                unless_probed(is_probed, &format!("{FILE}{error}{to}"))
            }
        };
    };
    let mut lines = FILE.to_owned();
    match &source.files.error {
        Some(error) => {
            lines.push_str(&opened(source, error));
            lines.push_str("exec 2>> \"$muster_file\"\n");
            lines.push_str(&opened(source, file));
            lines.push_str("ln -sf \"$muster_file\" \"$MUSTER_LOGS/rank-$RANK.log\"\n");
            lines.push_str("exec >> \"$muster_file\" < /dev/null\n");
        }
        None => {
            lines.push_str(&opened(source, file));
            lines.push_str("ln -sf \"$muster_file\" \"$MUSTER_LOGS/rank-$RANK.log\"\n");
            lines.push_str("exec >> \"$muster_file\" 2>&1 < /dev/null\n");
        }
    }
    unless_probed(is_probed, &lines)
}

/// Shell function that resolves a file to its full path and creates it, or writes the error where
/// `muster logs` reads.
const FILE: &str = r#"muster_open() {
  case $1 in /*) muster_file=$1 ;; *) muster_file=$PWD/$1 ;; esac
  if ! { mkdir -p "${muster_file%/*}/" && [ ! -d "$muster_file" ] && : >> "$muster_file"; } 2>> "$MUSTER_LOGS/rank-$RANK.log"; then
    echo "muster: cannot write the output into $muster_file on ${SLURMD_NODENAME:-$(hostname)}" >> "$MUSTER_LOGS/rank-$RANK.log"
    exit 73
  fi
}
"#;

fn opened(source: &ScriptInput<'_>, pattern: &str) -> String {
    format!("muster_open {}\n", word(pattern, is_array(source)))
}

/// Skips the lines for a probe, which runs before the program and answers on its own output.
fn unless_probed(is_probed: bool, lines: &str) -> String {
    if is_probed {
        format!("if [ -z \"$MUSTER_PROBE\" ]; then\n{lines}fi\n")
    } else {
        lines.to_owned()
    }
}

fn is_array(source: &ScriptInput<'_>) -> bool {
    source.spec.array.is_some() || matches!(source.spec.kind, WorkloadKind::Service(_))
}

/// Returns a pattern as a word of the shell of a rank.
fn word(pattern: &str, is_array: bool) -> String {
    let parts =
        output::parts(pattern).unwrap_or_else(|_| vec![PatternPart::Text(pattern.to_owned())]);
    let pieces = parts.into_iter().map(|part| match part {
        PatternPart::Text(text) => shell_word(&text),
        PatternPart::Mark(mark, width) => {
            let value = match mark {
                // As in sbatch, the job number of an array is that of the element.
                OutputMark::Job if is_array => "$SLURM_JOB_ID",
                OutputMark::Job | OutputMark::Array => "$MUSTER_JOB_ID",
                OutputMark::Index => "${SLURM_ARRAY_TASK_ID:-0}",
                OutputMark::Rank => "$RANK",
                OutputMark::Name => "$MUSTER_JOB_NAME",
                OutputMark::User => "${SLURM_JOB_USER:-$USER}",
            };
            match mark {
                OutputMark::Name | OutputMark::User => format!("\"{value}\""),
                _ if width == 0 => format!("\"{value}\""),
                _ => format!("\"$(printf %0{width}d \"{value}\")\""),
            }
        }
    });
    pieces.collect()
}

/// Returns the options of sbatch for a script without Muster; files of each rank are options of
/// srun.
pub(super) fn directives(files: &OutputFiles) -> Vec<Directive> {
    let named = [("output", &files.output), ("error", &files.error)];
    let mut directives: Vec<Directive> = named
        .into_iter()
        .filter_map(|(name, file)| {
            let file = file.as_deref().filter(|file| !output::is_per_rank(file))?;
            Some(Directive::new(name, file))
        })
        .collect();
    if !directives.is_empty() {
        directives.push(Directive::new("open-mode", "append"));
    }
    directives
}

/// Returns the options of srun for a script without Muster, where each rank has its own file.
pub(super) fn of_srun(files: &OutputFiles) -> Vec<String> {
    let named = [("output", &files.output), ("error", &files.error)];
    let mut words: Vec<String> = named
        .into_iter()
        .filter_map(|(name, file)| {
            let file = file.as_deref().filter(|file| output::is_per_rank(file))?;
            Some(format!("--{name}={}", shell_word(file)))
        })
        .collect();
    if !words.is_empty() {
        words.push("--open-mode=append".to_owned());
    }
    words
}

/// Returns the directories that must exist before sbatch, which creates none.
pub(super) fn folders(files: &OutputFiles) -> Option<String> {
    let folder = |file: &String| {
        let (folder, _) = file.rsplit_once('/')?;
        (!matches!(folder, "" | "." | ".." | "/tmp")).then(|| format!("`{folder}`"))
    };
    let mut folders: Vec<String> =
        [&files.output, &files.error].into_iter().flatten().filter_map(folder).collect();
    folders.dedup();
    (!folders.is_empty()).then(|| folders.join(" and "))
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the shell, for which the text is written, is its test"
)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_pattern_is_filled_in_by_the_shell_of_a_rank() {
        let check = |pattern: &str, alone: &str, of_array: &str| {
            let run = |is_array: bool| {
                let text = format!("printf %s {}", word(pattern, is_array));
                let mut bash = Command::new("bash");
                bash.args(["-c", &text])
                    .env("MUSTER_JOB_ID", "12")
                    .env("MUSTER_JOB_NAME", "it's")
                    .env("RANK", "3");
                bash.env("SLURM_JOB_ID", if is_array { "15" } else { "12" })
                    .env("SLURM_JOB_USER", "alice");
                if is_array {
                    bash.env("SLURM_ARRAY_TASK_ID", "7");
                }
                String::from_utf8(bash.output().unwrap().stdout).unwrap()
            };
            assert_eq!(run(false), alone, "{pattern}");
            assert_eq!(run(true), of_array, "{pattern}");
        };
        check("a b/$(x)'%x'-%j.out", "a b/$(x)'it's'-12.out", "a b/$(x)'it's'-15.out");
        check("%A_%a/%u/%3t%%", "12_0/alice/003%", "12_7/alice/003%");
        check("%6j", "000012", "000015");
    }

    #[test]
    fn what_sbatch_cannot_have_is_sruns() {
        let files = |output: &str, error: Option<&str>| OutputFiles {
            output: Some(output.to_owned()),
            error: error.map(str::to_owned),
        };
        let lines =
            |files: &OutputFiles| directives(files).iter().map(Directive::line).collect::<String>();
        let one = files("logs/%j", Some("err-%t"));
        assert_eq!(lines(&one), "#SBATCH --output=logs/%j\n#SBATCH --open-mode=append\n");
        assert_eq!(of_srun(&one), ["--error=err-%t", "--open-mode=append"]);
        assert_eq!(folders(&one).as_deref(), Some("`logs`"));
        assert_eq!(lines(&OutputFiles::default()), "");
        assert!(of_srun(&files("x", None)).is_empty() && folders(&files("/tmp/x", None)).is_none());
    }
}
