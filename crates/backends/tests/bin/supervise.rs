//! Supervisor and second stage as a program of their own, for the tests of this crate, which cannot
//! use the `muster` binary. It does what `muster __supervise` and `muster __exec` do and nothing
//! else.

fn main() -> std::process::ExitCode {
    muster_backends::local::supervise::main(std::env::args_os())
}
