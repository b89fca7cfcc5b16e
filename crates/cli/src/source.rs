//! Reads files that people name, with a bound on their size.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Result;

use crate::exit::{Failure, USAGE};

/// Largest file that is read: a hundred times what any sensible spec needs; the parser refuses
/// less.
const MAX_BYTES: u64 = 16 << 20;

/// What some editors and shells put before the first letter of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Text with what to call it in diagnostics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The text.
    pub source: String,
    /// Its name; `None` for a command line.
    pub file: Option<String>,
}

/// What a file holds.
#[derive(Debug)]
pub enum Content {
    /// Jobs as text.
    Jobs(Text),
    /// A script for sbatch.
    Script(Text),
}

/// Marks an option of sbatch in a script.
const OPTION: &str = "#SBATCH";

/// Reads a spec, or stdin when the path is `-`; refuses scripts.
pub fn read(path: &Path) -> Result<Text> {
    match jobs_or_script(path)? {
        Content::Jobs(text) => Ok(text),
        Content::Script(script) => Err(refused(&script.file.unwrap_or_default(), path).into()),
    }
}

/// Reads jobs or a script for sbatch, or stdin when the path is `-`.
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
        return Ok(Content::Script(Text { source, file: Some(name) }));
    }
    if source.starts_with("#!") {
        return Err(refused(&name, path).into());
    }
    Ok(Content::Jobs(Text { source, file: Some(name) }))
}

fn refused(name: &str, path: &Path) -> Failure {
    Failure::usage(format!("{name} is a script, not a file that is read here"))
        .hint(format!("to run it: muster run [OPTIONS] -- {}", runnable(path)))
}

/// Reads text of at most so many bytes, or stdin when the path is `-`, and answers what to call it.
pub fn text(path: &Path, max_bytes: u64) -> Result<(String, String), Failure> {
    let is_stdin = path.as_os_str() == "-";
    let name = if is_stdin { "stdin".to_owned() } else { path.display().to_string() };
    let failed = |error: std::io::Error| unreadable(Path::new(&name), &error);
    let reader: &mut dyn Read = match is_stdin {
        true => &mut std::io::stdin().lock(),
        false => &mut File::open(path).map_err(failed)?,
    };
    let mut bytes = Vec::new();
    reader.take(max_bytes + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > max_bytes {
        return Err(Failure::usage(format!("{name} is larger than {} MiB", max_bytes >> 20)));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("{name} is not UTF-8 text")))?;
    let text = without_mark(&text).map(str::to_owned).unwrap_or(text);
    Ok((name, text))
}

/// The text behind a byte order mark; `None` where there is none.
pub fn without_mark(text: &str) -> Option<&str> {
    text.strip_prefix(BYTE_ORDER_MARK)
}

/// A file that cannot be read.
pub fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure {
        code: USAGE,
        ..Failure::new(format!("cannot read {}: {}", path.display(), plain(error)))
    }
}

/// `./train.sh` for `train.sh`: what a shell would need, too.
fn runnable(path: &Path) -> String {
    match path.components().count() {
        1 => format!("./{}", path.display()),
        _ => path.display().to_string(),
    }
}

/// `12h`, `1-12:00:00`: what somebody used to Slurm's `-t` types.
fn looks_like_a_time(path: &Path) -> bool {
    path.to_str().is_some_and(|text| muster_spec::quantity::parse_span(text).is_ok())
}

/// The system's words without its error number.
pub fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    text.to_lowercase()
}
