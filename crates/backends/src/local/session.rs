//! Terminal sessions: codec of the frames that follow [`Hello::Terminal`] on a supervisor's socket,
//! in both directions, for blocking and async code.
//!
//! A frame is a tag byte, a length (four bytes, big-endian) and that many bytes. A client sends
//! data (keys) and window sizes; a supervisor sends data (terminal output), and at the end an exit
//! or an error.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::socket;
use crate::wire::{self, Hello};

/// Longest payload of one frame; longer data is sent as several.
pub const MAX_FRAME_BYTES: usize = 64 * 1024;

const HEAD_BYTES: usize = 5;
const DATA: u8 = 0;
const WINDOW: u8 = 1;
const EXIT: u8 = 2;
const ERROR: u8 = 3;

/// One message of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Bytes to or from the terminal; at most [`MAX_FRAME_BYTES`].
    Data(Vec<u8>),
    /// Size of the client's window.
    Window {
        /// Height in character rows.
        rows: u16,
        /// Width in character columns.
        cols: u16,
    },
    /// The program on the terminal has exited. This is the last frame.
    Exit {
        /// Exit code; 128 + signal for a signal.
        code: i32,
    },
    /// The session cannot continue, for this reason. This is the last frame.
    Error(String),
}

/// Violation of the protocol by the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The tag is unknown: a newer peer, or not a session at all.
    #[error("unknown frame type {0}")]
    Tag(u8),
    /// The length exceeds [`MAX_FRAME_BYTES`].
    #[error("frame of {0} bytes is too long")]
    Length(usize),
    /// The payload does not fit the tag.
    #[error("malformed frame of type {0}")]
    Payload(u8),
}

/// Connects to a supervisor to relay a client's bytes unread: the supervisor accepts only a
/// terminal session on this connection, no commands.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let mut stream = socket::connect(path)?;
    stream.write_all(&wire::line(&Hello::TerminalRelay))?;
    Ok(stream)
}

/// Returns the opening line of a session.
#[must_use]
pub fn open(hello: &Hello) -> Vec<u8> {
    wire::line(hello)
}

impl Frame {
    /// Encodes the frame. Data longer than [`MAX_FRAME_BYTES`] becomes several frames.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Frame::Data(bytes) => {
                bytes.chunks(MAX_FRAME_BYTES).flat_map(|chunk| with_head(DATA, chunk)).collect()
            }
            Frame::Window { rows, cols } => {
                with_head(WINDOW, &[rows.to_be_bytes(), cols.to_be_bytes()].concat())
            }
            Frame::Exit { code } => with_head(EXIT, &code.to_be_bytes()),
            Frame::Error(reason) => {
                let end = reason.floor_char_boundary(MAX_FRAME_BYTES);
                with_head(ERROR, &reason.as_bytes()[..end])
            }
        }
    }

    fn decode(tag: u8, payload: &[u8]) -> Result<Self, FrameError> {
        let malformed = FrameError::Payload(tag);
        match (tag, payload) {
            (DATA, bytes) => Ok(Frame::Data(bytes.to_vec())),
            (WINDOW, &[r1, r0, c1, c0]) => Ok(Frame::Window {
                rows: u16::from_be_bytes([r1, r0]),
                cols: u16::from_be_bytes([c1, c0]),
            }),
            (EXIT, bytes) => {
                let code = i32::from_be_bytes(bytes.try_into().map_err(|_| malformed)?);
                Ok(Frame::Exit { code })
            }
            (ERROR, bytes) => Ok(Frame::Error(String::from_utf8_lossy(bytes).into_owned())),
            (WINDOW, _) => Err(malformed),
            _ => Err(FrameError::Tag(tag)),
        }
    }
}

fn with_head(tag: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("payloads are cut to MAX_FRAME_BYTES");
    let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len());
    bytes.push(tag);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Splits a byte stream into frames.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    /// Appends bytes that were read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete frame, if there is one.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((&[tag, l3, l2, l1, l0], rest)) = self.bytes.split_first_chunk::<HEAD_BYTES>()
        else {
            return Ok(None);
        };
        if tag > ERROR {
            return Err(FrameError::Tag(tag));
        }
        let length = u32::from_be_bytes([l3, l2, l1, l0]) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(FrameError::Length(length));
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let frame = Frame::decode(tag, payload);
        self.bytes.drain(..HEAD_BYTES + length);
        frame.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let frame = prop_oneof![
            prop::collection::vec(any::<u8>(), 1..300).prop_map(Frame::Data),
            (any::<u16>(), any::<u16>()).prop_map(|(rows, cols)| Frame::Window { rows, cols }),
            any::<i32>().prop_map(|code| Frame::Exit { code }),
            "[a-zä]{0,40}".prop_map(Frame::Error),
        ];
        prop::collection::vec(frame, 0..8)
    }

    proptest! {
        #[test]
        fn frames_round_trip_however_they_are_cut(frames in frames(), size in 1usize..64) {
            let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
            let mut decoder = Decoder::default();
            let mut seen = Vec::new();
            for chunk in bytes.chunks(size) {
                decoder.push(chunk);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    seen.push(frame);
                }
            }
            prop_assert_eq!(seen, frames);
        }

        #[test]
        fn arbitrary_bytes_never_panic_nor_loop(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            for _ in 0..=bytes.len() {
                match decoder.next_frame() {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return Ok(()),
                }
            }
            prop_assert!(false, "more frames than bytes");
        }
    }

    #[test]
    fn long_data_is_cut_and_broken_frames_are_named() {
        let long = Frame::Data(vec![7; MAX_FRAME_BYTES + 1]).encode();
        let mut decoder = Decoder::default();
        decoder.push(&long);
        assert!(
            matches!(decoder.next_frame(), Ok(Some(Frame::Data(d))) if d.len() == MAX_FRAME_BYTES)
        );
        assert_eq!(decoder.next_frame(), Ok(Some(Frame::Data(vec![7]))));
        for (bytes, error) in [
            (vec![9, 0, 0, 0, 0], FrameError::Tag(9)),
            (vec![0, 1, 0, 0, 0], FrameError::Length(1 << 24)),
            (vec![1, 0, 0, 0, 1, 5], FrameError::Payload(1)),
        ] {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            assert_eq!(decoder.next_frame(), Err(error));
        }
    }
}
