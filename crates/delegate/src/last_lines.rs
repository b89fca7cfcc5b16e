//! The last lines of a file of output, which may be larger than memory.

use std::io::{self, SeekFrom};

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Returns the byte at which the last lines of a file begin, reading it backwards from its end.
///
/// # Errors
/// When the file cannot be read.
pub async fn last_lines(file: &mut File, lines: u32) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0)).await?;
    if lines == 0 {
        return Ok(length);
    }
    let mut end = length;
    let mut left = lines;
    while end > 0 {
        let begin = end.saturating_sub(CHUNK_BYTES as u64);
        file.seek(SeekFrom::Start(begin)).await?;
        let mut chunk = vec![0; usize::try_from(end - begin).unwrap_or(CHUNK_BYTES)];
        file.read_exact(&mut chunk).await?;
        for (at, _) in chunk.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let after = begin + at as u64 + 1;
            // The newline at the end of the file does not begin a line.
            if after == length {
                continue;
            }
            left -= 1;
            if left == 0 {
                return Ok(after);
            }
        }
        end = begin;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_lines_are_found_across_chunks() {
        let long = "x".repeat(CHUNK_BYTES + 10);
        let many = format!("{long}\n{long}\nend\n");
        let after_first = many.find('\n').unwrap() + 1;
        for (text, lines, rest) in [
            ("a\nb\nc\n", 1, "c\n"),
            ("a\nb\nc", 2, "b\nc"),
            ("a\nb\n", 9, "a\nb\n"),
            ("a\n", 0, ""),
            ("", 3, ""),
            (many.as_str(), 1, "end\n"),
            (many.as_str(), 2, &many[after_first..]),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("out");
            std::fs::write(&path, text).unwrap();
            let mut file = File::open(&path).await.unwrap();
            let at = usize::try_from(last_lines(&mut file, lines).await.unwrap()).unwrap();
            assert_eq!(&text[at..], rest, "{lines}");
        }
    }
}
