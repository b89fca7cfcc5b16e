//! Where output goes: data on stdout, status and hints on stderr. Colour only on a terminal that wants it.

use std::io::{self, IsTerminal, Write};

use jiff::tz::TimeZone;
use muster_report::style::clean;
use muster_report::{Ink, Style};
use serde::Serialize;

/// The terminal, or what stands in for it.
pub struct Ui {
    style: Style,
    error_colour: bool,
    stdout_is_terminal: bool,
}

impl Ui {
    /// Looks at the streams and at `NO_COLOR` and `TERM`.
    pub fn detect() -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let may_colour = !set("NO_COLOR") && !dumb;
        let stdout_is_terminal = io::stdout().is_terminal();
        let style = Style { width: None, colour: may_colour && stdout_is_terminal, zone: TimeZone::system() };
        Self { style, error_colour: may_colour && io::stderr().is_terminal(), stdout_is_terminal }
    }

    /// How to write to stdout now; the width is asked of the terminal each time.
    pub fn style(&self) -> Style {
        Style {
            width: size().map(|(_, columns)| columns).filter(|_| self.stdout_is_terminal),
            ..self.style.clone()
        }
    }

    /// How to write to stderr.
    pub fn status_style(&self) -> Style {
        let is_wide = self.status_is_terminal();
        let width = rustix::termios::tcgetwinsize(io::stderr()).ok().map(|size| usize::from(size.ws_col));
        Style {
            width: width.filter(|width| is_wide && *width > 0),
            colour: self.error_colour,
            ..self.style.clone()
        }
    }

    /// Rows of the terminal; `None` when stdout is none.
    pub fn height(&self) -> Option<usize> {
        size().map(|(rows, _)| rows).filter(|_| self.stdout_is_terminal)
    }

    /// Whether a person looks at stdout.
    pub fn is_terminal(&self) -> bool {
        self.stdout_is_terminal
    }

    /// Whether a person looks at stderr.
    pub fn status_is_terminal(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Writes data, as it is.
    pub fn data(&self, text: &str) -> io::Result<()> {
        self.bytes(text.as_bytes())
    }

    /// Writes bytes, as they are.
    pub fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    /// Writes a value as JSON.
    pub fn json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(value)?;
        text.push('\n');
        Ok(self.data(&text)?)
    }

    /// Says what happens. Nobody is listening when this fails, so that is ignored.
    pub fn status(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Asks; the cursor stays behind the question.
    pub fn prompt(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }

    /// Offers the next step.
    pub fn hint(&self, text: &str) {
        self.status(&format!("{} {}", self.error_ink(Ink::Active, "hint:"), clean(text)));
    }

    /// Says what went wrong.
    pub fn error(&self, text: &str) {
        self.status(&format!("{} {}", self.error_ink(Ink::Bad, "error:"), clean(text)));
    }

    /// Says what the user should know.
    pub fn warning(&self, text: &str) {
        self.status(&format!("{} {}", self.error_ink(Ink::Waiting, "warning:"), clean(text)));
    }

    fn error_ink(&self, ink: Ink, text: &str) -> String {
        Style { colour: self.error_colour, ..self.style.clone() }.paint(ink, text)
    }
}

/// Rows and columns of the terminal on stdout.
fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_row.into(), size.ws_col.into()))
}
