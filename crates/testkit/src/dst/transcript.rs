//! The transcript of a run: always its hash, and its lines on request. It must not print.

use muster_model::hash;

/// Hash of all lines, and the lines if they are kept.
#[derive(Clone, Debug)]
pub(crate) struct Transcript {
    hash: u64,
    kept: Option<Vec<String>>,
}

impl Transcript {
    pub(crate) fn new(keep: bool) -> Self {
        Self { hash: hash::EMPTY, kept: keep.then(Vec::new) }
    }

    pub(crate) fn line(&mut self, line: impl FnOnce() -> String) {
        let line = line();
        self.hash = hash::extend(hash::extend(self.hash, line.as_bytes()), b"\n");
        if let Some(kept) = &mut self.kept {
            kept.push(line);
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn lines(self) -> Vec<String> {
        self.kept.unwrap_or_default()
    }
}
