//! Notices to users about their jobs: the rules that a job carries, and the notices made from them.
//!
//! An address may be a secret, as that of a Slack webhook is: it is in the payload and in orders to
//! the process that sends it, and never in a view or a log.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{JobId, QueueName, UserName};
use crate::unit::{Span, Time};

/// Event of a job that a notice is about.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum NoticeEvent {
    /// Processes of the job run for the first time.
    Start,
    /// The job ended, well or badly.
    End,
    /// The job ended, and not as done: failed, over its time limit, or cancelled.
    Failure,
    /// The job has to give up resources to another one.
    Preemption,
    /// All GPUs of the job have been idle for long.
    Idle,
    /// The time limit of the job is near.
    Limit,
}

impl NoticeEvent {
    /// All events, in the order of documents and messages.
    pub const ALL: [Self; 6] =
        [Self::Start, Self::End, Self::Failure, Self::Preemption, Self::Idle, Self::Limit];

    /// Returns the word in job files and messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
            Self::Failure => "failure",
            Self::Preemption => "preemption",
            Self::Idle => "idle",
            Self::Limit => "limit",
        }
    }
}

/// Events of a job that are sent to one address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeRule {
    /// Events that are sent. Sorted, each once.
    pub on: Vec<NoticeEvent>,
    /// Address that they are sent to.
    pub to: NoticeAddress,
    /// Time before the time limit at which [`NoticeEvent::Limit`] is sent.
    pub before_limit: Span,
}

impl NoticeRule {
    /// Events of a rule that names none: all that need a person, which is all but the start.
    /// [`NoticeEvent::End`] includes failures.
    pub const DEFAULT_EVENTS: [NoticeEvent; 4] =
        [NoticeEvent::End, NoticeEvent::Preemption, NoticeEvent::Idle, NoticeEvent::Limit];

    /// Time before the time limit of a rule that sets none.
    pub const BEFORE_LIMIT: Span = Span::from_secs(600);

    /// Returns true if this event is sent. An end that is sent includes a failure.
    #[must_use]
    pub fn sends(&self, event: NoticeEvent) -> bool {
        self.on.contains(&event)
    }
}

/// Place that notices are sent to, with what is needed to send them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeAddress {
    /// Mail address, for the sendmail program of the machine.
    Mail(String),
    /// URL that gets a POST request.
    Webhook {
        /// URL; may hold a secret.
        url: String,
        /// Shape of the body.
        format: WebhookFormat,
    },
    /// Text for `/bin/sh -c`, run as the user with the notice on standard input.
    Command(String),
}

impl NoticeAddress {
    /// Returns the address without its secrets: of a URL the host, of a command the first word.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Mail(address) => address.clone(),
            Self::Webhook { url, .. } => host_of(url).to_owned(),
            Self::Command(text) => {
                format!("`{}`", text.split_whitespace().next().unwrap_or_default())
            }
        }
    }
}

impl fmt::Debug for NoticeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NoticeAddress").field(&self.label()).finish()
    }
}

/// Returns the host of a URL, without user, port and path.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Shape of the body of a webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookFormat {
    /// The [`Notice`] as JSON.
    #[default]
    Json,
    /// `{"text": …}`, as Slack and Mattermost take it.
    Slack,
    /// `{"content": …}`, as Discord takes it.
    Discord,
}

/// Notice of one event of a job, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Event that it is about.
    pub event: NoticeEvent,
    /// Instant of the event.
    pub at: Time,
    /// Number of the job.
    pub job: JobId,
    /// Name of the job.
    pub name: String,
    /// User of the job.
    pub user: UserName,
    /// Queue of the job.
    pub queue: QueueName,
    /// Number of events that it stands for: those of one kind that came before it could be sent.
    pub count: u32,
    /// The event in words, one line without the job: `failed: rank 0 exited with 1`.
    pub text: String,
}

/// Notice of a job as `muster show` tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoticeView {
    /// Event that it is about.
    pub event: NoticeEvent,
    /// Instant of the event.
    pub at: Time,
    /// Address without its secrets: of a URL the host, of a command the first word.
    pub to: String,
    /// Number of events that it stands for.
    pub count: u32,
    /// Progress of sending it.
    pub state: NoticeState,
}

/// Progress of sending a notice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum NoticeState {
    /// Neither sent nor given up.
    Waiting {
        /// Number of failed tries.
        tries: u32,
        /// Instant of the next try.
        next: Time,
        /// Error of the last try; `None` before the first.
        error: Option<String>,
    },
    /// Accepted at its address.
    Sent {
        /// Instant at which it was sent.
        at: Time,
    },
    /// Not to be tried again.
    GivenUp {
        /// Number of failed tries.
        tries: u32,
        /// Error of the last try.
        error: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        let webhook = |url: &str| NoticeAddress::Webhook {
            url: url.to_owned(),
            format: WebhookFormat::default(),
        };
        for (address, expected) in [
            (webhook("https://hooks.slack.com/services/T0/B0/secret"), "hooks.slack.com"),
            (webhook("https://user:secret@example.org:8443?token=secret"), "example.org"),
            (webhook("http://[::1]:8080/x"), "::1"),
            (NoticeAddress::Mail("ada@example.org".to_owned()), "ada@example.org"),
            (NoticeAddress::Command("notify-send --secret x".to_owned()), "`notify-send`"),
        ] {
            assert_eq!(address.label(), expected);
            assert!(!format!("{address:?}").contains("secret"));
        }
    }
}
