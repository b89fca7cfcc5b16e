//! Order to the process that sends a notice, which gets it as JSON on standard input.

use serde::{Deserialize, Serialize};

use crate::notice::{Notice, NoticeAddress};
use crate::payload::Identity;

/// Order to the process that sends a notice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeOrder {
    /// Event with its words.
    pub notice: Notice,
    /// Address to send it to.
    pub to: NoticeAddress,
    /// Name of the machine whose daemon sends it.
    pub host: String,
    /// User to send it as; `None` for the user of the process.
    pub sender: Option<Identity>,
}
