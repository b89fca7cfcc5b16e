//! System mode, for real: the built binary as root, with two users of the machine who are no
//! friends. Nobody reads, cancels, signals or impersonates another, and nothing that root does can
//! be bent by what a user names. Needs root, so each test is ignored with that reason; the test
//! command runs them where it is root.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail")]

mod accounting;
mod actor;
mod held;
mod hostile;
mod identity;
mod privacy;
mod raw;
mod restart;
mod shared;
mod site;
