//! The user's own file of notices, for jobs that say nothing about them. It is read, never written.

use anyhow::Result;
use muster_api::types::NamedText;

use crate::config_files::places;
use crate::source;

/// Name of the file in a folder for configuration.
const NAME: &str = "notify.yaml";

/// Reads the file; `None` if there is none.
pub fn read() -> Result<Option<NamedText>> {
    let Some(path) = places(NAME).into_iter().find(|path| path.exists()) else { return Ok(None) };
    let text = source::read(&path)?;
    Ok(Some(NamedText { name: path.display().to_string(), text: text.source }))
}
