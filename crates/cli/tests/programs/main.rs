//! Tests of Muster with other programs: completions in shells, pages in a browser, environment modules.
//! `cargo xtask programs` installs these programs from Debian packages and runs the tests; without
//! them each test is ignored with that reason.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail")]
#![allow(dead_code, reason = "the home and the terminal have more than these tests need")]

mod browser;
mod driver;
#[path = "../it/home.rs"]
mod home;
mod modulecmd;
#[path = "../it/page.rs"]
mod page;
#[path = "../it/pty.rs"]
mod pty;
mod shells;
mod ui;
