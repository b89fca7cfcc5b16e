//! Input of the process that sends a notice: its order, with what is closed to its user. On a shared machine that
//! process begins as root, and becomes the user before it does anything else.

use muster_model::NoticeOrder;
use serde::{Deserialize, Serialize};

use crate::device_files::ClosedDeviceFiles;
use crate::supervise::become_account;

/// Order to send a notice, as JSON on standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NoticeTask {
    /// Notice with its address.
    #[serde(flatten)]
    pub order: NoticeOrder,
    /// Device files of GPUs: a command of the user belongs to no task, so it was allocated none.
    #[serde(default)]
    pub closed_device_files: ClosedDeviceFiles,
}

impl NoticeTask {
    /// Makes this process one of the sender, in the sender's home, without any GPU. Does nothing if it
    /// is one already.
    ///
    /// # Errors
    /// One line for the user.
    pub fn become_sender(&self) -> Result<(), String> {
        let Some(sender) = &self.order.sender else { return Ok(()) };
        self.closed_device_files
            .close()
            .map_err(|error| format!("cannot close the GPUs of jobs: {error}"))?;
        become_account(sender)?;
        // A home that cannot be entered is no reason to send nothing.
        let _stays = std::env::var_os("HOME").map(std::env::set_current_dir);
        Ok(())
    }
}
