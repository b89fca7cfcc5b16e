//! Hash for fingerprints and file names: FNV-1a in its 64-bit form (Fowler, Noll and Vo). It is the
//! same on every machine and in every version, and not cryptographically secure.

/// Hash of no bytes.
pub const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// Returns the hash of these bytes.
#[must_use]
pub fn fnv1a(bytes: &[u8]) -> u64 {
    extend(EMPTY, bytes)
}

/// Returns the hash of bytes whose hash is `hash`, followed by more bytes.
#[must_use]
pub fn extend(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors of the authors (draft-eastlake-fnv, appendix C).
    #[test]
    fn hashes_are_those_of_the_authors() {
        assert_eq!(fnv1a(b""), EMPTY);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(extend(fnv1a(b"foo"), b"bar"), fnv1a(b"foobar"));
    }
}
