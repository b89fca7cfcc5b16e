//! The field `notify` of a job: addresses with the events that are sent to them.

use std::borrow::Cow;
use std::sync::Arc;

use muster_model::notice::{NoticeAddress, NoticeEvent, NoticeRule, WebhookFormat};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value as Json};

use crate::diagnostic::{Diagnostics, Problem, Problems, show};
use crate::field::{Field, OneOrMany, Text, document, inline_schema, parsed, scalar};
use crate::job::fields::Length;
use crate::quantity::Malformed;
use crate::source::{Place, Sources};
use crate::suggest::nearest;
use crate::yaml::{self, Node, Value};

/// Most addresses of one job.
const MAX_ADDRESSES: usize = 20;
/// Longest address or command in bytes.
const MAX_BYTES: usize = 4096;

document! {
    /// Events of a job that are sent to one address: `mail`, `webhook` or `command`.
    NotifyDocument ("notify") requires [] foreign &[("email", "mail"), ("to", "mail"), ("url", "webhook"), ("slack", "webhook"), ("run", "command"), ("events", "on"), ("when", "on"), ("type", "on")] => {
        /// Mail address; the mail is handed to the sendmail program of the machine.
        "mail" mail: Text,
        /// URL that gets a POST request, such as an incoming webhook of Slack.
        "webhook" webhook: Text,
        /// Shell text that runs as the user, with the notice as JSON on standard input and
        /// `MUSTER_NOTICE_EVENT`, `_JOB`, `_NAME` and `_TEXT` in its environment.
        "command" command: Text,
        /// Body of the webhook: `json`, `slack` (Mattermost, too) or `discord`. By default what the host
        /// of the URL takes, else `json`.
        "format" format: FormatWord,
        /// Events: `start`, `end` (failures included), `failure` (any other end than done), `preemption`, `idle` (its
        /// GPUs do nothing for half an hour, or as long as its queue says) and `limit` (the time limit is near). By default all but `start`.
        "on" on: OneOrMany<EventWord>,
        /// Time before the time limit at which `limit` is sent. 10m by default.
        "before-limit" before_limit: Length,
    }
}

/// Name of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventWord(NoticeEvent);

inline_schema!(EventWord, { "enum": ["start", "end", "failure", "preemption", "idle", "limit"] });

impl Field for EventWord {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        parsed(node, name, "an event", problems, |text| {
            let found = NoticeEvent::ALL.into_iter().find(|event| event.word() == text);
            found.map(Self).ok_or_else(|| {
                let words = NoticeEvent::ALL.map(NoticeEvent::word);
                let near = match text {
                    "fail" | "failed" | "error" => Some("failure"),
                    "done" | "finish" | "success" | "complete" => Some("end"),
                    "preempted" | "eviction" => Some("preemption"),
                    other => nearest(other, words),
                };
                Malformed {
                    label: format!("expected one of {}", words.join(", ")),
                    hint: near.map(|near| format!("did you mean `{near}`?")),
                }
            })
        })
    }
}

/// Name of a shape of a webhook's body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FormatWord(WebhookFormat);

inline_schema!(FormatWord, { "enum": ["json", "slack", "discord"] });

impl Field for FormatWord {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        parsed(node, name, "a format", problems, |text| match text {
            "json" => Ok(Self(WebhookFormat::Json)),
            "slack" | "mattermost" => Ok(Self(WebhookFormat::Slack)),
            "discord" => Ok(Self(WebhookFormat::Discord)),
            _ => Err(Malformed {
                label: "write `json`, `slack` or `discord`".to_owned(),
                hint: None,
            }),
        })
    }
}

/// One address: alone, or with its events; or the word `none`.
#[derive(Clone, Debug)]
pub(crate) enum Notify {
    /// `none`: no notices, whatever the user's own file says.
    None,
    /// Mail address or URL, with the default events.
    Address(NoticeAddress),
    /// Address with its events.
    Rule(Box<NotifyDocument>, Place),
}

impl JsonSchema for Notify {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "notify_item".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let detailed = generator.subschema_for::<NotifyDocument>();
        schemars::json_schema!({
            "anyOf": [
                { "type": "string", "examples": ["ada@example.org", "https://hooks.slack.com/services/…", "none"] },
                detailed,
            ]
        })
    }
}

impl Field for Notify {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        if matches!(node.value, Value::Map(_)) {
            let rule = NotifyDocument::read(node, name, problems)?;
            return Some(Self::Rule(Box::new(rule), node.place));
        }
        let expected = "a mail address, a URL, or a mapping such as `{command: …, on: end}`";
        let text = scalar(node, name, expected, problems)?;
        let refuse = |message: String, label: &str| Problem::new(message).at(node.place, label);
        let address = match text {
            "none" => return Some(Self::None),
            text if text.contains("://") => webhook(text, None),
            text => mail(text),
        };
        match address {
            Ok(address) => Some(Self::Address(address)),
            Err(label) => {
                let problem = refuse(format!("`{name}` is no address: {}", show(text)), label);
                problems.add(problem.hint("for a program write `notify: {command: …}`".to_owned()));
                None
            }
        }
    }
}

fn mail(text: &str) -> Result<NoticeAddress, &'static str> {
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && !",<>;\"".contains(c);
    match text.split_once('@') {
        // A leading dash would be an option of sendmail.
        Some((name, host)) if !name.is_empty() && !host.is_empty() => {
            if text.starts_with('-') || !text.chars().all(is_plain) || text.len() > 254 {
                return Err("expected one mail address, without a name or brackets");
            }
            Ok(NoticeAddress::Mail(text.to_owned()))
        }
        _ => Err("expected a mail address such as ada@example.org, or a URL"),
    }
}

fn webhook(text: &str, format: Option<WebhookFormat>) -> Result<NoticeAddress, &'static str> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let rest = rest.ok_or("expected a URL that begins with https:// or http://")?;
    if rest.is_empty() || rest.starts_with(['/', '?', '#']) {
        return Err("this URL has no host");
    }
    if text.len() > MAX_BYTES || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("expected a URL without blanks");
    }
    let guess = if rest.starts_with("hooks.slack.com/") {
        WebhookFormat::Slack
    } else if rest.starts_with("discord.com/") || rest.starts_with("discordapp.com/") {
        WebhookFormat::Discord
    } else {
        WebhookFormat::Json
    };
    Ok(NoticeAddress::Webhook { url: text.to_owned(), format: format.unwrap_or(guess) })
}

/// Returns the rules that a job carries.
pub(crate) fn rules(written: &OneOrMany<Notify>, problems: &mut Problems) -> Vec<NoticeRule> {
    if let Some(extra) = written.0.get(MAX_ADDRESSES) {
        let label = format!("{} addresses; at most {MAX_ADDRESSES}", written.0.len());
        problems.add(Problem::new("`notify` has too many addresses").at(extra.place, label));
        return Vec::new();
    }
    written.0.iter().filter_map(|item| rule(&item.value, problems)).collect()
}

fn rule(item: &Notify, problems: &mut Problems) -> Option<NoticeRule> {
    let (document, place) = match item {
        Notify::None => return None,
        Notify::Address(to) => {
            return Some(NoticeRule {
                on: NoticeRule::DEFAULT_EVENTS.to_vec(),
                to: to.clone(),
                before_limit: NoticeRule::BEFORE_LIMIT,
            });
        }
        Notify::Rule(document, place) => (document, *place),
    };
    let on = document.on.as_ref().map(|on| {
        let mut events: Vec<NoticeEvent> = on.value.0.iter().map(|item| item.value.0).collect();
        events.sort_unstable();
        events.dedup();
        events
    });
    Some(NoticeRule {
        on: on.unwrap_or_else(|| NoticeRule::DEFAULT_EVENTS.to_vec()),
        to: address(document, place, problems)?,
        before_limit: document
            .before_limit
            .as_ref()
            .map_or(NoticeRule::BEFORE_LIMIT, |before| before.value.0),
    })
}

/// Returns the one address of a rule.
fn address(
    document: &NotifyDocument,
    place: Place,
    problems: &mut Problems,
) -> Option<NoticeAddress> {
    let format = document.format.as_ref().map(|format| format.value.0);
    let written = [&document.mail, &document.webhook, &document.command];
    let given: Vec<_> = written.iter().filter_map(|field| field.as_ref()).collect();
    let [field] = given[..] else {
        let label = "expected one of `mail`, `webhook` and `command`";
        problems.add(Problem::new("`notify` has no single address").at(place, label));
        return None;
    };
    let text = field.value.0.as_str();
    let found = if document.mail.is_some() {
        mail(text)
    } else if document.webhook.is_some() {
        webhook(text, format)
    } else if text.trim().is_empty() || text.len() > MAX_BYTES {
        Err("expected a command of at most 4096 bytes")
    } else {
        Ok(NoticeAddress::Command(text.to_owned()))
    };
    found
        .map_err(|label| {
            problems.add(
                Problem::new(format!("`notify` has no valid address: {}", show(text)))
                    .at(field.place, label),
            );
        })
        .ok()
}

/// Reads a user's own file of notices: what stands under `notify` in a job. Returns it as the
/// fields that jobs without `notify` get.
///
/// # Errors
/// Everything that is wrong with the text.
pub(super) fn read_file(source: &str, file: &str) -> Result<Map<String, Json>, Diagnostics> {
    let sources = Arc::new(Sources::new(source, Some(file)));
    let mut problems = Problems::default();
    let nodes = yaml::read(source, &mut problems);
    let Some(node) = nodes.first() else {
        return problems.finish(Map::new(), &sources);
    };
    if let Some(written) = OneOrMany::<Notify>::read(node, "notify", &mut problems) {
        rules(&written, &mut problems);
    }
    let fields = Map::from_iter([("notify".to_owned(), json(node))]);
    problems.finish(fields, &sources)
}

/// Converts a tree to JSON; scalars stay text, which every field reads.
fn json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Scalar(text) => Json::String(text.clone()),
        Value::List(items) => Json::Array(items.iter().map(json).collect()),
        Value::Map(entries) => Json::Object(
            entries.iter().map(|entry| (entry.key.clone(), json(&entry.node))).collect(),
        ),
    }
}
