//! One log file, read forward as it grows. Opened so that a link or a pipe in its place is refused: in the shared daemon
//! the reader is root, and the task that writes is not.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use bytes::Bytes;
use muster_api::query::LogQuery;
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

/// A file that may not exist yet.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    begin: Begin,
    open: Option<File>,
}

impl LogFile {
    pub(super) fn new(path: PathBuf, begin: Begin) -> Self {
        Self { path, begin, open: None }
    }

    /// The next bytes; `None` when there are none by now.
    pub(super) async fn read(&mut self) -> io::Result<Option<Bytes>> {
        let mut file = match self.open.take() {
            Some(file) => file,
            None => {
                let (path, begin) = (self.path.clone(), self.begin);
                match blocking(move || open_at(&path, begin)).await? {
                    Some(file) => file,
                    None => return Ok(None),
                }
            }
        };
        let (file, chunk) = blocking(move || {
            let mut chunk = vec![0; CHUNK_BYTES];
            let read = file.read(&mut chunk)?;
            chunk.truncate(read);
            Ok((file, chunk))
        })
        .await?;
        self.open = Some(file);
        Ok((!chunk.is_empty()).then(|| chunk.into()))
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

fn open_at(path: &std::path::Path, begin: Begin) -> io::Result<Option<File>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("the log is not a regular file"));
    }
    let at = match begin {
        Begin::Start => 0,
        Begin::Byte(offset) => offset.min(found.len()),
        Begin::Tail(lines) => tail(&mut file, found.len(), lines)?,
    };
    file.seek(SeekFrom::Start(at))?;
    Ok(Some(file))
}

/// Where the last `lines` lines begin, found from the end.
fn tail(file: &mut File, length: u64, lines: u32) -> io::Result<u64> {
    if lines == 0 {
        return Ok(length);
    }
    let floor = length.saturating_sub(TAIL_BYTES);
    let mut buffer = vec![0; CHUNK_BYTES];
    let (mut at, mut left) = (length, lines);
    while at > floor {
        let size = (at - floor).min(CHUNK_BYTES as u64);
        at -= size;
        let block = &mut buffer[..size as usize];
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(block)?;
        for (position, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let next = at + position as u64 + 1;
            // The newline at the very end closes the last line and opens none.
            if next == length {
                continue;
            }
            left = left.saturating_sub(1);
            if left == 0 {
                return Ok(next);
            }
        }
    }
    Ok(at)
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
            assert!(LogFile::new(path.clone(), Begin::Start).read().await.is_err(), "{}", path.display());
        }
    }
}
