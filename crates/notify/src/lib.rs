//! Sends one notice about a job: by mail, to a webhook, or to a command of the user. It runs in a process of its
//! own, as the user, so that an address that hangs blocks nothing; that process is ended from outside when it takes
//! too long.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod command;
mod mail;
mod message;
mod webhook;

use std::io;

use muster_model::NoticeOrder;
use muster_model::notice::NoticeAddress;
use thiserror::Error;

/// Failure to send a notice. Its text is shown to the user, in `muster show`.
#[derive(Debug, Error)]
pub enum SendError {
    /// No answer came from the address of a webhook.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// A webhook answered with an error.
    #[error("it answered {status}{}", with_words(.words))]
    Refused {
        /// Status code of HTTP.
        status: u16,
        /// First line of the answer; may be empty.
        words: String,
    },
    /// The machine has no program for mail.
    #[error(
        "this machine has no sendmail program; a mail server such as postfix or msmtp-mta brings one"
    )]
    NoMailer,
    /// A program could not be run.
    #[error("cannot run {program}: {source}")]
    NotRun {
        /// Name of the program.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A program ended with an error.
    #[error("{program} {ending}{}", with_words(.words))]
    Ended {
        /// Name of the program.
        program: String,
        /// Exit code or signal, in words.
        ending: String,
        /// Last line of its errors; may be empty.
        words: String,
    },
}

fn with_words(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

/// Sends a notice.
///
/// # Errors
/// When the address did not accept it.
pub fn send(order: &NoticeOrder) -> Result<(), SendError> {
    match &order.to {
        NoticeAddress::Mail(address) => mail::send(order, address),
        NoticeAddress::Webhook { url, format } => webhook::send(order, url, *format),
        NoticeAddress::Command(text) => command::run(order, text),
    }
}
