//! The whole terminal for one live view: its second screen and raw keys. At the end the terminal is as it was.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};

use anyhow::Result;

use crate::terminal::{self, KeyReceiver, RawMode};

/// Key of a live view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Arrow up, or `k`.
    Up,
    /// Arrow down, or `j`.
    Down,
    /// `q`, Ctrl-C or Ctrl-D.
    Quit,
    /// Another key with a letter.
    Letter(char),
}

/// The second screen of the terminal, left when dropped.
pub struct Screen {
    _raw: RawMode,
    typed: KeyReceiver,
    keys: VecDeque<Key>,
}

impl Screen {
    /// Returns whether there is a terminal to read from and to write to.
    pub fn is_possible() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Enters the screen, with the cursor hidden.
    pub fn enter() -> Result<Self> {
        let raw = RawMode::enter()?;
        write("\x1b[?1049h\x1b[?25l")?;
        Ok(Self { _raw: raw, typed: terminal::keys(), keys: VecDeque::new() })
    }

    /// Returns a text as what draws it in place of the last one, without line wrap. In raw mode, the end of a line
    /// does not return to its begin.
    pub fn frame(text: &str) -> String {
        format!(
            "\x1b[H\x1b[?7l{}\x1b[J\x1b[?7h",
            text.trim_end().replace('\n', "\x1b[K\r\n") + "\x1b[K"
        )
    }

    /// Waits for the next key; `None` once the terminal is gone.
    pub async fn key(&mut self) -> Option<Key> {
        loop {
            if let Some(key) = self.keys.pop_front() {
                return Some(key);
            }
            let typed = self.typed.recv().await?;
            self.keys.extend(keys(&typed));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If this fails, the terminal is gone and nothing can be restored.
        let _ = write("\x1b[?25h\x1b[?1049l");
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Returns the keys in what was read from the terminal. Other control sequences are left out.
fn keys(typed: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(typed);
    let mut keys = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(one) = chars.next() {
        match one {
            '\x1b' if chars.next_if(|next| ['[', 'O'].contains(next)).is_some() => {
                // The end of a control sequence (ECMA-48, 5.4).
                let end = chars.find(|one| ('@'..='~').contains(one));
                keys.extend(end.and_then(|end| match end {
                    'A' => Some(Key::Up),
                    'B' => Some(Key::Down),
                    _ => None,
                }));
            }
            'k' => keys.push(Key::Up),
            'j' => keys.push(Key::Down),
            'q' | '\x03' | '\x04' => keys.push(Key::Quit),
            one if one.is_alphanumeric() => keys.push(Key::Letter(one)),
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_bytes() {
        assert_eq!(
            keys(b"\x1b[A\x1bOB\x1b[5~jke\x1b[Dq"),
            [Key::Up, Key::Down, Key::Down, Key::Up, Key::Letter('e'), Key::Quit]
        );
        assert_eq!(keys(b"\x03"), [Key::Quit]);
        assert_eq!(Screen::frame("a\nb\n"), "\x1b[H\x1b[?7la\x1b[K\r\nb\x1b[K\x1b[J\x1b[?7h");
    }
}
