//! Names of signals, as Linux numbers them on x86-64 and arm64 (signal(7)).

/// Returns the name of a signal for people, such as `SIGUSR1`; `signal 40` for one without a name.
#[must_use]
pub fn signal_name(number: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let name = usize::try_from(number - 1).ok().and_then(|at| NAMES.get(at));
    name.map_or_else(|| format!("signal {number}"), |name| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_the_name_that_people_know() {
        let names = [1, 10, 15, 31].map(signal_name);
        assert_eq!(names, ["SIGHUP", "SIGUSR1", "SIGTERM", "SIGSYS"]);
        assert_eq!([0, -1, 32].map(signal_name), ["signal 0", "signal -1", "signal 32"]);
    }
}
