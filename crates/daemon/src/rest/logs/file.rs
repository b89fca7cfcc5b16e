//! Reader of one task's output as it grows, over all files that hold it. Files are opened so that
//! links and pipes are rejected: in the shared daemon the reader is root, and the task that writes
//! is not.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use muster_api::query::LogQuery;
use muster_backends::{segments, times};
use muster_model::Time;
use rustix::fs::OFlags;

/// Number of bytes per read.
const CHUNK_BYTES: usize = 64 * 1024;

/// Most bytes that `tail` searches backwards; a longer line is cut.
const TAIL_BYTES: u64 = 64 << 20;

/// Position at which reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadStart {
    /// First byte of the output.
    Start,
    /// This byte of the output.
    Byte(u64),
    /// Output written since an instant, and at most this many lines before the end; `None` does not limit.
    Last {
        /// Instant of the first byte.
        since: Option<Time>,
        /// Most lines before the end.
        lines: Option<u32>,
    },
}

impl ReadStart {
    pub(super) fn of(query: &LogQuery) -> Self {
        match (query.offset, query.since, query.tail) {
            (Some(offset), ..) => ReadStart::Byte(offset),
            (None, None, None) => ReadStart::Start,
            (None, since, lines) => ReadStart::Last { since, lines },
        }
    }
}

/// Reader of a task's output, which may not exist yet.
#[derive(Debug)]
pub(super) struct LogFile {
    first: PathBuf,
    begin: ReadStart,
    open: Option<OpenLog>,
}

/// File that is being read.
#[derive(Debug)]
struct OpenLog {
    file: File,
    /// Position of the file's first byte in the whole output.
    start: u64,
    /// Position of the next byte to read.
    at: u64,
    /// True when the last byte read ended a line.
    at_line_start: bool,
}

impl LogFile {
    /// Makes a reader of the output that begins in the file at `first`.
    pub(super) fn new(first: PathBuf, begin: ReadStart) -> Self {
        Self { first, begin, open: None }
    }

    /// Returns the next bytes; `None` when there are none yet.
    pub(super) async fn read(&mut self) -> io::Result<Option<Bytes>> {
        let first = self.first.clone();
        let begin = self.begin;
        let open = self.open.take();
        let (open, chunk) = blocking(move || read_next(&first, begin, open)).await?;
        self.open = open;
        Ok(chunk.filter(|chunk| !chunk.is_empty()).map(Into::into))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Continues reading: to the end of a file, then from the next one, with a note about missing bytes
/// in between.
fn read_next(
    first: &Path,
    begin: ReadStart,
    open: Option<OpenLog>,
) -> io::Result<(Option<OpenLog>, Option<Vec<u8>>)> {
    let mut open = match open {
        Some(open) => open,
        None => match open_at(first, begin)? {
            Some(open) => open,
            None => return Ok((None, None)),
        },
    };
    let chunk = open.read()?;
    if !chunk.is_empty() {
        return Ok((Some(open), Some(chunk)));
    }
    loop {
        let Some(next) =
            segments::list(first)?.into_iter().find(|segment| segment.start > open.start)
        else {
            return Ok((Some(open), None));
        };
        // Once the next file exists, nothing more is written to this one: now it can be read to its
        // end.
        let chunk = open.read()?;
        if !chunk.is_empty() {
            return Ok((Some(open), Some(chunk)));
        }
        let Some(file) = open_file(&next.path)? else { continue };
        let missing = next.start.saturating_sub(open.at);
        let newline = if open.at_line_start { "" } else { "\n" };
        let mut chunk = Vec::new();
        if missing > 0 {
            let note = format!(
                "{newline}muster: {missing} bytes of output are missing here: over the limit per task\n"
            );
            chunk.extend_from_slice(note.as_bytes());
        }
        let at_line_start = missing > 0 || open.at_line_start;
        open = OpenLog { file, start: next.start, at: next.start, at_line_start };
        chunk.extend(open.read()?);
        if !chunk.is_empty() {
            return Ok((Some(open), Some(chunk)));
        }
    }
}

impl OpenLog {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = self.file.read(&mut chunk)?;
        chunk.truncate(read);
        self.at += read as u64;
        if let Some(last) = chunk.last() {
            self.at_line_start = *last == b'\n';
        }
        Ok(chunk)
    }
}

/// Opens one file of the output; returns `None` when it does not exist.
fn open_file(path: &Path) -> io::Result<Option<File>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if file.metadata()?.is_file() {
        Ok(Some(file))
    } else {
        Err(io::Error::other("the log is not a regular file"))
    }
}

/// Opens the file in which reading begins, at that position.
fn open_at(first: &Path, begin: ReadStart) -> io::Result<Option<OpenLog>> {
    let mut files = Vec::new();
    for segment in segments::list(first)? {
        if let Some(file) = open_file(&segment.path)? {
            let length = file.metadata()?.len();
            files.push((segment.start, length, file));
        }
    }
    let end = files.last().map_or(0, |(start, length, _)| start + length);
    let at = match begin {
        ReadStart::Start => 0,
        ReadStart::Byte(offset) => offset.min(end),
        ReadStart::Last { since, lines } => {
            let of_lines = lines.map_or(Ok(0), |lines| tail(&mut files, end, lines))?;
            let of_time =
                since.map_or(Ok(0), |since| written_since(first, &mut files, since, end))?;
            of_lines.max(of_time)
        }
    };
    // In a gap, the file before it is read to its end, followed by a note about the missing bytes.
    let Some(place) = files.iter().rposition(|(start, ..)| *start <= at) else { return Ok(None) };
    let (start, length, mut file) = files.swap_remove(place);
    let at = at.min(start + length);
    file.seek(SeekFrom::Start(at - start))?;
    Ok(Some(OpenLog { file, start, at, at_line_start: true }))
}

/// Returns the position of what was written since an instant, in whole lines; that of the first byte where times were not
/// recorded.
fn written_since(
    first: &Path,
    files: &mut [(u64, u64, File)],
    since: Time,
    end: u64,
) -> io::Result<u64> {
    let Some(file) = open_file(&times::path_of(first))? else { return Ok(0) };
    match times::position(file, since)? {
        Some(position) => line_start(files, position),
        None => Ok(end),
    }
}

/// Returns the position at which the line of this byte begins; that of the byte where the line is long or begins in an
/// earlier file.
fn line_start(files: &mut [(u64, u64, File)], at: u64) -> io::Result<u64> {
    let Some((start, length, file)) = files.iter_mut().rfind(|(start, ..)| *start < at) else {
        return Ok(at);
    };
    let inside = at - *start;
    if inside > *length {
        return Ok(at);
    }
    let from = inside.saturating_sub(CHUNK_BYTES as u64);
    let mut before = vec![0; (inside - from) as usize];
    file.seek(SeekFrom::Start(from))?;
    file.read_exact(&mut before)?;
    let newline = before.iter().rposition(|byte| *byte == b'\n');
    Ok(match newline {
        Some(newline) => *start + from + newline as u64 + 1,
        None if from == 0 => *start,
        None => at,
    })
}

/// Returns the position of the last `lines` lines, searching from the end.
fn tail(files: &mut [(u64, u64, File)], end: u64, lines: u32) -> io::Result<u64> {
    if lines == 0 {
        return Ok(end);
    }
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut left = lines;
    let mut budget = TAIL_BYTES;
    let mut found = end;
    for (start, length, file) in files.iter_mut().rev() {
        let mut at = *length;
        while at > 0 && budget > 0 {
            let size = at.min(CHUNK_BYTES as u64).min(budget);
            at -= size;
            budget -= size;
            found = *start + at;
            let block = &mut buffer[..size as usize];
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(block)?;
            for (position, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n')
            {
                let next = found + position as u64 + 1;
                // The newline at the very end starts no line.
                if next == end {
                    continue;
                }
                left -= 1;
                if left == 0 {
                    return Ok(next);
                }
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(file: &mut LogFile) -> String {
        let mut text = Vec::new();
        while let Some(chunk) = file.read().await.unwrap() {
            text.extend_from_slice(&chunk);
        }
        String::from_utf8(text).unwrap()
    }

    fn last(lines: u32) -> ReadStart {
        ReadStart::Last { since: None, lines: Some(lines) }
    }

    #[tokio::test]
    async fn reading_begins_where_it_should() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
        for (begin, expected) in [
            (ReadStart::Start, "one\ntwo\nthree\n"),
            (ReadStart::Byte(4), "two\nthree\n"),
            (ReadStart::Byte(999), ""),
            (last(1), "three\n"),
            (last(2), "two\nthree\n"),
            (last(9), "one\ntwo\nthree\n"),
            (last(0), ""),
        ] {
            assert_eq!(all(&mut LogFile::new(path.clone(), begin)).await, expected, "{begin:?}");
        }
        std::fs::write(&path, "a\n".repeat(100_000)).unwrap();
        assert_eq!(all(&mut LogFile::new(path, last(70_000))).await.len(), 140_000);
    }

    #[tokio::test]
    async fn reading_begins_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
        let since = |at, lines| ReadStart::Last { since: Some(Time(at)), lines };
        let all_of = |begin| {
            let path = path.clone();
            async move { all(&mut LogFile::new(path, begin)).await }
        };
        assert_eq!(all_of(since(9000, None)).await, "one\ntwo\nthree\n", "times are unknown");
        std::fs::write(times::path_of(&path), "1000 0\n5000 4\n9000 8\n").unwrap();
        assert_eq!(all_of(since(0, None)).await, "one\ntwo\nthree\n");
        assert_eq!(all_of(since(3000, None)).await, "two\nthree\n");
        assert_eq!(all_of(since(3000, Some(1))).await, "three\n");
        assert_eq!(all_of(since(9000, Some(2))).await, "three\n");
        assert_eq!(all_of(since(99_000, None)).await, "");
        std::fs::write(times::path_of(&path), "1000 0\n5000 6\n").unwrap();
        assert_eq!(all_of(since(3000, None)).await, "two\nthree\n", "a whole line");
    }

    #[tokio::test]
    async fn a_file_is_waited_for_and_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = LogFile::new(path.clone(), ReadStart::Start);
        assert_eq!(all(&mut file).await, "");
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(all(&mut file).await, "one\n");
        let mut writer = OpenOptions::new().append(true).open(&path).unwrap();
        io::Write::write_all(&mut writer, b"two\n").unwrap();
        assert_eq!(all(&mut file).await, "two\n");
    }

    #[tokio::test]
    async fn what_was_dropped_is_noted_and_nothing_comes_twice() {
        let dir = tempfile::tempdir().unwrap();
        let first = dir.path().join("output.log");
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("output.log", "a1\na2\n");
        write("output.6.log", "b1\nb2\n");
        let mut followed = LogFile::new(first.clone(), ReadStart::Start);
        assert_eq!(all(&mut followed).await, "a1\na2\nb1\nb2\n");
        // While the reader was idle, more was written than is kept; the open file can still be read
        // to its end.
        let mut writer =
            OpenOptions::new().append(true).open(dir.path().join("output.6.log")).unwrap();
        io::Write::write_all(&mut writer, b"b3").unwrap();
        std::fs::remove_file(dir.path().join("output.6.log")).unwrap();
        write("output.99.log", "z1\n");
        write("output.102.log", "z2\n");
        let note = "muster: 85 bytes of output are missing here: over the limit per task\n";
        assert_eq!(all(&mut followed).await, format!("b3\n{note}z1\nz2\n"));
        assert_eq!(all(&mut followed).await, "");
        let note = note.replace("85", "93");
        for (begin, expected) in [
            (ReadStart::Start, format!("a1\na2\n{note}z1\nz2\n")),
            (ReadStart::Byte(3), format!("a2\n{note}z1\nz2\n")),
            (ReadStart::Byte(50), format!("{note}z1\nz2\n")),
            (ReadStart::Byte(102), "z2\n".to_owned()),
            (last(1), "z2\n".to_owned()),
            (last(2), format!("{note}z1\nz2\n")),
            (last(3), format!("a2\n{note}z1\nz2\n")),
            (last(0), String::new()),
        ] {
            assert_eq!(all(&mut LogFile::new(first.clone(), begin)).await, expected, "{begin:?}");
        }
    }

    #[tokio::test]
    async fn links_and_pipes_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        let link = dir.path().join("link");
        let pipe = dir.path().join("pipe");
        std::fs::write(&secret, "secret").unwrap();
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for path in [link, pipe] {
            assert!(
                LogFile::new(path.clone(), ReadStart::Start).read().await.is_err(),
                "{}",
                path.display()
            );
        }
    }
}
