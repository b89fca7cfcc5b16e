//! The commands of a shell script with their words, as far as that can be told without running it:
//! quotes, line continuation, here-documents, pipes, and how deep in loops and conditions a command
//! stands. It runs nothing and expands nothing.

/// How a piece of a word was quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quote {
    None,
    Single,
    Double,
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Letters as they are.
    Text(String, Quote),
    /// `$NAME` and `${NAME}`; `plain` is false for `${NAME:-8}` and its like, which nobody can
    /// tell.
    Variable { name: String, plain: bool },
    /// What stands in `$(( … ))`.
    Arithmetic(String),
    /// What stands in `$( … )` or backticks.
    Substitution(String),
}

/// A word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// As it stands in the script.
    pub(super) raw: String,
    pub(super) parts: Vec<Part>,
    /// Where it begins, in bytes of the text.
    pub(super) start: usize,
}

impl Word {
    /// Its text, where nothing in it is expanded.
    pub(super) fn literal(&self) -> Option<String> {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Text(text, _) => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Its text with what is expanded as it was written.
    pub(super) fn shown(&self) -> String {
        let show = |part: &Part| match part {
            Part::Text(text, _) => text.clone(),
            Part::Variable { name, plain: true } => format!("${name}"),
            Part::Variable { name, plain: false } => format!("${{{name}…}}"),
            Part::Arithmetic(text) => format!("$(({text}))"),
            Part::Substitution(text) => format!("$({text})"),
        };
        self.parts.iter().map(show).collect()
    }

    /// Variables that the shell puts in before the program starts.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }
}

/// A here-document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Document {
    /// Nothing in it is expanded.
    pub(super) is_quoted: bool,
    pub(super) text: String,
    end: String,
    strips_tabs: bool,
}

/// What stands between a command and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// A line end, or `;`.
    Next,
    /// `&&`.
    And,
    /// `||`.
    Or,
    /// `|`.
    Pipe,
    /// `&`.
    Background,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// Line of the text, from 1.
    pub(super) line: u32,
    pub(super) words: Vec<Word>,
    /// Loops, conditions, functions and groups around it.
    pub(super) depth: usize,
    /// It stands in a loop or a function: how often it runs is not said.
    pub(super) is_repeated: bool,
    /// It stands in a function, whose arguments are its own.
    pub(super) is_in_function: bool,
    /// Where its output goes: `>`, `2>>`, with the target.
    pub(super) redirects: Vec<(String, Word)>,
    pub(super) document: Option<Document>,
    pub(super) then: Then,
    /// It reads what the command before it writes.
    pub(super) is_piped: bool,
}

impl Command {
    /// Its first word as text, behind variables that it sets.
    pub(super) fn program(&self) -> Option<String> {
        self.words.iter().find(|word| assignment(word).is_none()).and_then(Word::literal)
    }
}

/// `NAME=` of a word that sets a variable, and the rest of it.
pub(super) fn assignment(word: &Word) -> Option<(String, Word)> {
    let Part::Text(text, Quote::None) = word.parts.first()? else { return None };
    let set = text.split_once('=').filter(|(name, _)| {
        super::super::script::quote::is_variable(name.strip_suffix('+').unwrap_or(name))
    });
    let Some((name, rest)) = set else { return element(word) };
    let mut parts = word.parts.clone();
    parts[0] = Part::Text(rest.to_owned(), Quote::None);
    let raw = word.raw.split_once('=').map_or(String::new(), |(_, rest)| rest.to_owned());
    Some((name.to_owned(), Word { raw, parts, start: word.start }))
}

/// `NAME[3]=` or `NAME[$i]=` of a word that sets one element of an array, and the rest of it as
/// written.
fn element(word: &Word) -> Option<(String, Word)> {
    let (name, rest) = word.raw.split_once('=')?;
    let (array, index) =
        name.strip_suffix('+').unwrap_or(name).strip_suffix(']')?.split_once('[')?;
    let is_element = super::super::script::quote::is_variable(array) && !index.is_empty();
    let parts = vec![Part::Text(rest.to_owned(), Quote::None)];
    is_element.then(|| (name.to_owned(), Word { raw: rest.to_owned(), parts, start: word.start }))
}

/// The commands of a text.
pub(super) fn commands(text: &str) -> Vec<Command> {
    scanned(text).commands
}

/// Lines on which a comment begins; what looks like one in quotes or in a here-document is none.
pub(super) fn comments(text: &str) -> Vec<u32> {
    scanned(text).comments
}

/// What the shell fills into a text that is expanded as in double quotes, such as a here-document.
pub(super) fn expansions(text: &str) -> Vec<Part> {
    let (mut scanner, mut parts) = (Scanner::new(text), Vec::new());
    while let Some(letter) = scanner.peek(0) {
        match letter {
            '\\' => scanner.at += 2,
            '$' | '`' => parts.extend(scanner.expansion()),
            _ => scanner.at += 1,
        }
    }
    parts
}

fn scanned(text: &str) -> Scanner {
    let mut scanner = Scanner::new(text);
    scanner.run();
    scanner
}

struct Scanner {
    letters: Vec<(usize, char)>,
    at: usize,
    line: u32,
    commands: Vec<Command>,
    words: Vec<Word>,
    redirects: Vec<(String, Word)>,
    /// Here-documents whose lines have not come yet, with the command that they belong to.
    documents: Vec<(usize, Document)>,
    /// Words that an end is still to come of: `if`, `for`, `{`, `(`, `case`, and those of
    /// functions.
    open: Vec<&'static str>,
    /// What comes next is the body of a function.
    is_function: bool,
    comments: Vec<u32>,
    first_line: u32,
    is_piped: bool,
}

impl Scanner {
    fn new(text: &str) -> Self {
        Self {
            letters: text.char_indices().collect(),
            at: 0,
            line: 1,
            commands: Vec::new(),
            words: Vec::new(),
            redirects: Vec::new(),
            documents: Vec::new(),
            open: Vec::new(),
            is_function: false,
            comments: Vec::new(),
            first_line: 1,
            is_piped: false,
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).map(|(_, letter)| *letter)
    }

    fn run(&mut self) {
        while let Some(letter) = self.peek(0) {
            match letter {
                '\\' if self.peek(1) == Some('\n') => {
                    self.at += 2;
                    self.line += 1;
                }
                ' ' | '\t' | '\r' => self.at += 1,
                '#' => self.comment(),
                '\n' => {
                    self.end(Then::Next);
                    self.at += 1;
                    self.line += 1;
                    self.documents();
                }
                ';' => {
                    self.end(Then::Next);
                    self.at += 1;
                }
                '&' if self.peek(1) == Some('&') => self.sign(Then::And, 2),
                '|' if self.peek(1) == Some('|') => self.sign(Then::Or, 2),
                '|' => {
                    let more = usize::from(self.peek(1) == Some('&'));
                    self.sign(Then::Pipe, 1 + more);
                }
                '&' if self.peek(1) == Some('>') => self.redirect(String::new()),
                '&' => self.sign(Then::Background, 1),
                '>' | '<' => self.redirect(String::new()),
                '(' if self.is_behind_assignment() => self.elements(),
                '(' => {
                    self.end(Then::Next);
                    self.begin("(", "function (");
                    self.at += 1;
                }
                ')' => {
                    self.end(Then::Next);
                    self.close(&["(", "function ("]);
                    self.at += 1;
                }
                _ => self.word(),
            }
        }
        self.end(Then::Next);
    }

    /// Whether the last word ends right here and sets a variable: `NAMES=(a b)` is a list, and no
    /// subshell.
    fn is_behind_assignment(&self) -> bool {
        let is_near =
            self.at > 0 && self.letters.get(self.at - 1).is_some_and(|(_, letter)| *letter == '=');
        is_near && self.words.last().is_some_and(|word| assignment(word).is_some())
    }

    /// Passes over the elements of a list, with what the shell fills into them.
    fn elements(&mut self) {
        let list = self.balanced('(', ')');
        let filled = expansions(&list);
        if let Some(word) = self.words.last_mut() {
            word.raw.push_str(&list);
            word.parts.extend(filled);
        }
    }

    fn comment(&mut self) {
        self.comments.push(self.line);
        while self.peek(0).is_some_and(|letter| letter != '\n') {
            self.at += 1;
        }
    }

    fn sign(&mut self, then: Then, length: usize) {
        self.end(then);
        self.at += length;
    }

    /// A command is over.
    fn end(&mut self, then: Then) {
        let words = std::mem::take(&mut self.words);
        let redirects = std::mem::take(&mut self.redirects);
        if words.is_empty() && redirects.is_empty() {
            self.is_piped = self.is_piped && then != Then::Next;
            return;
        }
        let is_in_function = self.open.iter().any(|open| open.starts_with("function"));
        let command = Command {
            line: self.first_line,
            words,
            depth: self.open.len(),
            is_repeated: self.open.contains(&"for") || is_in_function,
            is_in_function,
            redirects,
            document: None,
            then,
            is_piped: std::mem::replace(&mut self.is_piped, then == Then::Pipe),
        };
        self.commands.push(command);
    }

    /// `>`, `>>`, `2>&1`, `<`, `<<EOF`, `<<<`, behind an optional number.
    fn redirect(&mut self, mut sign: String) {
        while let Some(letter @ ('>' | '<' | '&' | '|' | '-')) = self.peek(0) {
            if letter == '-' && sign != "<<" {
                break;
            }
            sign.push(letter);
            self.at += 1;
        }
        self.blanks();
        let target = self.scan();
        if self.words.is_empty() && self.redirects.is_empty() {
            self.first_line = self.line;
        }
        if sign.ends_with("<<") && !sign.ends_with("<<<") || sign.ends_with("<<-") {
            let is_quoted = target.raw.contains(['\'', '"', '\\']);
            let strips_tabs = sign.ends_with('-');
            let end = target.literal().unwrap_or_default();
            let document = Document { is_quoted, text: String::new(), end, strips_tabs };
            self.documents.push((self.commands.len(), document));
        }
        self.redirects.push((sign, target));
    }

    /// The lines of here-documents that were announced on the line before.
    fn documents(&mut self) {
        for (owner, mut document) in std::mem::take(&mut self.documents) {
            while self.at < self.letters.len() {
                let mut line = String::new();
                while let Some(letter) = self.peek(0).filter(|letter| *letter != '\n') {
                    line.push(letter);
                    self.at += 1;
                }
                self.at += 1;
                self.line += 1;
                let kept = if document.strips_tabs { line.trim_start_matches('\t') } else { &line };
                if kept == document.end {
                    break;
                }
                document.text.push_str(kept);
                document.text.push('\n');
            }
            self.at = self.at.min(self.letters.len());
            if let Some(command) = self.commands.get_mut(owner) {
                command.document = Some(document);
            }
        }
    }

    /// A word, a number before a redirection, or a word of the shell's own.
    fn word(&mut self) {
        let is_first = self.words.is_empty();
        if is_first && self.redirects.is_empty() {
            self.first_line = self.line;
        }
        let word = self.scan();
        if matches!(self.peek(0), Some('>' | '<'))
            && !word.raw.is_empty()
            && word.raw.bytes().all(|byte| byte.is_ascii_digit())
        {
            return self.redirect(word.raw);
        }
        // `name()`, `name ()` and `function name` begin a function.
        if is_first && word.raw == "function" {
            self.blanks();
            self.scan();
            self.brackets();
            self.is_function = true;
            return;
        }
        if is_first && self.brackets() {
            self.is_function = true;
            return;
        }
        if !is_first {
            // `in` and patterns of a case are words like others; `do` and `then` follow a sign.
            self.words.push(word);
            return;
        }
        match word.raw.as_str() {
            "if" => self.open.push("if"),
            "for" | "select" => {
                self.open.push("for");
                self.words.push(word);
            }
            "while" | "until" => self.open.push("for"),
            "case" => {
                self.open.push("case");
                self.words.push(word);
            }
            "{" => self.begin("{", "function {"),
            "then" | "else" | "elif" | "do" | "!" => {}
            "fi" => self.close(&["if"]),
            "done" => self.close(&["for"]),
            "esac" => self.close(&["case"]),
            "}" => self.close(&["{", "function {"]),
            _ => self.words.push(word),
        }
    }

    /// A group, or the body of a function.
    fn begin(&mut self, group: &'static str, function: &'static str) {
        self.open.push(if std::mem::take(&mut self.is_function) { function } else { group });
    }

    fn close(&mut self, what: &[&str]) {
        if self.open.last().is_some_and(|last| what.contains(last)) {
            self.open.pop();
        }
    }

    fn blanks(&mut self) {
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
    }

    /// Passes over `()`, if that comes next.
    fn brackets(&mut self) -> bool {
        let before = self.at;
        self.blanks();
        if self.peek(0) == Some('(') && self.peek(1) == Some(')') {
            self.at += 2;
            return true;
        }
        self.at = before;
        false
    }

    /// Reads one word.
    fn scan(&mut self) -> Word {
        let begin = self.at;
        let start = self.letters.get(begin).map_or(0, |(start, _)| *start);
        let (mut parts, mut text) = (Vec::new(), String::new());
        let flush = |text: &mut String, parts: &mut Vec<Part>, quote: Quote| {
            if !text.is_empty() || quote != Quote::None {
                parts.push(Part::Text(std::mem::take(text), quote));
            }
        };
        while let Some(letter) = self.peek(0) {
            match letter {
                '\\' => {
                    match self.peek(1) {
                        Some('\n') => self.line += 1,
                        Some(next) => text.push(next),
                        None => {}
                    }
                    self.at += 2;
                }
                '\'' => {
                    flush(&mut text, &mut parts, Quote::None);
                    self.at += 1;
                    while let Some(letter) = self.peek(0).filter(|letter| *letter != '\'') {
                        self.line += u32::from(letter == '\n');
                        text.push(letter);
                        self.at += 1;
                    }
                    self.at += 1;
                    flush(&mut text, &mut parts, Quote::Single);
                }
                '"' => {
                    flush(&mut text, &mut parts, Quote::None);
                    self.at += 1;
                    self.double(&mut parts);
                }
                '$' | '`' => {
                    flush(&mut text, &mut parts, Quote::None);
                    match self.expansion() {
                        Some(part) => parts.push(part),
                        None => text.push('$'),
                    }
                }
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                _ => {
                    text.push(letter);
                    self.at += 1;
                }
            }
        }
        flush(&mut text, &mut parts, Quote::None);
        self.at = self.at.min(self.letters.len());
        let raw = self.letters[begin..self.at].iter().map(|(_, letter)| *letter).collect();
        Word { raw, parts, start }
    }

    /// What stands in double quotes.
    fn double(&mut self, parts: &mut Vec<Part>) {
        let mut text = String::new();
        let mut is_empty = true;
        while let Some(letter) = self.peek(0).filter(|letter| *letter != '"') {
            is_empty = false;
            match letter {
                '\\' => {
                    match self.peek(1) {
                        Some('\n') => self.line += 1,
                        Some(next @ ('"' | '\\' | '$' | '`')) => text.push(next),
                        Some(next) => text.extend(['\\', next]),
                        None => {}
                    }
                    self.at += 2;
                }
                '$' | '`' => match self.expansion() {
                    Some(part) => {
                        if !text.is_empty() {
                            parts.push(Part::Text(std::mem::take(&mut text), Quote::Double));
                        }
                        parts.push(part);
                    }
                    None => text.push('$'),
                },
                _ => {
                    self.line += u32::from(letter == '\n');
                    text.push(letter);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        if !text.is_empty() || is_empty {
            parts.push(Part::Text(text, Quote::Double));
        }
    }

    /// At `$` or a backtick: what is put in there. `None` for a `$` that stands for itself.
    fn expansion(&mut self) -> Option<Part> {
        let is_backtick = self.peek(0) == Some('`');
        self.at += 1;
        if is_backtick {
            let mut text = String::new();
            while let Some(letter) = self.peek(0).filter(|letter| *letter != '`') {
                text.push(letter);
                self.at += 1;
            }
            self.at += 1;
            return Some(Part::Substitution(text));
        }
        match (self.peek(0), self.peek(1)) {
            (Some('('), Some('(')) => {
                let inner = self.balanced('(', ')');
                let inner = inner
                    .strip_prefix('(')
                    .and_then(|inner| inner.strip_suffix(')'))
                    .unwrap_or(&inner);
                Some(Part::Arithmetic(inner.to_owned()))
            }
            (Some('('), _) => Some(Part::Substitution(self.balanced('(', ')'))),
            (Some('{'), _) => {
                let inner = self.balanced('{', '}');
                let mut name: String =
                    inner.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                // `${@:2}`, `${#}`, `${#@}`; `${#NAME}` is a length.
                if name.is_empty()
                    && (inner.starts_with(['@', '*'])
                        || ["#", "#@", "#*"].contains(&inner.as_str()))
                {
                    name = inner.chars().take(1).collect();
                }
                let plain = name == inner;
                Some(Part::Variable { name, plain })
            }
            (Some(letter), _) if letter.is_ascii_alphabetic() || letter == '_' => {
                let mut name = String::new();
                while let Some(letter) =
                    self.peek(0).filter(|c| c.is_ascii_alphanumeric() || *c == '_')
                {
                    name.push(letter);
                    self.at += 1;
                }
                Some(Part::Variable { name, plain: true })
            }
            (Some(letter), _) if letter.is_ascii_digit() || "?@*#!-$".contains(letter) => {
                self.at += 1;
                Some(Part::Variable { name: letter.to_string(), plain: true })
            }
            _ => None,
        }
    }

    /// From an opening letter to its end; quotes keep what is in them.
    fn balanced(&mut self, open: char, close: char) -> String {
        let (mut depth, mut text, mut quote) = (0_u32, String::new(), None);
        while let Some(letter) = self.peek(0) {
            self.at += 1;
            self.line += u32::from(letter == '\n');
            match letter {
                _ if quote == Some(letter) => quote = None,
                _ if quote.is_some() => {}
                '\'' | '"' => quote = Some(letter),
                _ if letter == open => depth += 1,
                _ if letter == close => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                _ => {}
            }
            if depth > 1 || letter != open || !text.is_empty() {
                text.push(letter);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_with_their_words_and_depth() {
        let check = |text: &str, expected: &[&str]| {
            let lines: Vec<String> = commands(text)
                .iter()
                .map(|command| {
                    let words: Vec<String> = command.words.iter().map(Word::shown).collect();
                    format!("{}:{} {}", command.line, command.depth, words.join("|"))
                })
                .collect();
            assert_eq!(lines, expected, "{text}");
        };
        check("a b  c\nd", &["1:0 a|b|c", "2:0 d"]);
        check("srun \\\n  x # y\nz", &["1:0 srun|x", "3:0 z"]);
        check("a && b || c; d | e &", &["1:0 a", "1:0 b", "1:0 c", "1:0 d", "1:0 e"]);
        check("if a; then b; fi\nc", &["1:1 a", "1:1 b", "2:0 c"]);
        check("for i in 1 2; do\n  a $i\ndone\nb", &["1:1 for|i|in|1|2", "2:1 a|$i", "4:0 b"]);
        check("f() {\n  a\n}\nf", &["2:1 a", "4:0 f"]);
        check("f () {\n  a\n}\nf", &["2:1 a", "4:0 f"]);
        check("function f {\n  a\n}\nfunction g() { b; }\nf", &["2:1 a", "4:1 b", "5:0 f"]);
        check("a <<EOF\nb c\nEOF\nd", &["1:0 a", "4:0 d"]);
        check("x='a b' y=\"$z w\" p", &["1:0 x=a b|y=$z w|p"]);
        check("a $(b \"c)\" d) $((1 + 2)) `e f`", &["1:0 a|$(b \"c)\" d)|$((1 + 2))|$(e f)"]);
        check("a 2>&1 > b c", &["1:0 a|c"]);
        check("case $x in\n  a) b ;;\nesac\nc", &["1:1 case|$x|in", "2:1 a", "2:1 b", "4:0 c"]);
    }

    #[test]
    fn what_runs_more_than_once_and_what_has_arguments_of_its_own_is_known() {
        let check = |text: &str, expected: &[(bool, bool)]| {
            let found: Vec<_> =
                commands(text).iter().map(|one| (one.is_repeated, one.is_in_function)).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("a; if b; then c; fi", &[(false, false); 3]);
        check("while a; do b; done; c", &[(true, false), (true, false), (false, false)]);
        check("f() { a; }; g () ( b ); { c; }", &[(true, true), (true, true), (false, false)]);
    }

    #[test]
    fn comments_are_none_in_documents_and_quotes() {
        let text = "a # b\ncat <<EOF\n#c\nEOF\necho \"\n#d\n\"\nx=$(cat <<E\n#e\nE\n)\n#f\n";
        assert_eq!(comments(text), [1, 12]);
        let of = |text: &str| expansions(text).len();
        assert_eq!((of("a $1 ${2:-x} \\$3"), of("it's $(b)")), (2, 1));
    }

    #[test]
    fn documents_and_quotes_say_whether_they_are_expanded() {
        let all = commands("srun bash <<'EOF'\n$A\nEOF\nbash -c \"$B\" '$C'\n");
        let document = all[0].document.as_ref().unwrap();
        assert!(document.is_quoted && document.text == "$A\n");
        assert_eq!(all[1].words[2].variables().collect::<Vec<_>>(), ["B"]);
        assert_eq!(all[1].words[3].literal().as_deref(), Some("$C"));
        let all = commands("export A=b\nC=\"x $D\"");
        assert_eq!(assignment(&all[1].words[0]).unwrap().0, "C");
        assert_eq!((all[0].program().as_deref(), all[1].program()), (Some("export"), None));
    }
}
