//! Opens trace files, plain or compressed with gzip, and streams their jobs line by line, so that
//! memory does not grow with the file. `muster-spec` parses the lines.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::mem;
use std::path::Path;

use anyhow::Result;
use flate2::bufread::MultiGzDecoder;
use muster_model::Time;
use muster_spec::{DuplicateIds, RowError, TraceFormat, TraceJob, TraceReader};

use crate::app::App;
use crate::exit::{Failure, USAGE};
use crate::source;

/// Longest line in bytes that is read. A JSON list may be one line; 64 MiB are some 15,000 pods.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// Number of invalid rows that are kept to be shown; all are counted.
const BAD_SHOWN: usize = 20;
/// Lines and bytes at the start of a file from which the format is detected.
const HEAD_LINES: usize = 40;
const HEAD_BYTES: usize = 1 << 20;

/// Magic numbers of other compression formats, and the command that decompresses each.
const PACKED: [(&[u8], &str); 4] = [
    (b"\x28\xb5\x2f\xfd", "zstd -dc"),
    (b"\xfd7zXZ\x00", "xz -dc"),
    (b"BZh", "bzip2 -dc"),
    (b"PK\x03\x04", "unzip -p"),
];

/// Summary of a streamed trace, besides its jobs.
#[derive(Debug)]
pub struct Streamed {
    /// Name of the file for messages.
    pub name: String,
    /// Format of the trace.
    pub format: TraceFormat,
    /// Number of processors of the machine; `None` if the trace does not say.
    pub procs: Option<u32>,
    /// Start of the trace's clock, since the epoch; `None` if its header does not say.
    pub zero: Option<Time>,
    /// Jobs with the id of an earlier one.
    pub duplicate_ids: DuplicateIds,
    /// First rows that cannot be parsed, at most [`BAD_SHOWN`].
    pub bad: Vec<RowError>,
    /// Number of rows that cannot be parsed.
    pub bad_count: u64,
}

/// Trace that is completely in memory.
#[derive(Debug)]
pub struct ReadTrace {
    /// Jobs in the order of the file.
    pub jobs: Vec<TraceJob>,
    /// Number of processors of the machine; `None` if the trace does not say.
    pub procs: Option<u32>,
    /// Jobs with the id of an earlier one.
    pub duplicate_ids: DuplicateIds,
    /// First rows that cannot be parsed, at most [`BAD_SHOWN`].
    pub bad: Vec<RowError>,
    /// Number of rows that cannot be parsed.
    pub bad_count: u64,
}

/// Reads all jobs of a trace; `-` is stdin. With `strict`, a row that cannot be parsed is an error.
pub fn read(path: &Path, format: Option<TraceFormat>, strict: bool) -> Result<ReadTrace> {
    let mut jobs = Vec::new();
    let streamed = stream(path, format, strict, &mut |job| jobs.push(job))?;
    let Streamed { procs, duplicate_ids, bad, bad_count, .. } = streamed;
    Ok(ReadTrace { jobs, procs, duplicate_ids, bad, bad_count })
}

/// Calls `each` with every job of a trace, in the order of the file; `-` is stdin.
pub fn stream(
    path: &Path,
    format: Option<TraceFormat>,
    strict: bool,
    each: &mut dyn FnMut(TraceJob),
) -> Result<Streamed> {
    Opened::at(path, format)?.stream(strict, each)
}

/// Open trace whose format is known.
pub struct Opened {
    lines: TraceLines,
    format: TraceFormat,
}

impl Opened {
    /// Opens a file, decompressing it if needed; `-` is stdin. Detects the format if none is given.
    pub fn at(path: &Path, format: Option<TraceFormat>) -> Result<Self> {
        let mut lines = TraceLines::open(path)?;
        let format = match format {
            Some(format) => format,
            None => lines.format()?,
        };
        Ok(Self { lines, format })
    }

    /// Returns the format of the trace.
    pub fn format(&self) -> TraceFormat {
        self.format
    }

    /// Calls `each` with every job, in the order of the file.
    pub fn stream(self, strict: bool, each: &mut dyn FnMut(TraceJob)) -> Result<Streamed> {
        let Self { mut lines, format } = self;
        // 1. Parse the rows.
        let mut reader = TraceReader::new(format);
        let mut bad = Vec::new();
        let mut bad_count = 0u64;
        let mut good_count = 0u64;
        let mut found = |row: Result<TraceJob, RowError>| match row {
            Ok(job) => {
                good_count += 1;
                each(job);
            }
            Err(error) => {
                bad_count += 1;
                if bad.len() < BAD_SHOWN {
                    bad.push(error);
                }
            }
        };
        while let Some(line) = lines.next()? {
            reader.read(line, &mut found).map_err(|refusal| trace_refused(&lines.name, refusal))?;
        }
        reader.finish(&mut found).map_err(|refusal| trace_refused(&lines.name, refusal))?;

        // 2. Report invalid rows.
        let name = lines.name;
        match bad.first() {
            Some(first) if good_count == 0 => Err(Failure::usage(format!(
                "{name}: no row can be parsed as {}; the first error is on {first}",
                format.name()
            ))
            .hint(format!("`--format` takes {}", formats()))
            .into()),
            Some(first) if strict => Err(Failure::usage(format!(
                "{name}: {bad_count} of {} rows cannot be parsed; the first error is on {first}",
                bad_count + good_count
            ))
            .hint("without `--strict` they are skipped with a warning")
            .into()),
            None if good_count == 0 => Err(no_jobs(&name).into()),
            _ => Ok(Streamed {
                name,
                format,
                procs: reader.procs(),
                zero: reader.zero(),
                duplicate_ids: reader.duplicate_ids(),
                bad,
                bad_count,
            }),
        }
    }
}

/// Warns of jobs with the id of an earlier one.
pub fn warn_of_duplicate_ids(app: &App, duplicates: DuplicateIds) {
    let DuplicateIds { jobs, first_line } = duplicates;
    if jobs > 0 {
        let have = if jobs == 1 { "job has" } else { "jobs have" };
        app.ui.warning(&format!(
            "{jobs} {have} the id of an earlier one, the first on line {first_line}; all are kept, so remove rows that are there twice"
        ));
    }
}

/// Calls `each` with every line of a text file, plain or compressed with gzip; `-` is stdin.
pub fn lines(
    path: &Path,
    each: &mut dyn FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut lines = TraceLines::open(path)?;
    while let Some(line) = lines.next()? {
        each(line)?;
    }
    Ok(())
}

/// Returns the names of all formats, separated by commas.
pub fn formats() -> String {
    TraceFormat::ALL.map(|(name, _)| name).join(", ")
}

fn trace_refused(name: &str, refusal: muster_spec::TraceRefusal) -> Failure {
    Failure::usage(format!("{name}: {refusal}")).hint(refusal.hint)
}

fn no_jobs(name: &str) -> Failure {
    Failure::usage(format!("{name} has no jobs"))
        .hint("a trace has one job per line; docs/traces.md describes the formats")
}

/// Lines of a file; those that were read to detect the format are returned again.
struct TraceLines {
    name: String,
    source: Box<dyn BufRead>,
    head: VecDeque<String>,
    /// Last line that was read; its buffer is reused for the next.
    line: String,
}

impl TraceLines {
    fn open(path: &Path) -> Result<Self, Failure> {
        let is_stdin = path.as_os_str() == "-";
        let name = if is_stdin { "stdin".to_owned() } else { path.display().to_string() };
        let failed = |error: io::Error| source::unreadable(Path::new(&name), &error);
        let mut file: Box<dyn Read> = if is_stdin {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(path).map_err(failed)?)
        };
        let mut magic = Vec::new();
        file.by_ref().take(6).read_to_end(&mut magic).map_err(failed)?;
        if let Some((_, tool)) = PACKED.iter().find(|(start, _)| magic.starts_with(start)) {
            return Err(Failure::usage(format!("{name} is compressed, but not with gzip"))
                .hint(format!("decompress it: {tool} {name} | muster … -")));
        }
        let is_gzip = magic.starts_with(b"\x1f\x8b");
        let whole = BufReader::new(Cursor::new(magic).chain(file));
        let source: Box<dyn BufRead> = if is_gzip {
            Box::new(BufReader::new(MultiGzDecoder::new(whole)))
        } else {
            Box::new(whole)
        };
        Ok(Self { name, source, head: VecDeque::new(), line: String::new() })
    }

    /// Detects the format from the first lines.
    fn format(&mut self) -> Result<TraceFormat, Failure> {
        let mut bytes = 0;
        while self.head.len() < HEAD_LINES && bytes < HEAD_BYTES {
            if !self.read_line()? {
                break;
            }
            bytes += self.line.len();
            self.head.push_back(mem::take(&mut self.line));
        }
        let head: Vec<&str> = self.head.iter().map(String::as_str).collect();
        if head.iter().all(|line| line.trim().is_empty()) {
            return Err(no_jobs(&self.name));
        }
        TraceFormat::detect(&head).ok_or_else(|| self.unknown_format(&head))
    }

    /// Returns the error of a file whose format is not recognised.
    fn unknown_format(&self, head: &[&str]) -> Failure {
        let first =
            head.iter().map(|line| line.trim()).find(|line| !line.is_empty()).unwrap_or_default();
        let name = &self.name;
        if first.starts_with("version https://git-lfs.github.com/") {
            return Failure::usage(format!("{name} is a Git LFS pointer, not the data itself"))
                .hint("`git lfs pull` in its repository fetches the data");
        }
        if first.starts_with('<') {
            return Failure::usage(format!("{name} is HTML or XML, not a trace"))
                .hint("a download that needs a login often saves the login page");
        }
        Failure::usage(format!("the format of {name} is not recognised"))
            .hint(format!("`--format` sets it: {}; docs/traces.md describes each", formats()))
    }

    fn next(&mut self) -> Result<Option<&str>, Failure> {
        let is_there = match self.head.pop_front() {
            Some(line) => {
                self.line = line;
                true
            }
            None => self.read_line()?,
        };
        Ok(is_there.then_some(&self.line))
    }

    /// Reads the next line of the file, without its newline; returns false at the end of the file.
    /// Bytes that are not UTF-8, as in old headers, are replaced.
    fn read_line(&mut self) -> Result<bool, Failure> {
        let mut bytes = mem::take(&mut self.line).into_bytes();
        bytes.clear();
        let mut limited = (&mut self.source).take(MAX_LINE_BYTES + 1);
        limited.read_until(b'\n', &mut bytes).map_err(|error| read_failed(&self.name, &error))?;
        if bytes.is_empty() {
            return Ok(false);
        }
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        } else if bytes.len() as u64 > MAX_LINE_BYTES {
            let limit_mib = MAX_LINE_BYTES >> 20;
            return Err(Failure::usage(format!(
                "{} has a line of more than {limit_mib} MiB",
                self.name
            ))
            .hint("to split a JSON list into lines: jq . FILE | muster … -"));
        }
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        self.line = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        if let Some(rest) = source::without_byte_order_mark(&self.line) {
            self.line.drain(..self.line.len() - rest.len());
        }
        Ok(true)
    }
}

/// Returns the error of a read that failed in the middle of a file.
fn read_failed(name: &str, error: &io::Error) -> Failure {
    let message = match error.kind() {
        ErrorKind::UnexpectedEof => format!("{name} ends in the middle of its gzip data"),
        ErrorKind::InvalidInput | ErrorKind::InvalidData => {
            format!("{name} is corrupt: {}", source::error_text(error))
        }
        _ => return source::unreadable(Path::new(name), error),
    };
    Failure { code: USAGE, ..Failure::new(message) }
        .hint(format!("`gzip -t {name}` checks whether it is complete"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const TWO: &str = "; MaxProcs: 8\r\n1 0 0 10 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\r\nnonsense\n\
                       2 5 0 20 4 -1 -1 4 60 -1 1 2 1 -1 1 -1 -1 -1";

    fn gzip(text: &str) -> Vec<u8> {
        gzip_of(text.as_bytes())
    }

    fn gzip_of(bytes: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn plain_and_packed_files_are_the_same_whatever_their_name() {
        let twice = [gzip(&TWO[..40]), gzip(&TWO[40..])].concat();
        for bytes in [TWO.as_bytes().to_vec(), gzip(TWO), twice] {
            let trace = read(file(&bytes).path(), None, false).unwrap();
            let ids: Vec<&str> = trace.jobs.iter().map(|job| &*job.id).collect();
            assert_eq!((ids, trace.procs, trace.bad_count), (vec!["1", "2"], Some(8), 1));
            assert_eq!(trace.bad[0].to_string(), "line 3: field 1 is `nonsense`, not a number");
        }
    }

    #[test]
    fn lines_keep_nothing_of_those_before_them() {
        let mut many: Vec<u8> =
            (0..HEAD_LINES).flat_map(|at| format!("line {at}\n").into_bytes()).collect();
        many.extend(b"a long line\r\n\nb\r\n\xef\xbb\xbfmarked\ncaf\xe9\n\r\n\xef\xbb\xbf\nlast\r");
        for bytes in [[b"\xef\xbb\xbf".as_slice(), &many].concat(), gzip_of(&many)] {
            let file = file(&bytes);
            let mut found = TraceLines::open(file.path()).unwrap();
            // The lines that are looked at for the format are handed out like the others.
            assert!(found.format().is_err());
            let mut all = Vec::new();
            while let Some(line) = found.next().unwrap() {
                all.push(line.to_owned());
            }
            assert_eq!((all.len(), all[0].as_str()), (HEAD_LINES + 8, "line 0"));
            assert_eq!(
                all[HEAD_LINES..],
                ["a long line", "", "b", "marked", "caf\u{fffd}", "", "", "last"]
            );
        }
    }

    #[test]
    fn a_file_that_is_no_trace_says_what_to_do() {
        let check = |bytes: &[u8], strict, expected: &str| {
            let error = read(file(bytes).path(), None, strict).unwrap_err();
            let failure = error.downcast::<Failure>().unwrap();
            assert!(failure.message.contains(expected), "{}", failure.message);
            assert_eq!((failure.code, failure.hints.len()), (USAGE, 1), "{expected}");
        };
        check(b"", false, "has no jobs");
        check(b"; only a header\n", false, "has no jobs");
        check(TWO.as_bytes(), true, "1 of 3 rows cannot be parsed; the first error is on line 3");
        check(b"; header\n1 2 3\n", false, "no row can be parsed as swf");
        check(b"\x28\xb5\x2f\xfd....", false, "not with gzip");
        check(&gzip(TWO)[..40], false, "ends in the middle");
        check(b"\x1f\x8bnot gzip at all", false, "is corrupt");
        check(b"version https://git-lfs.github.com/spec/v1\n", false, "Git LFS");
        check(b"<!DOCTYPE html>\n", false, "not a trace");
        check(b"a,b\n1,2\n", false, "is not recognised");
    }
}
