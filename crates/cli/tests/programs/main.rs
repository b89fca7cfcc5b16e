//! What programs of others make of what muster writes: shells of its completions, a browser of its
//! page. `cargo xtask programs` installs them from Debian's packages and runs these; without them
//! each test is ignored with that reason.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail")]
#![allow(dead_code, reason = "the home and the terminal have more than these tests need")]

mod browser;
#[path = "../it/home.rs"]
mod home;
#[path = "../it/pty.rs"]
mod pty;
mod shells;
