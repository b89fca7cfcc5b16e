//! Backends: orders in, observations out. Each has a pure codec (render, parse) and thin I/O.
//!
//! A backend makes no scheduling choice and never sees the engine. What it must do is written once, in
//! [`driver`], and tested once, in [`conform`], against every backend.

pub mod driver;
