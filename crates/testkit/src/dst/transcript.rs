//! The transcript of a run: always its hash, and its lines on request. It must not print.

/// Hash of all lines, and the lines if they are kept.
#[derive(Clone, Debug)]
pub(crate) struct Transcript {
    hash: u64,
    kept: Option<Vec<String>>,
}

impl Transcript {
    pub(crate) fn new(keep: bool) -> Self {
        // FNV-1a, offset basis and prime of its 64-bit form (Fowler, Noll, Vo).
        Self { hash: 0xCBF2_9CE4_8422_2325, kept: keep.then(Vec::new) }
    }

    pub(crate) fn line(&mut self, line: impl FnOnce() -> String) {
        let line = line();
        for byte in line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
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
