//! Values of variables where they are certain: those that Slurm sets for the batch script, and
//! those that the script sets itself from constants and `$(( … ))`. All others are unknown, never
//! guessed.

use std::collections::BTreeMap;

use super::shell::{ShellCommand, ShellWord, WordPart, assignment};
use super::sizes::RequestedSizes;

/// Maximum depth of nested `$(( … ))`, and of chains of variables.
const DEPTH: usize = 16;

/// Variables with their values; `None` is set to an unknown value.
#[derive(Clone, Debug, Default)]
pub(super) struct ShellVariables {
    values: BTreeMap<String, Option<String>>,
    /// Values as written, of variables that the script certainly sets.
    written: BTreeMap<String, String>,
}

impl ShellVariables {
    /// Returns the variables that Slurm sets for the batch script.
    pub(super) fn of_job(sizes: &RequestedSizes) -> Self {
        let mut variables = Self::default();
        let mut set = |names: &[&str], value: Option<u64>| {
            for name in names {
                variables.values.insert((*name).to_owned(), value.map(|value| value.to_string()));
            }
        };
        set(&["SLURM_NNODES", "SLURM_JOB_NUM_NODES"], sizes.node_count());
        set(&["SLURM_NTASKS", "SLURM_NPROCS"], sizes.task_count());
        set(&["SLURM_NTASKS_PER_NODE"], sizes.tasks_per_node);
        set(&["SLURM_GPUS_ON_NODE"], sizes.gpus_on_node().filter(|count| *count > 0));
        set(&["SLURM_CPUS_PER_TASK"], sizes.cpus_per_task);
        let plain = |gpus: &Option<super::value::Gpus>| {
            gpus.as_ref().filter(|gpus| gpus.model.is_none()).map(|gpus| gpus.count)
        };
        set(&["SLURM_GPUS"], plain(&sizes.gpus));
        set(&["SLURM_GPUS_PER_TASK"], plain(&sizes.gpus_per_task));
        set(&["SLURM_GPUS_PER_NODE"], plain(&sizes.gpus_per_node));
        variables
    }

    /// Records the variables that a command sets. In a loop or a condition their values are
    /// uncertain.
    pub(super) fn take(&mut self, command: &ShellCommand) {
        let is_certain = command.depth == 0 && !command.is_piped;
        let sets = match command.program().as_deref() {
            None => &command.words[..],
            Some("export" | "declare" | "readonly" | "local" | "typeset") => &command.words[1..],
            Some("read" | "unset" | "mapfile" | "readarray" | "for") => {
                for word in &command.words[1..] {
                    self.values.insert(word.raw.clone(), None);
                    self.written.remove(&word.raw);
                }
                return;
            }
            Some(_) => return,
        };
        for (name, value) in sets.iter().filter_map(assignment) {
            let known = self.resolve(&value).filter(|_| is_certain);
            if is_certain {
                self.written.insert(name.clone(), value.shown())
            } else {
                self.written.remove(&name)
            };
            self.values.insert(name, known);
        }
    }

    /// Returns the text of a word.
    pub(super) fn resolve(&self, word: &ShellWord) -> Option<String> {
        let mut text = String::new();
        for part in &word.parts {
            match part {
                WordPart::Text(piece, _) => text.push_str(piece),
                WordPart::Variable { name, plain: true } => text.push_str(self.get(name)?),
                WordPart::Arithmetic(sum) => text.push_str(&self.sum(sum)?.to_string()),
                WordPart::Variable { plain: false, .. } | WordPart::Substitution(_) => return None,
            }
        }
        Some(text)
    }

    /// Returns the value of a variable.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.as_deref()
    }

    /// Returns the value of a variable as written, with its expansions.
    pub(super) fn written(&self, name: &str) -> Option<&str> {
        self.written.get(name).map(String::as_str)
    }

    /// Returns the result of `$(( … ))`.
    fn sum(&self, text: &str) -> Option<i64> {
        let mut sum = Arithmetic {
            letters: text.chars().filter(|c| !c.is_whitespace()).collect(),
            at: 0,
            variables: self,
        };
        let result = sum.added(0)?;
        (sum.at == sum.letters.len()).then_some(result)
    }
}

/// Evaluator of arithmetic: `+ - * / %`, brackets, numbers and names.
struct Arithmetic<'a> {
    letters: Vec<char>,
    at: usize,
    variables: &'a ShellVariables,
}

impl Arithmetic<'_> {
    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn added(&mut self, depth: usize) -> Option<i64> {
        let mut left = self.multiplied(depth)?;
        while let Some(sign @ ('+' | '-')) = self.peek() {
            self.at += 1;
            let right = self.multiplied(depth)?;
            left = if sign == '+' { left.checked_add(right)? } else { left.checked_sub(right)? };
        }
        Some(left)
    }

    fn multiplied(&mut self, depth: usize) -> Option<i64> {
        let mut left = self.single(depth)?;
        while let Some(sign @ ('*' | '/' | '%')) = self.peek() {
            self.at += 1;
            let right = self.single(depth)?;
            left = match sign {
                '*' => left.checked_mul(right)?,
                '/' => left.checked_div(right)?,
                _ => left.checked_rem(right)?,
            };
        }
        Some(left)
    }

    fn single(&mut self, depth: usize) -> Option<i64> {
        if depth > DEPTH {
            return None;
        }
        if self.peek() == Some('(') {
            self.at += 1;
            let inner = self.added(depth + 1)?;
            (self.peek() == Some(')')).then_some(())?;
            self.at += 1;
            return Some(inner);
        }
        if self.peek() == Some('$') {
            self.at += 1;
        }
        let is_braced = self.peek() == Some('{');
        self.at += usize::from(is_braced);
        let mut word = String::new();
        while let Some(letter) = self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
            word.push(letter);
            self.at += 1;
        }
        if is_braced {
            (self.peek() == Some('}')).then_some(())?;
            self.at += 1;
        }
        match word.parse() {
            Ok(number) => Some(number),
            Err(_) => self.variables.get(&word)?.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::shell::commands;

    #[test]
    fn values_are_known_only_where_they_are_certain() {
        let sizes = RequestedSizes {
            nodes: Some((4, 4)),
            tasks_per_node: Some(2),
            ..RequestedSizes::default()
        };
        let mut variables = ShellVariables::of_job(&sizes);
        let text = "N=8\nexport W=$((SLURM_NNODES * N))\nif x; then M=1; fi\nP=$(hostname)\nQ=\"${N}00\"\nR=${N:-3}\n\
                    S=$(( (N + 1) % 4 ))\nT=$((UNSET + 1))\n";
        commands(text).iter().for_each(|command| variables.take(command));
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(variables.get(name), expected, "{name}")
        };
        check("N", Some("8"));
        check("W", Some("32"));
        check("M", None);
        check("P", None);
        check("Q", Some("800"));
        check("R", None);
        check("S", Some("1"));
        check("T", None);
        check("SLURM_NTASKS", Some("8"));
    }
}
