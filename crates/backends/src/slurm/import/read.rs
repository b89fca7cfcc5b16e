//! A script as sbatch reads it: which lines are directives, which are too late, and where the body
//! begins. What is no script for Slurm is refused with what it is.

use super::option::{Given, PYXIS, SBATCH, options};

/// Why a text is not imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAScript {
    /// Nothing in it.
    #[error("there is nothing in it")]
    Empty,
    /// Line ends of DOS.
    #[error("its lines end as on DOS, in CR LF: sbatch refuses such a script")]
    DosLines,
    /// It is in Python and has no directives.
    #[error("it is a Python program, not a script for sbatch")]
    Python,
    /// It is a job of Muster already.
    #[error("it is a job file of Muster already")]
    JobFile,
    /// For another queue.
    #[error("it is a script for {0}, with `{1}` lines; only those of Slurm are read")]
    Other(&'static str, &'static str),
    /// Neither `#!` nor directives.
    #[error("it does not begin with `#!` and has no `#SBATCH` line: sbatch would refuse it")]
    NotAScript,
}

impl NotAScript {
    /// What to do.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty | Self::NotAScript => {
                "a script begins with `#!/bin/bash`, then `#SBATCH` lines"
            }
            Self::DosLines => "`sed -i 's/\\r$//' FILE` takes the CRs away",
            Self::Python => {
                "`muster run --gpus 1 -- python FILE` runs a program; import reads the script that starts it"
            }
            Self::JobFile => {
                "`muster run FILE` runs it, `muster export slurm FILE` makes a script of it"
            }
            Self::Other(..) => {
                "write the same sizes as `#SBATCH` lines, or as a job file: docs/jobs.md"
            }
        }
    }
}

/// A script.
#[derive(Clone, Debug)]
pub(super) struct Script<'a> {
    /// Its first line, when that begins with `#!`.
    pub(super) shebang: Option<&'a str>,
    /// Every line.
    pub(super) lines: Vec<&'a str>,
    /// Components, each with its options; one, where it is not heterogeneous.
    pub(super) components: Vec<Vec<Given>>,
    /// Lines that begin the next component, with their word.
    pub(super) hets: Vec<(u32, &'a str)>,
    /// Directives after the first command.
    pub(super) late: Vec<(u32, &'a str)>,
    /// Lines that look like directives and are comments.
    pub(super) misspelled: Vec<(u32, &'a str)>,
    /// Index of the first line of the body.
    pub(super) body: usize,
    /// What it is given behind its name.
    pub(super) arguments: &'a [String],
}

impl Script<'_> {
    /// All options.
    pub(super) fn given(&self) -> impl Iterator<Item = &Given> {
        self.components.iter().flatten()
    }

    /// The last value of an option of the first component, as sbatch takes it.
    pub(super) fn last(&self, name: &str) -> Option<&Given> {
        self.components.first()?.iter().rev().find(|one| one.name == Some(name))
    }

    /// The body as text, from its first command on.
    pub(super) fn body(&self) -> String {
        self.lines.get(self.body..).unwrap_or_default().join("\n")
    }

    /// The interpreter's name: `bash`, `python3`.
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

    /// Whether the body is for a shell that is understood here.
    pub(super) fn is_shell(&self) -> bool {
        matches!(self.interpreter(), "sh" | "bash" | "dash" | "zsh" | "ksh")
    }
}

/// Reads a script.
pub(super) fn read(text: &str) -> Result<Script<'_>, NotAScript> {
    refuse_others(text)?;
    let lines: Vec<&str> = text.lines().collect();
    let shebang = lines.first().copied().filter(|line| line.starts_with("#!"));
    let mut script = Script {
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
            // Slurm reads on over comments that are indented, too.
            None if line.trim_start().starts_with('#') => {}
            None if !is_body => {
                (is_body, script.body) = (true, index);
            }
            None => {}
        }
    }
    script.lines = lines;
    // What a script writes elsewhere, in a here-document or in quotes, is not for sbatch.
    if script.is_shell() {
        let first = u32::try_from(script.body).unwrap_or(u32::MAX);
        let comments = super::shell::comments(&script.body());
        let is_comment = |line: u32| line <= first || comments.contains(&(line - first));
        script.late.retain(|(line, _)| is_comment(*line));
        script.misspelled.retain(|(line, _)| is_comment(*line));
    }
    Ok(script)
}

fn directive<'a>(script: &mut Script<'a>, line: u32, rest: &'a str) {
    let words = words(rest);
    if let Some(word @ ("hetjob" | "packjob")) = rest.split_whitespace().next() {
        script.hets.push((line, word));
        script.components.push(Vec::new());
        return;
    }
    let (given, rest) = options(&[SBATCH, PYXIS], &words, line, true);
    let component = script.components.last_mut().expect("there is one from the start");
    component.extend(given);
    let more =
        rest.iter().map(|word| Given { line, written: word.clone(), name: None, value: None });
    component.extend(more);
}

/// Words of a directive: blanks part them, quotes and backslashes keep blanks, `#` begins a
/// comment.
fn words(rest: &str) -> Vec<String> {
    let (mut words, mut word, mut is_open) = (Vec::new(), String::new(), false);
    let (mut quote, mut is_escaped) = (None, false);
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

/// `# SBATCH --time=1:00:00`, `#sbatch …`, ` #SBATCH`, `#SBACTH`: meant as directives. `##SBATCH`
/// is how people take one away.
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

/// What was given by mistake, by what it is.
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
