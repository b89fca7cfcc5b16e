//! One task's output, read forward as it grows, over all files that hold it. They are opened so
//! that a link or a pipe in its place is refused: in the shared daemon the reader is root, and the
//! task that writes is not.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use muster_api::query::LogQuery;
use muster_backends::segments;
use rustix::fs::OFlags;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// `tail` looks back this far at most; a line that is longer is cut.
const TAIL_BYTES: u64 = 64 << 20;

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// At the first byte.
    Start,
    /// At this byte.
    Byte(u64),
    /// This many lines before the end.
    Tail(u32),
}

impl Begin {
    pub(super) fn of(query: &LogQuery) -> Self {
        match (query.offset, query.tail) {
            (Some(offset), _) => Begin::Byte(offset),
            (None, Some(lines)) => Begin::Tail(lines),
            (None, None) => Begin::Start,
        }
    }
}

/// A task's output, of which nothing may be there yet.
#[derive(Debug)]
pub(super) struct LogFile {
    first: PathBuf,
    begin: Begin,
    open: Option<Open>,
}

/// The file that is being read.
#[derive(Debug)]
struct Open {
    file: File,
    /// Position of its first byte in the whole output.
    start: u64,
    /// Position of the next byte to read.
    at: u64,
    /// What was read last ended a line.
    at_line_start: bool,
}

impl LogFile {
    /// Reads the output that begins in the file at `first`.
    pub(super) fn new(first: PathBuf, begin: Begin) -> Self {
        Self { first, begin, open: None }
    }

    /// The next bytes; `None` when there are none by now.
    pub(super) async fn read(&mut self) -> io::Result<Option<Bytes>> {
        let (first, begin, open) = (self.first.clone(), self.begin, self.open.take());
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

/// Reads on where reading stopped: to the end of a file, then from the next, with a note of what is
/// missing in between.
fn read_next(
    first: &Path,
    begin: Begin,
    open: Option<Open>,
) -> io::Result<(Option<Open>, Option<Vec<u8>>)> {
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
        // Once the next file is there, nothing more is written to this one: now it can be read to
        // its end.
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
                "{newline}muster: {missing} bytes of output are missing here: over the limit of what is kept of a task\n"
            );
            chunk.extend_from_slice(note.as_bytes());
        }
        let at_line_start = missing > 0 || open.at_line_start;
        open = Open { file, start: next.start, at: next.start, at_line_start };
        chunk.extend(open.read()?);
        if !chunk.is_empty() {
            return Ok((Some(open), Some(chunk)));
        }
    }
}

impl Open {
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

/// Opens one file of the output; `None` when it is not there, or no longer.
fn open_file(path: &Path) -> io::Result<Option<File>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.metadata()?.is_file() {
        true => Ok(Some(file)),
        false => Err(io::Error::other("the log is not a regular file")),
    }
}

/// Opens the file in which reading begins, at that place.
fn open_at(first: &Path, begin: Begin) -> io::Result<Option<Open>> {
    let mut files = Vec::new();
    for segment in segments::list(first)? {
        if let Some(file) = open_file(&segment.path)? {
            let length = file.metadata()?.len();
            files.push((segment.start, length, file));
        }
    }
    let end = files.last().map_or(0, |(start, length, _)| start + length);
    let at = match begin {
        Begin::Start => 0,
        Begin::Byte(offset) => offset.min(end),
        Begin::Tail(lines) => tail(&mut files, end, lines)?,
    };
    // In a gap, the file before it is read to its end, and then what is missing is noted.
    let Some(place) = files.iter().rposition(|(start, ..)| *start <= at) else { return Ok(None) };
    let (start, length, mut file) = files.swap_remove(place);
    let at = at.min(start + length);
    file.seek(SeekFrom::Start(at - start))?;
    Ok(Some(Open { file, start, at, at_line_start: true }))
}

/// Where the last `lines` lines begin, found from the end.
fn tail(files: &mut [(u64, u64, File)], end: u64, lines: u32) -> io::Result<u64> {
    if lines == 0 {
        return Ok(end);
    }
    let mut buffer = vec![0; CHUNK_BYTES];
    let (mut left, mut budget, mut found) = (lines, TAIL_BYTES, end);
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
                // The newline at the very end closes the last line and opens none.
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

    #[tokio::test]
    async fn reading_begins_where_it_should() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
        for (begin, expected) in [
            (Begin::Start, "one\ntwo\nthree\n"),
            (Begin::Byte(4), "two\nthree\n"),
            (Begin::Byte(999), ""),
            (Begin::Tail(1), "three\n"),
            (Begin::Tail(2), "two\nthree\n"),
            (Begin::Tail(9), "one\ntwo\nthree\n"),
            (Begin::Tail(0), ""),
        ] {
            assert_eq!(all(&mut LogFile::new(path.clone(), begin)).await, expected, "{begin:?}");
        }
        std::fs::write(&path, "a\n".repeat(100_000)).unwrap();
        assert_eq!(all(&mut LogFile::new(path, Begin::Tail(70_000))).await.len(), 140_000);
    }

    #[tokio::test]
    async fn a_file_is_waited_for_and_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = LogFile::new(path.clone(), Begin::Start);
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
        let mut followed = LogFile::new(first.clone(), Begin::Start);
        assert_eq!(all(&mut followed).await, "a1\na2\nb1\nb2\n");
        // While nobody looked, more was written than is kept; what is open can still be read to its
        // end.
        let mut writer =
            OpenOptions::new().append(true).open(dir.path().join("output.6.log")).unwrap();
        io::Write::write_all(&mut writer, b"b3").unwrap();
        std::fs::remove_file(dir.path().join("output.6.log")).unwrap();
        write("output.99.log", "z1\n");
        write("output.102.log", "z2\n");
        let note = "muster: 85 bytes of output are missing here: over the limit of what is kept of a task\n";
        assert_eq!(all(&mut followed).await, format!("b3\n{note}z1\nz2\n"));
        assert_eq!(all(&mut followed).await, "");
        let note = note.replace("85", "93");
        for (begin, expected) in [
            (Begin::Start, format!("a1\na2\n{note}z1\nz2\n")),
            (Begin::Byte(3), format!("a2\n{note}z1\nz2\n")),
            (Begin::Byte(50), format!("{note}z1\nz2\n")),
            (Begin::Byte(102), "z2\n".to_owned()),
            (Begin::Tail(1), "z2\n".to_owned()),
            (Begin::Tail(2), format!("{note}z1\nz2\n")),
            (Begin::Tail(3), format!("a2\n{note}z1\nz2\n")),
            (Begin::Tail(0), String::new()),
        ] {
            assert_eq!(all(&mut LogFile::new(first.clone(), begin)).await, expected, "{begin:?}");
        }
    }

    #[tokio::test]
    async fn links_and_pipes_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (secret, link, pipe) =
            (dir.path().join("secret"), dir.path().join("link"), dir.path().join("pipe"));
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
                LogFile::new(path.clone(), Begin::Start).read().await.is_err(),
                "{}",
                path.display()
            );
        }
    }
}
