//! Parser for the commands of a shell script, as far as possible without running it: words, quotes,
//! line continuation, here-documents, pipes, and the nesting in loops and conditions. Nothing is
//! run or expanded.

/// Quoting of a part of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quote {
    None,
    Single,
    Double,
}

/// Part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WordPart {
    /// Literal characters, with their quoting.
    Text(String, Quote),
    /// `$NAME` and `${NAME}`; `plain` is false for forms such as `${NAME:-8}`, whose value is
    /// uncertain.
    Variable { name: String, plain: bool },
    /// Content of `$(( … ))`.
    Arithmetic(String),
    /// Content of `$( … )` or backticks.
    Substitution(String),
}

/// Word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShellWord {
    /// Text as in the script.
    pub(super) raw: String,
    pub(super) parts: Vec<WordPart>,
    /// Offset of its first byte in the text.
    pub(super) start: usize,
}

impl ShellWord {
    /// Returns its text, if nothing in it is expanded.
    pub(super) fn literal(&self) -> Option<String> {
        self.parts
            .iter()
            .map(|part| match part {
                WordPart::Text(text, _) => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Returns its text, with expansions as written.
    pub(super) fn shown(&self) -> String {
        let show = |part: &WordPart| match part {
            WordPart::Text(text, _) => text.clone(),
            WordPart::Variable { name, plain: true } => format!("${name}"),
            WordPart::Variable { name, plain: false } => format!("${{{name}…}}"),
            WordPart::Arithmetic(text) => format!("$(({text}))"),
            WordPart::Substitution(text) => format!("$({text})"),
        };
        self.parts.iter().map(show).collect()
    }

    /// Returns the variables that the shell expands before the program starts.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            WordPart::Variable { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }
}

/// Here-document of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HereDocument {
    /// Set when nothing in it is expanded.
    pub(super) is_quoted: bool,
    pub(super) text: String,
    end: String,
    strips_tabs: bool,
}

/// Separator between a command and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Line end, or `;`.
    Next,
    /// `&&`, which continues on success.
    And,
    /// `||`, which continues on failure.
    Or,
    /// `|`, which connects output and input.
    Pipe,
    /// `&`, which starts it in the background.
    Background,
}

/// Command of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShellCommand {
    /// Line of the text, from 1.
    pub(super) line: u32,
    pub(super) words: Vec<ShellWord>,
    /// Number of loops, conditions, functions and groups around it.
    pub(super) depth: usize,
    /// Set in a loop or a function: it may run any number of times.
    pub(super) is_repeated: bool,
    /// Set in a function, which has its own arguments.
    pub(super) is_in_function: bool,
    /// Redirections of its output: operator, such as `>` or `2>>`, and target.
    pub(super) redirects: Vec<(String, ShellWord)>,
    pub(super) document: Option<HereDocument>,
    pub(super) then: Then,
    /// Set when it reads the output of the command before it.
    pub(super) is_piped: bool,
}

impl ShellCommand {
    /// Returns its first word after assignments, as text.
    pub(super) fn program(&self) -> Option<String> {
        self.words.iter().find(|word| assignment(word).is_none()).and_then(ShellWord::literal)
    }
}

/// Splits `NAME=` off a word that sets a variable.
pub(super) fn assignment(word: &ShellWord) -> Option<(String, ShellWord)> {
    let WordPart::Text(text, Quote::None) = word.parts.first()? else { return None };
    let set = text.split_once('=').filter(|(name, _)| {
        super::super::script::quote::is_variable(name.strip_suffix('+').unwrap_or(name))
    });
    let Some((name, rest)) = set else { return element(word) };
    let mut parts = word.parts.clone();
    parts[0] = WordPart::Text(rest.to_owned(), Quote::None);
    let raw = word.raw.split_once('=').map_or(String::new(), |(_, rest)| rest.to_owned());
    Some((name.to_owned(), ShellWord { raw, parts, start: word.start }))
}

/// Splits `NAME[3]=` or `NAME[$i]=` off a word that sets an element of an array.
fn element(word: &ShellWord) -> Option<(String, ShellWord)> {
    let (name, rest) = word.raw.split_once('=')?;
    let (array, index) =
        name.strip_suffix('+').unwrap_or(name).strip_suffix(']')?.split_once('[')?;
    let is_element = super::super::script::quote::is_variable(array) && !index.is_empty();
    let parts = vec![WordPart::Text(rest.to_owned(), Quote::None)];
    is_element
        .then(|| (name.to_owned(), ShellWord { raw: rest.to_owned(), parts, start: word.start }))
}

/// Parses the commands of a text.
pub(super) fn commands(text: &str) -> Vec<ShellCommand> {
    scanned(text).commands
}

/// Returns the lines on which a comment begins, outside quotes and here-documents.
pub(super) fn comments(text: &str) -> Vec<u32> {
    scanned(text).comments
}

/// Returns the expansions in a text that is expanded as in double quotes, such as a here-document.
pub(super) fn expansions(text: &str) -> Vec<WordPart> {
    let mut scanner = Scanner::new(text);
    let mut parts = Vec::new();
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
    commands: Vec<ShellCommand>,
    words: Vec<ShellWord>,
    redirects: Vec<(String, ShellWord)>,
    /// Here-documents whose lines follow, with the index of their command.
    documents: Vec<(usize, HereDocument)>,
    /// Open words that need an end: `if`, `for`, `{`, `(`, `case`, and those of functions.
    open: Vec<&'static str>,
    /// Set when the body of a function follows.
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

    /// Returns whether the last word ends here and sets a variable: `NAMES=(a b)` is a list, not a
    /// subshell.
    fn is_behind_assignment(&self) -> bool {
        let is_near =
            self.at > 0 && self.letters.get(self.at - 1).is_some_and(|(_, letter)| *letter == '=');
        is_near && self.words.last().is_some_and(|word| assignment(word).is_some())
    }

    /// Skips the elements of a list, but records their expansions.
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

    /// Ends a command at its separator.
    fn end(&mut self, then: Then) {
        let words = std::mem::take(&mut self.words);
        let redirects = std::mem::take(&mut self.redirects);
        if words.is_empty() && redirects.is_empty() {
            self.is_piped = self.is_piped && then != Then::Next;
            return;
        }
        let is_in_function = self.open.iter().any(|open| open.starts_with("function"));
        let command = ShellCommand {
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

    /// Parses a redirection: `>`, `>>`, `2>&1`, `<`, `<<EOF`, `<<<`, after an optional number.
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
            let document = HereDocument { is_quoted, text: String::new(), end, strips_tabs };
            self.documents.push((self.commands.len(), document));
        }
        self.redirects.push((sign, target));
    }

    /// Reads the lines of here-documents that began on the line before.
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

    /// Parses a word, a number before a redirection, or a keyword of the shell.
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
            // `in` and the patterns of a case are plain words; `do` and `then` follow a separator.
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

    /// Begins a group, or the body of a function.
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

    /// Skips `()`, if that follows.
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

    /// Reads one word of a command.
    fn scan(&mut self) -> ShellWord {
        let begin = self.at;
        let start = self.letters.get(begin).map_or(0, |(start, _)| *start);
        let mut parts = Vec::new();
        let mut text = String::new();
        let flush = |text: &mut String, parts: &mut Vec<WordPart>, quote: Quote| {
            if !text.is_empty() || quote != Quote::None {
                parts.push(WordPart::Text(std::mem::take(text), quote));
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
        ShellWord { raw, parts, start }
    }

    /// Reads the content of double quotes.
    fn double(&mut self, parts: &mut Vec<WordPart>) {
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
                            parts.push(WordPart::Text(std::mem::take(&mut text), Quote::Double));
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
            parts.push(WordPart::Text(text, Quote::Double));
        }
    }

    /// Parses an expansion at `$` or a backtick. `None` for a literal `$`.
    fn expansion(&mut self) -> Option<WordPart> {
        let is_backtick = self.peek(0) == Some('`');
        self.at += 1;
        if is_backtick {
            let mut text = String::new();
            while let Some(letter) = self.peek(0).filter(|letter| *letter != '`') {
                text.push(letter);
                self.at += 1;
            }
            self.at += 1;
            return Some(WordPart::Substitution(text));
        }
        match (self.peek(0), self.peek(1)) {
            (Some('('), Some('(')) => {
                let inner = self.balanced('(', ')');
                let inner = inner
                    .strip_prefix('(')
                    .and_then(|inner| inner.strip_suffix(')'))
                    .unwrap_or(&inner);
                Some(WordPart::Arithmetic(inner.to_owned()))
            }
            (Some('('), _) => Some(WordPart::Substitution(self.balanced('(', ')'))),
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
                Some(WordPart::Variable { name, plain })
            }
            (Some(letter), _) if letter.is_ascii_alphabetic() || letter == '_' => {
                let mut name = String::new();
                while let Some(letter) =
                    self.peek(0).filter(|c| c.is_ascii_alphanumeric() || *c == '_')
                {
                    name.push(letter);
                    self.at += 1;
                }
                Some(WordPart::Variable { name, plain: true })
            }
            (Some(letter), _) if letter.is_ascii_digit() || "?@*#!-$".contains(letter) => {
                self.at += 1;
                Some(WordPart::Variable { name: letter.to_string(), plain: true })
            }
            _ => None,
        }
    }

    /// Reads up to the matching closing character, except in quotes.
    fn balanced(&mut self, open: char, close: char) -> String {
        let mut depth = 0_u32;
        let mut text = String::new();
        let mut quote = None;
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
                    let words: Vec<String> = command.words.iter().map(ShellWord::shown).collect();
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
