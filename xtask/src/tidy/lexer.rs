//! The part of Rust's lexical grammar that distinguishes code from comments and string literals. No
//! syntax beyond matching brackets; rules that need more belong in a lint.

/// Returns the source with comments, strings and characters replaced by blanks: same length, same
/// lines.
pub fn code_of(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => line_end(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => block_comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' | b'b' | b'c' if !follows_word(bytes, at) => prefixed_string_end(bytes, at),
            b'\'' => character_end(bytes, at),
            _ => at,
        };
        for byte in out.iter_mut().take(end).skip(at).filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
        at = end.max(at + 1);
    }
    String::from_utf8(out).expect("only whole characters are blanked")
}

/// Returns the index just after the bracket that matches the one at `open`; the end of the code
/// when there is none.
pub fn matching(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return offset + 1;
        }
    }
    code.len()
}

/// Returns true when the byte before `at` is a letter, digit or underscore.
pub fn follows_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |offset| from + offset)
}

/// Returns the end of a block comment, which may be nested.
fn block_comment_end(bytes: &[u8], from: usize) -> usize {
    let mut depth = 0usize;
    let mut at = from;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the end of a literal `b"…"`, `c"…"`, `r"…"`, `br#"…"#` or `b'…'`; `from` when there is
/// none.
fn prefixed_string_end(bytes: &[u8], from: usize) -> usize {
    let letters =
        bytes[from..].iter().take(2).take_while(|byte| matches!(byte, b'r' | b'b' | b'c')).count();
    let raw = bytes[from..from + letters].contains(&b'r');
    let hashes = bytes[from + letters..].iter().take_while(|byte| **byte == b'#').count();
    let quote = from + letters + hashes;
    match bytes.get(quote) {
        Some(b'"') if raw => {
            let close: Vec<u8> =
                std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
            let inside = quote + 1;
            let found = bytes[inside..].windows(close.len()).position(|window| window == close);
            found.map_or(bytes.len(), |offset| inside + offset + close.len())
        }
        Some(b'"') if hashes == 0 => string_end(bytes, quote),
        Some(b'\'') if hashes == 0 && !raw => character_end(bytes, quote),
        _ => from,
    }
}

/// Returns the end of a character literal; the quote itself where it starts a lifetime.
fn character_end(bytes: &[u8], quote: usize) -> usize {
    match bytes.get(quote + 1) {
        Some(b'\\') => {
            let from = quote + 3;
            let close =
                bytes.get(from..).and_then(|rest| rest.iter().position(|byte| *byte == b'\''));
            close.map_or(bytes.len(), |offset| from + offset + 1)
        }
        Some(first) => {
            let width = match first {
                0..0x80 => 1,
                0x80..0xE0 => 2,
                0xE0..0xF0 => 3,
                _ => 4,
            };
            if bytes.get(quote + 1 + width) == Some(&b'\'') { quote + width + 2 } else { quote }
        }
        None => quote,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        assert_eq!(code_of(source), expected);
    }

    #[test]
    fn comments_and_text_are_blanked_and_code_is_kept() {
        check("a // b", "a     ");
        check("a /* b /* c */ d */ e", "a                   e");
        check(r#"f("dbg!(", x)"#, "f(       , x)");
        check(r#"f("a\"b", x)"#, "f(      , x)");
        check("f(r#\"a\"b\"#, x)", "f(        , x)");
        check("f(b\"a\", b'a', c\"a\")", "f(    ,     ,     )");
        check("a\n// b\nc", "a\n    \nc");
    }

    #[test]
    fn characters_are_text_and_lifetimes_are_code() {
        check("'{' '\\'' 'é' x", "              x");
        check("fn f<'a>(x: &'a str, r#type: u8)", "fn f<'a>(x: &'a str, r#type: u8)");
        check("for 'r: loop", "for 'r: loop");
        check("number\"x\"", "number   ");
    }

    #[test]
    fn brackets_match_across_lines() {
        let code = "a(b[c]{\n}) d";
        assert_eq!(&code[1..matching(code, 1)], "(b[c]{\n})");
        assert_eq!(matching("(", 0), 1);
    }
}
