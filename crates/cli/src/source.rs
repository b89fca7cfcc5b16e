//! Reads job and queue files, with a bound on their size.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Result;

use crate::exit::{Failure, USAGE};

/// Largest file that is read: a hundred times what any sensible spec needs; the parser refuses less.
const MAX_BYTES: u64 = 16 << 20;

/// Text with what to call it in diagnostics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The text.
    pub source: String,
    /// Its name; `None` for a command line.
    pub file: Option<String>,
}

/// Reads a file, or stdin when the path is `-`.
pub fn read(path: &Path) -> Result<Text> {
    let name = if path.as_os_str() == "-" { "stdin".to_owned() } else { path.display().to_string() };
    let failed = |error: std::io::Error| {
        let failure = unreadable(Path::new(&name), &error);
        match looks_like_a_time(path) {
            true => failure.hint(format!("`-t` asks for a terminal; a time limit is `--time {name}`")),
            false => failure,
        }
    };
    let mut bytes = Vec::new();
    let reader: &mut dyn Read = match path.as_os_str() == "-" {
        true => &mut std::io::stdin().lock(),
        false => &mut File::open(path).map_err(failed)?,
    };
    reader.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::usage(format!("{name} is larger than {} MiB", MAX_BYTES >> 20)).into());
    }
    if bytes.starts_with(b"#!") {
        return Err(Failure::usage(format!("{name} is a script, not a job file"))
            .hint(format!("to run it: muster run [OPTIONS] -- {}", runnable(path)))
            .into());
    }
    let source = String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{name} is not UTF-8 text")))?;
    Ok(Text { source, file: Some(name) })
}

/// A file that cannot be read.
pub fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure { code: USAGE, ..Failure::new(format!("cannot read {}: {}", path.display(), plain(error))) }
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
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    text.to_lowercase()
}
