//! Advice on a site, against the tables of the pages, against itself asked again, and on random
//! sites.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod asked;
mod fires;
mod flips;
mod mix;
mod pages;
mod random;
mod rows;
