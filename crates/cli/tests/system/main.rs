//! System mode: the built binary as root, with two mutually untrusted users. No user can read,
//! cancel, signal or impersonate another, and no input of a user influences what root does. Needs
//! root, so each test is ignored with that reason; the test command runs them as root.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail")]

mod accounting;
mod actor;
mod devices;
mod held;
mod hostile;
mod identity;
mod notices;
mod privacy;
mod raw;
mod restart;
mod service;
mod shared;
mod site;
