//! Signals by name or number, as Linux numbers them on x86-64 and arm64 (signal(7)).

use super::Malformed;
use crate::suggest::nearest;

const SIGNALS: [(&str, i32); 29] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("SYS", 31),
];

/// Parses a signal: `USR1`, `SIGUSR1` or `10`.
///
/// # Errors
/// Unknown names, and numbers outside 1..=31.
pub fn parse_signal(text: &str) -> Result<i32, Malformed> {
    let upper = text.trim().to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some((_, number)) = SIGNALS.iter().find(|(known, _)| *known == name) {
        return Ok(*number);
    }
    match name.parse::<i32>() {
        Ok(number @ 1..=31) => Ok(number),
        Ok(_) => Err(Malformed::new("signal numbers run from 1 to 31")),
        Err(_) => {
            let error = Malformed::new("expected a signal such as `USR1`, `SIGTERM` or `10`");
            match nearest(name, SIGNALS.iter().map(|(known, _)| *known)) {
                Some(near) => Err(error.hint(format!("did you mean `{near}`?"))),
                None => Err(error),
            }
        }
    }
}
