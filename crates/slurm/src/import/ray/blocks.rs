//! Splits the body of a script into blocks: a command of the top level, or a whole loop or condition, with
//! the lines that it takes. A block stays in the program of the job, or goes, as a whole.

use super::super::shell::ShellCommand;

/// Block of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScriptBlock {
    /// Indices of its commands.
    pub(super) commands: std::ops::Range<usize>,
    /// Range of its bytes in the body, whole lines.
    pub(super) bytes: std::ops::Range<usize>,
}

/// First words of a line that begins a loop, a condition or a group.
const OPENINGS: [&str; 8] = ["if", "for", "while", "until", "case", "select", "{", "("];

/// Splits a body. Comments belong to the block that follows them. `None` where two commands of different
/// blocks share a line.
pub(super) fn blocks(body: &str, all: &[ShellCommand]) -> Option<Vec<ScriptBlock>> {
    let mut starts = vec![0];
    for line in body.split_inclusive('\n') {
        starts.push(starts[starts.len() - 1] + line.len());
    }
    let line_of = |at: usize| body[starts[at]..starts[at + 1]].trim();
    // 1. First command and first line of each block.
    let mut firsts: Vec<(usize, usize)> = Vec::new();
    for (index, command) in all.iter().enumerate() {
        let line = usize::try_from(command.line).ok()?.checked_sub(1)?;
        let first_word = line_of(line).split([' ', ';', '\t']).next().unwrap_or_default();
        let is_opening = command.depth == 1 && OPENINGS.contains(&first_word);
        let is_new_line = firsts.last().is_none_or(|(_, before)| *before < line);
        let after_compound = index > 0 && all[index - 1].depth > 0;
        if command.depth == 0 || index == 0 || (is_opening && is_new_line) {
            // `a; b` on one line, or the end of a loop and a command.
            if !is_new_line {
                return None;
            }
            firsts.push((index, line));
        } else if command.depth > 0 && !after_compound {
            if !is_new_line {
                return None;
            }
            firsts.push((index, line));
        }
    }
    // 2. Comments and empty lines before a block are its own.
    let mut begins: Vec<usize> = Vec::new();
    for (nth, (_, line)) in firsts.iter().enumerate() {
        let mut line = *line;
        let floor = if nth == 0 { 0 } else { firsts[nth - 1].1 + 1 };
        while line > floor && (line_of(line - 1).is_empty() || line_of(line - 1).starts_with('#')) {
            line -= 1;
        }
        begins.push(line);
    }
    let mut found = Vec::new();
    for (nth, (index, _)) in firsts.iter().enumerate() {
        let end_command = firsts.get(nth + 1).map_or(all.len(), |(next, _)| *next);
        let end = begins.get(nth + 1).map_or(body.len(), |line| starts[*line]);
        found.push(ScriptBlock { commands: *index..end_command, bytes: starts[begins[nth]]..end });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::super::shell::commands;
    use super::*;

    fn texts(body: &str) -> Option<Vec<String>> {
        let found = blocks(body, &commands(body))?;
        Some(found.into_iter().map(|block| body[block.bytes].to_owned()).collect())
    }

    #[test]
    fn loops_and_conditions_are_whole() {
        let body = "\
a=1
# a comment
if [[ $a ]]; then
  b
fi
for i in 1 2; do
  c \\
    --x
done

d &
";
        let expected = [
            "a=1\n",
            "# a comment\nif [[ $a ]]; then\n  b\nfi\n",
            "for i in 1 2; do\n  c \\\n    --x\ndone\n",
            "\nd &\n",
        ];
        assert_eq!(texts(body).unwrap(), expected);
    }

    #[test]
    fn a_line_of_two_commands_is_not_split() {
        assert_eq!(texts("a\nb; c\n"), None);
        assert_eq!(texts("for i in 1; do a; done\nb\n").unwrap().len(), 2);
    }
}
