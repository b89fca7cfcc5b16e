//! Reads files that the user names, with a limit on their size.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Result;

use crate::exit::{Failure, USAGE};

/// Largest file in bytes that is read: a hundred times what a realistic job file needs. The parser
/// has lower limits of its own.
const MAX_BYTES: u64 = 16 << 20;

/// Byte order mark, which some editors and shells write at the start of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Text with the name of its file for diagnostics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceText {
    /// Content of the file.
    pub source: String,
    /// Name of the file; `None` for a command line.
    pub file: Option<String>,
}

/// Content of a file, by kind.
#[derive(Debug)]
pub enum Content {
    /// Job documents in YAML.
    Jobs(SourceText),
    /// A script for sbatch.
    Script(SourceText),
}

/// Prefix of an sbatch option in a script.
const OPTION: &str = "#SBATCH";

/// Reads a YAML file, or stdin when the path is `-`; rejects scripts.
pub fn read(path: &Path) -> Result<SourceText> {
    match jobs_or_script(path)? {
        Content::Jobs(text) => Ok(text),
        Content::Script(script) => {
            Err(script_refused(&script.file.unwrap_or_default(), path).into())
        }
    }
}

/// Reads a job file or an sbatch script, or stdin when the path is `-`.
pub fn jobs_or_script(path: &Path) -> Result<Content> {
    let (name, source) = match text(path, MAX_BYTES) {
        Err(failure) if looks_like_a_time(path) => {
            let time = path.display();
            return Err(failure
                .hint(format!("`-t` asks for a terminal; a time limit is `--time {time}`"))
                .into());
        }
        read => read?,
    };
    let is_named_so = path.extension().is_some_and(|end| end == "sbatch" || end == "slurm");
    if source.starts_with("#!")
        && (is_named_so || source.lines().any(|line| line.starts_with(OPTION)))
    {
        return Ok(Content::Script(SourceText { source, file: Some(name) }));
    }
    if source.starts_with("#!") {
        return Err(script_refused(&name, path).into());
    }
    Ok(Content::Jobs(SourceText { source, file: Some(name) }))
}

fn script_refused(name: &str, path: &Path) -> Failure {
    Failure::usage(format!("{name} is a script, not a YAML file"))
        .hint(format!("to run it: muster run [OPTIONS] -- {}", runnable(path)))
}

/// Reads text of at most `max_bytes`, or stdin when the path is `-`. Returns its name for
/// diagnostics and the text.
pub fn text(path: &Path, max_bytes: u64) -> Result<(String, String), Failure> {
    let is_stdin = path.as_os_str() == "-";
    let name = if is_stdin { "stdin".to_owned() } else { path.display().to_string() };
    let failed = |error: std::io::Error| unreadable(Path::new(&name), &error);
    let reader: &mut dyn Read = if is_stdin {
        &mut std::io::stdin().lock()
    } else {
        &mut File::open(path).map_err(failed)?
    };
    let mut bytes = Vec::new();
    reader.take(max_bytes + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > max_bytes {
        return Err(Failure::usage(format!("{name} is larger than {} MiB", max_bytes >> 20)));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("{name} is not UTF-8 text")))?;
    let text = without_byte_order_mark(&text).map(str::to_owned).unwrap_or(text);
    Ok((name, text))
}

/// Returns the text after a byte order mark; `None` if there is none.
pub fn without_byte_order_mark(text: &str) -> Option<&str> {
    text.strip_prefix(BYTE_ORDER_MARK)
}

/// Returns the error of a file that cannot be read.
pub fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure {
        code: USAGE,
        ..Failure::new(format!("cannot read {}: {}", path.display(), error_text(error)))
    }
}

/// Returns the path in a form that a shell runs: `./train.sh` for `train.sh`.
fn runnable(path: &Path) -> String {
    match path.components().count() {
        1 => format!("./{}", path.display()),
        _ => path.display().to_string(),
    }
}

/// Returns whether the path is a time such as `12h` or `1-12:00:00`, as after Slurm's `-t`.
fn looks_like_a_time(path: &Path) -> bool {
    path.to_str().is_some_and(|text| muster_spec::quantity::parse_span(text).is_ok())
}

/// Returns the system's error message without the error number.
pub fn error_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    text.to_lowercase()
}
