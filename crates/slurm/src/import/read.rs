//! Reads a script as sbatch does: directives, late directives, and the beginning of the body. Texts
//! that are not scripts for Slurm are rejected with what they are.

use super::option::{GivenOption, PYXIS, SBATCH, options};

/// Reason why a text is not imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAScript {
    /// The text is empty.
    #[error("it is empty")]
    Empty,
    /// The text has DOS line ends.
    #[error("its lines end in CR LF, as on DOS: sbatch rejects such a script")]
    DosLines,
    /// The text is Python without directives.
    #[error("it is a Python program, not a script for sbatch")]
    Python,
    /// The text is already a job file of Muster.
    #[error("it is already a job file of Muster")]
    JobFile,
    /// The script is for another scheduler.
    #[error("it is a script for {0}, with `{1}` lines; only Slurm's scripts can be imported")]
    Other(&'static str, &'static str),
    /// The text has neither `#!` nor directives.
    #[error("it does not begin with `#!` and has no `#SBATCH` line: sbatch would reject it")]
    NotAScript,
}

impl NotAScript {
    /// Returns the next step.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty | Self::NotAScript => {
                "a script begins with `#!/bin/bash`, then `#SBATCH` lines"
            }
            Self::DosLines => "`sed -i 's/\\r$//' FILE` removes the CRs",
            Self::Python => {
                "`muster run --gpus 1 -- python FILE` runs a program; import reads the script that starts it"
            }
            Self::JobFile => {
                "`muster run FILE` runs it, `muster export slurm FILE` converts it to a script"
            }
            Self::Other(..) => {
                "write the same sizes as `#SBATCH` lines, or as a job file: docs/jobs.md"
            }
        }
    }
}

/// Script with its directives.
#[derive(Clone, Debug)]
pub(super) struct BatchScript<'a> {
    /// First line, if it begins with `#!`.
    pub(super) shebang: Option<&'a str>,
    /// Lines of the script.
    pub(super) lines: Vec<&'a str>,
    /// Options of each component; a job that is not heterogeneous has one.
    pub(super) components: Vec<Vec<GivenOption>>,
    /// Separators of components, with line and word.
    pub(super) hets: Vec<(u32, &'a str)>,
    /// Directives after the first command.
    pub(super) late: Vec<(u32, &'a str)>,
    /// Comments that look like directives.
    pub(super) misspelled: Vec<(u32, &'a str)>,
    /// Index of the first line of the body.
    pub(super) body: usize,
    /// Arguments after the script's name.
    pub(super) arguments: &'a [String],
}

impl BatchScript<'_> {
    /// Returns the options of all components.
    pub(super) fn given(&self) -> impl Iterator<Item = &GivenOption> {
        self.components.iter().flatten()
    }

    /// Returns the last value of an option in the first component, which sbatch uses.
    pub(super) fn last(&self, name: &str) -> Option<&GivenOption> {
        self.components.first()?.iter().rev().find(|one| one.name == Some(name))
    }

    /// Returns the body, from its first command on.
    pub(super) fn body(&self) -> String {
        self.lines.get(self.body..).unwrap_or_default().join("\n")
    }

    /// Returns the interpreter's name: `bash`, `python3`.
    pub(super) fn interpreter(&self) -> &str {
        let words =
            self.shebang.unwrap_or("#!/bin/bash").trim_start_matches("#!").split_whitespace();
        let mut names = words
            .filter(|word| !word.starts_with('-'))
            .map(|word| word.rsplit('/').next().unwrap_or(word));
        match names.next() {
            Some("env") => names.next().unwrap_or("sh"),
            Some(name) => name,
            None => "sh",
        }
    }

    /// Returns whether the body is for a supported shell.
    pub(super) fn is_shell(&self) -> bool {
        matches!(self.interpreter(), "sh" | "bash" | "dash" | "zsh" | "ksh")
    }
}

/// Parses a script as sbatch does.
pub(super) fn read(text: &str) -> Result<BatchScript<'_>, NotAScript> {
    refuse_others(text)?;
    let lines: Vec<&str> = text.lines().collect();
    let shebang = lines.first().copied().filter(|line| line.starts_with("#!"));
    let mut script = BatchScript {
        shebang,
        components: vec![Vec::new()],
        hets: Vec::new(),
        late: Vec::new(),
        misspelled: Vec::new(),
        body: lines.len(),
        arguments: &[],
        lines: Vec::new(),
    };
    let mut is_body = false;
    for (index, line) in lines.iter().enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        match line.strip_prefix("#SBATCH") {
            Some(_) if is_body => script.late.push((number, line)),
            Some(rest) => directive(&mut script, number, rest),
            None if looks_like_one(line) => script.misspelled.push((number, line)),
            None if line.trim().is_empty() || line.starts_with('#') => {}
            // Slurm skips indented comments, too.
            None if line.trim_start().starts_with('#') => {}
            None if !is_body => {
                (is_body, script.body) = (true, index);
            }
            None => {}
        }
    }
    script.lines = lines;
    // Text in here-documents and quotes is not for sbatch.
    if script.is_shell() {
        let first = u32::try_from(script.body).unwrap_or(u32::MAX);
        let comments = super::shell::comments(&script.body());
        let is_comment = |line: u32| line <= first || comments.contains(&(line - first));
        script.late.retain(|(line, _)| is_comment(*line));
        script.misspelled.retain(|(line, _)| is_comment(*line));
    }
    Ok(script)
}

fn directive<'a>(script: &mut BatchScript<'a>, line: u32, rest: &'a str) {
    let words = words(rest);
    if let Some(word @ ("hetjob" | "packjob")) = rest.split_whitespace().next() {
        script.hets.push((line, word));
        script.components.push(Vec::new());
        return;
    }
    let (given, rest) = options(&[SBATCH, PYXIS], &words, line, true);
    let component = script.components.last_mut().expect("there is one from the start");
    component.extend(given);
    let more = rest.iter().map(|word| GivenOption {
        line,
        written: word.clone(),
        name: None,
        value: None,
    });
    component.extend(more);
}

/// Splits a directive: at blanks, except in quotes or after a backslash; `#` begins a comment.
fn words(rest: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut is_open = false;
    let mut quote = None;
    let mut is_escaped = false;
    for letter in rest.chars() {
        match letter {
            _ if is_escaped => {
                word.push(letter);
                is_escaped = false;
            }
            '\\' => (is_escaped, is_open) = (true, true),
            _ if quote == Some(letter) => quote = None,
            _ if quote.is_some() => word.push(letter),
            '"' | '\'' => (quote, is_open) = (Some(letter), true),
            ' ' | '\t' if is_open || !word.is_empty() => {
                words.push(std::mem::take(&mut word));
                is_open = false;
            }
            ' ' | '\t' => {}
            '#' => break,
            _ => word.push(letter),
        }
    }
    if is_open || !word.is_empty() {
        words.push(word);
    }
    words
}

/// Returns whether a comment was meant as a directive: `# SBATCH --time=1:00:00`, `#sbatch …`, `
/// #SBATCH`, `#SBACTH`. `##SBATCH` is a directive commented out.
fn looks_like_one(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix('#') else { return false };
    if rest.starts_with('#') {
        return false;
    }
    let mut words = rest.split_whitespace();
    let (Some(word), Some(next)) = (words.next(), words.next()) else { return false };
    let mut letters: Vec<char> = word.to_ascii_uppercase().chars().collect();
    letters.sort_unstable();
    next.starts_with('-') && letters == ['A', 'B', 'C', 'H', 'S', 'T']
}

/// Rejects other kinds of texts.
fn refuse_others(text: &str) -> Result<(), NotAScript> {
    if text.trim().is_empty() {
        return Err(NotAScript::Empty);
    }
    if text.lines().next().is_some_and(|_| text.contains("\r\n")) {
        return Err(NotAScript::DosLines);
    }
    let has = |mark: &str| text.lines().any(|line| line.starts_with(mark));
    if has("#SBATCH") {
        return Ok(());
    }
    for (mark, queue) in [
        ("#PBS", "PBS"),
        ("#BSUB", "LSF"),
        ("#$ -", "Grid Engine"),
        ("#COBALT", "Cobalt"),
        ("#OAR", "OAR"),
    ] {
        if has(mark) {
            return Err(NotAScript::Other(queue, mark.trim_end_matches(" -")));
        }
    }
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let is_python = first.starts_with("#!") && first.contains("python")
        || !first.starts_with("#!")
            && text.lines().any(|line| {
                line.starts_with("import ")
                    || line.starts_with("from ") && line.contains(" import ")
                    || line.starts_with("def ")
            });
    if is_python {
        return Err(NotAScript::Python);
    }
    if first.starts_with("#!") {
        return Ok(());
    }
    let is_job = text.lines().any(|line| {
        ["run:", "groups:", "name:", "gpus:", "nodes:"].iter().any(|key| line.starts_with(key))
    });
    Err(if is_job { NotAScript::JobFile } else { NotAScript::NotAScript })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directive_is_split_as_sbatch_splits_it() {
        let check = |rest: &str, expected: &[&str]| assert_eq!(words(rest), expected, "{rest}");
        check(" --time=1:00:00  -p gpu # comment", &["--time=1:00:00", "-p", "gpu"]);
        check(" --comment=\"two words\" -J 'a b'", &["--comment=two words", "-J", "a b"]);
        check(r#" --comment=a\ b --x="" "#, &["--comment=a b", "--x="]);
        check("\t--hold", &["--hold"]);
    }

    #[test]
    fn the_body_begins_at_the_first_command_and_later_directives_are_late() {
        let script =
            read("#!/bin/bash\n#SBATCH -N2\n##SBATCH -N3\n# SBATCH -N4\n\necho\n#SBATCH -N5\n")
                .unwrap();
        assert_eq!(
            script.given().filter_map(|one| one.value.as_deref()).collect::<Vec<_>>(),
            ["2"]
        );
        assert_eq!(
            (script.late, script.misspelled),
            (vec![(7, "#SBATCH -N5")], vec![(4, "# SBATCH -N4")])
        );
        assert_eq!(script.body, 5);
    }

    #[test]
    fn what_a_script_writes_elsewhere_is_no_directive_of_its_own() {
        let text = "#!/bin/bash\n#SBATCH -N2\n# SBATCH -N3\ncat > job <<EOF\n#!/bin/bash\n#SBATCH -N4\n# SBATCH -N5\nEOF\n\
                    echo \"\n#SBATCH -N6\n\"\n#SBATCH -N7\n# SBATCH -N8\n";
        let script = read(text).unwrap();
        assert_eq!(script.late, [(12, "#SBATCH -N7")]);
        assert_eq!(script.misspelled, [(3, "# SBATCH -N3"), (13, "# SBATCH -N8")]);
    }

    #[test]
    fn what_is_no_script_is_refused_by_what_it_is() {
        let check = |text: &str, expected: NotAScript| {
            assert_eq!(read(text).unwrap_err(), expected, "{text}")
        };
        check(" \n", NotAScript::Empty);
        check("#!/bin/bash\r\n#SBATCH -N2\r\n", NotAScript::DosLines);
        check("import torch\nprint(1)\n", NotAScript::Python);
        check("#!/usr/bin/env python3\nprint(1)\n", NotAScript::Python);
        check("name: x\nrun: y\n", NotAScript::JobFile);
        check("#!/bin/bash\n#PBS -l nodes=2\n", NotAScript::Other("PBS", "#PBS"));
        check("#BSUB -n 4\n", NotAScript::Other("LSF", "#BSUB"));
        check("hello\n", NotAScript::NotAScript);
        assert!(read("#!/usr/bin/env python3\n#SBATCH -N2\nprint(1)\n").is_ok());
    }
}
