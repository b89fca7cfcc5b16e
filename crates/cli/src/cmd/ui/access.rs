//! Access to the page: one-time links, and the keys of the browsers that used one. Other users of the
//! machine reach the port as well, so nothing is answered without a key.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use subtle::ConstantTimeEq;

/// Bytes of a secret.
const SECRET_BYTES: usize = 32;
/// Most browsers that have a key; with one more, the oldest key ends.
const MAX_KEYS: usize = 16;

/// Links and keys of one process.
#[derive(Debug, Default)]
pub(super) struct Access {
    secrets: Mutex<Secrets>,
}

#[derive(Debug, Default)]
struct Secrets {
    /// The newest link, until it is used.
    link: Option<String>,
    keys: VecDeque<String>,
}

impl Access {
    /// Makes the secret of a new link. The link before it ends.
    ///
    /// # Errors
    /// Returns an error when the system has no random numbers.
    pub(super) fn new_link(&self) -> Result<String> {
        let link = secret()?;
        self.secrets().link = Some(link.clone());
        Ok(link)
    }

    /// Uses up the link and returns a new key; `None` when the link is not valid.
    ///
    /// # Errors
    /// Returns an error when the system has no random numbers; the link stays valid.
    pub(super) fn open(&self, link: &str) -> Result<Option<String>> {
        let key = secret()?;
        let mut secrets = self.secrets();
        if !secrets.link.as_deref().is_some_and(|valid| is_same(valid, link)) {
            return Ok(None);
        }
        secrets.link = None;
        if secrets.keys.len() == MAX_KEYS {
            secrets.keys.pop_front();
        }
        secrets.keys.push_back(key.clone());
        Ok(Some(key))
    }

    /// Returns whether a key is valid.
    pub(super) fn admits(&self, key: &str) -> bool {
        self.secrets().keys.iter().any(|valid| is_same(valid, key))
    }

    fn secrets(&self) -> std::sync::MutexGuard<'_, Secrets> {
        // Secrets are replaced as a whole, so they are valid after a panic, too.
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compares in a time that does not depend on where the texts differ.
pub(super) fn is_same(valid: &str, given: &str) -> bool {
    valid.as_bytes().ct_eq(given.as_bytes()).into()
}

/// Returns a new secret of hexadecimal digits.
///
/// # Errors
/// The system has no random numbers.
pub(super) fn secret() -> Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).context("cannot get random numbers from the system")?;
    let mut text = String::with_capacity(2 * SECRET_BYTES);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_opens_the_page_once() {
        let access = Access::default();
        let link = access.new_link().unwrap();
        assert_eq!(link.len(), 64);
        assert_eq!(access.open(&link[1..]).unwrap(), None);
        let key = access.open(&link).unwrap().expect("a wrong try does not use it up");
        assert!(access.admits(&key));
        assert_eq!(access.open(&link).unwrap(), None);
        assert!(!access.admits(&link) && !access.admits("") && !access.admits(&key[1..]));
    }

    #[test]
    fn a_new_link_replaces_the_one_before() {
        let access = Access::default();
        let old = access.new_link().unwrap();
        let new = access.new_link().unwrap();
        assert_eq!(access.open(&old).unwrap(), None);
        assert!(access.open(&new).unwrap().is_some());
        assert_eq!(access.open("").unwrap(), None, "without a link nothing is valid");
    }

    #[test]
    fn the_oldest_key_ends_when_there_are_many() {
        let access = Access::default();
        let open = || access.open(&access.new_link().unwrap()).unwrap().unwrap();
        let first = open();
        let others: Vec<String> = (0..MAX_KEYS).map(|_| open()).collect();
        assert!(!access.admits(&first));
        assert!(others.iter().all(|key| access.admits(key)));
    }
}
