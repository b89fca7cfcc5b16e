//! Conditions of objects whose status Muster writes.

use jiff::Timestamp;
use serde_json::{Value, json};

/// Statement about an object, as its status has it.
pub(crate) struct Condition<'a> {
    /// Type of the condition, such as `Ready`.
    pub(crate) kind: &'a str,
    pub(crate) is_true: bool,
    /// Machine-readable reason, in CamelCase.
    pub(crate) reason: &'a str,
    /// Sentence for users, which names what is wrong.
    pub(crate) message: String,
}

impl Condition<'_> {
    /// Returns the conditions of a status that has only this one. `old` is the status that was written
    /// last: the time is that of the last change between true and false.
    pub(crate) fn alone(self, old: Option<&Value>) -> Value {
        let status = if self.is_true { "True" } else { "False" };
        let old = old.and_then(|old| old.pointer("/conditions/0"));
        let since = old.filter(|old| old["status"] == status).map(|old| &old["lastTransitionTime"]);
        let now = || json!(Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        json!([{
            "type": self.kind,
            "status": status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": since.cloned().unwrap_or_else(now),
        }])
    }
}
