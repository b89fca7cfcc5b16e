//! Packages as a user gets them: each is installed in a clean root, runs the first command of the
//! README there, and is removed, which leaves nothing but state. `cargo xtask packages` makes the
//! packages and the root, and runs these tests; without them each is ignored with that reason.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail")]

mod clean_root;
mod contents;
mod deb;
mod files;
mod first_command;
mod image;
mod rpm;
mod tarball;
mod wheel;
