//! Output: data on stdout, status and hints on stderr. Colour only on a terminal that supports it.

use std::borrow::Cow;
use std::env::VarError;
use std::io::{self, IsTerminal, Write};
use std::time::SystemTime;

use jiff::tz::TimeZone;
use muster_model::Time;
use muster_report::style::{ascii, clean, guarded};
use muster_report::{Ink, RenderContext, Words};
use serde::Serialize;

/// Standard streams, and how they show text.
#[derive(Clone)]
pub struct Ui {
    zone: &'static TimeZone,
    colour: bool,
    error_colour: bool,
    stdout_is_terminal: bool,
    /// True if the locale is UTF-8.
    has_utf8: bool,
    /// True if warnings were given before, and are not repeated.
    is_warned: bool,
}

/// Files of the system for the local time zone and for all time zones.
const LOCAL_ZONE: &str = "/etc/localtime";
const ZONES: &str = "/usr/share/zoneinfo";

/// Returns the time zone of the user. `TimeZone::system` reads every folder of the database, which
/// is more than half of the system calls at start-up; here one file is read if its name is known.
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
    /// Detects terminals on the streams, and reads `NO_COLOR`, `TERM` and the locale.
    pub fn detect() -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let may_colour = !set("NO_COLOR") && !dumb;
        let stdout_is_terminal = io::stdout().is_terminal();
        Self {
            // Leaked once per process, so that the context can be copied.
            zone: Box::leak(Box::new(zone(std::env::var("TZ")))),
            colour: may_colour && stdout_is_terminal,
            error_colour: may_colour && io::stderr().is_terminal(),
            stdout_is_terminal,
            has_utf8: has_utf8(|name| std::env::var(name).ok()),
            is_warned: false,
        }
    }

    /// Returns the same without further warnings, for work that is repeated.
    pub fn once_warned(&self) -> Self {
        Self { is_warned: true, ..self.clone() }
    }

    /// Returns the context of text on stdout: the present time of this machine, and the current
    /// width of the terminal.
    pub fn context(&self) -> RenderContext<'static> {
        RenderContext {
            now: now(),
            zone: self.zone,
            width: size().map(|(_, columns)| columns).filter(|_| self.stdout_is_terminal),
            colour: self.colour,
            words: Words::Jobs,
        }
    }

    /// Returns the context of text on stderr.
    pub fn status_context(&self) -> RenderContext<'static> {
        let is_wide = self.status_is_terminal();
        let width =
            rustix::termios::tcgetwinsize(io::stderr()).ok().map(|size| usize::from(size.ws_col));
        RenderContext {
            width: width.filter(|width| is_wide && *width > 0),
            colour: self.error_colour,
            ..self.context()
        }
    }

    /// Returns the rows of the terminal; `None` if stdout is not a terminal.
    pub fn height(&self) -> Option<usize> {
        size().map(|(rows, _)| rows).filter(|_| self.stdout_is_terminal)
    }

    /// Returns whether stdout is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.stdout_is_terminal
    }

    /// Returns whether stderr is a terminal.
    pub fn status_is_terminal(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Writes text for people to stdout; if the locale is not UTF-8, line-drawing characters become
    /// ASCII.
    pub fn data(&self, text: &str) -> io::Result<()> {
        self.bytes(self.shown(text).as_bytes())
    }

    /// Returns text without control characters, and in ASCII if the locale is not UTF-8.
    fn shown<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match (self.has_utf8, guarded(text)) {
            (true, text) => text,
            (false, text) => ascii(&text).into_owned().into(),
        }
    }

    /// Writes bytes to stdout unchanged: files, scripts, output of jobs.
    pub fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    /// Writes a value to stdout as JSON.
    pub fn json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(value)?;
        text.push('\n');
        Ok(self.bytes(text.as_bytes())?)
    }

    /// Writes a status line to stderr. Errors are ignored: there is nowhere to report them.
    pub fn status(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{}", self.shown(text));
    }

    /// Returns whether a prompt would be seen and can be answered.
    pub fn can_ask(&self) -> bool {
        self.status_is_terminal() && io::stdin().is_terminal()
    }

    /// Writes a prompt to stderr, without a newline.
    pub fn prompt(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }

    /// Writes a hint with the next step to stderr.
    pub fn hint(&self, text: &str) {
        self.status(&format!("{} {}", self.error_ink(Ink::Active, "hint:"), clean(text)));
    }

    /// Writes an error to stderr.
    pub fn error(&self, text: &str) {
        self.status(&format!("{} {}", self.error_ink(Ink::Bad, "error:"), clean(text)));
    }

    /// Writes a warning to stderr.
    pub fn warning(&self, text: &str) {
        if self.is_warned {
            return;
        }
        self.status(&format!("{} {}", self.error_ink(Ink::Waiting, "warning:"), clean(text)));
    }

    fn error_ink(&self, ink: Ink, text: &str) -> String {
        self.status_context().paint(ink, text)
    }
}

/// Returns whether the locale is UTF-8, by POSIX's lookup: the first variable that is set and not
/// empty counts; without any the locale is C.
fn has_utf8(set: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| set(name))
        .find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Returns the present time by the clock of this machine.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the rows and columns of the terminal on stdout.
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
            // A machine without the database has UTC only.
            if let Ok(expected) = TimeZone::get(name) {
                assert_eq!(offset(&zone(Ok(name.to_owned()))), offset(&expected), "{name}");
            }
        }
        // Values that are not plain names are left to the library; no such path is read here.
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
