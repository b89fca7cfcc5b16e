//! Where output goes: data on stdout, status and hints on stderr. Colour only on a terminal that
//! wants it.

use std::borrow::Cow;
use std::env::VarError;
use std::io::{self, IsTerminal, Write};

use jiff::tz::TimeZone;
use muster_report::style::{ascii, clean, guarded};
use muster_report::{Ink, Style};
use serde::Serialize;

/// The terminal, or what stands in for it.
pub struct Ui {
    style: Style,
    error_colour: bool,
    stdout_is_terminal: bool,
    /// The locale has UTF-8.
    has_utf8: bool,
}

/// Where the system keeps the time zone, and all time zones.
const LOCAL_ZONE: &str = "/etc/localtime";
const ZONES: &str = "/usr/share/zoneinfo";

/// Returns the time zone of the user. `TimeZone::system` first reads every folder of the database,
/// more than half of all system calls by which a verb starts; one file is enough where it is known
/// which.
fn zone(named: Result<String, VarError>) -> TimeZone {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(['/', ':', '.'])
            && !name.contains("..")
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+'))
    };
    let (name, path) = match named {
        Ok(name) if is_name(&name) => (name.clone(), format!("{ZONES}/{name}")),
        Ok(_) | Err(VarError::NotUnicode(_)) => return TimeZone::system(),
        Err(VarError::NotPresent) => ("Local".to_owned(), LOCAL_ZONE.to_owned()),
    };
    let read = std::fs::read(path).ok().and_then(|bytes| TimeZone::tzif(&name, &bytes).ok());
    read.unwrap_or_else(TimeZone::system)
}

impl Ui {
    /// Looks at the streams and at `NO_COLOR` and `TERM`.
    pub fn detect() -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let may_colour = !set("NO_COLOR") && !dumb;
        let stdout_is_terminal = io::stdout().is_terminal();
        let style = Style {
            width: None,
            colour: may_colour && stdout_is_terminal,
            zone: zone(std::env::var("TZ")),
        };
        let error_colour = may_colour && io::stderr().is_terminal();
        Self {
            style,
            error_colour,
            stdout_is_terminal,
            has_utf8: has_utf8(|name| std::env::var(name).ok()),
        }
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
        let width =
            rustix::termios::tcgetwinsize(io::stderr()).ok().map(|size| usize::from(size.ws_col));
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

    /// Writes text for people; without UTF-8 in the locale, what it is drawn with becomes ASCII.
    pub fn data(&self, text: &str) -> io::Result<()> {
        self.bytes(self.shown(text).as_bytes())
    }

    /// Text as this terminal can show it, whatever users wrote into it.
    fn shown<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match (self.has_utf8, guarded(text)) {
            (true, text) => text,
            (false, text) => ascii(&text).into_owned().into(),
        }
    }

    /// Writes bytes, as they are: files, scripts, output of jobs.
    pub fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    /// Writes a value as JSON.
    pub fn json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(value)?;
        text.push('\n');
        Ok(self.bytes(text.as_bytes())?)
    }

    /// Says what happens. Nobody is listening when this fails, so that is ignored.
    pub fn status(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{}", self.shown(text));
    }

    /// Returns whether a question would be read and could be answered.
    pub fn can_ask(&self) -> bool {
        self.status_is_terminal() && io::stdin().is_terminal()
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

/// Whether a locale is one of UTF-8, as POSIX looks it up: the first variable that is set and not
/// empty counts, and without any the locale is C.
fn has_utf8(set: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| set(name))
        .find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Rows and columns of the terminal on stdout.
fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_row.into(), size.ws_col.into()))
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::{has_utf8, zone};

    #[test]
    fn a_time_zone_is_read_as_the_system_reads_it() {
        let instant = jiff::Timestamp::from_second(1_795_370_656).unwrap();
        let offset = |zone: &TimeZone| zone.to_offset(instant);
        for name in ["UTC", "Europe/Berlin", "America/St_Johns", "Etc/GMT+5"] {
            // A machine without the database knows the first alone.
            if let Ok(expected) = TimeZone::get(name) {
                assert_eq!(offset(&zone(Ok(name.to_owned()))), offset(&expected), "{name}");
            }
        }
        // What is no name is left to the library, and no path is read.
        for other in ["", ":UTC", "../../etc/passwd", "/etc/passwd", "CET-1CEST"] {
            assert_eq!(offset(&zone(Ok(other.to_owned()))), offset(&TimeZone::system()), "{other}");
        }
    }

    #[test]
    fn the_first_variable_that_is_set_says_the_locale() {
        for (set, expected) in [
            (&[("LANG", "de_DE.UTF-8")][..], true),
            (&[("LANG", "C.utf8")], true),
            (&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")], false),
            (&[("LANG", "C"), ("LC_CTYPE", "en_US.UTF-8"), ("LC_ALL", "")], true),
            (&[("LANG", "de_DE")], false),
            (&[], false),
        ] {
            let value = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(has_utf8(value), expected, "{set:?}");
        }
    }
}
