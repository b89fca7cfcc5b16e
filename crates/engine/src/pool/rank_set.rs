//! A set of small integers (name ranks of nodes) as a bitmap with a summary word per 64 words:
//! insertion, removal and "next member" cost a few instructions at any planned cluster size.

/// Set of ranks, as a bitmap.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankSet {
    words: Vec<u64>,
    /// Bit `w` of word `w / 64` is set when `words[w]` is not zero.
    summary: Vec<u64>,
    len: u32,
}

impl RankSet {
    /// Returns the number of members.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Adds a rank that is not a member yet.
    pub(crate) fn insert(&mut self, rank: u32) {
        let word = rank as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
            self.summary.resize(word / 64 + 1, 0);
        }
        debug_assert!(self.words[word] >> (rank % 64) & 1 == 0, "rank {rank} is already a member");
        self.words[word] |= 1 << (rank % 64);
        self.summary[word / 64] |= 1 << (word % 64);
        self.len += 1;
    }

    /// Removes a rank that is a member.
    pub(crate) fn remove(&mut self, rank: u32) {
        let word = rank as usize / 64;
        debug_assert!(self.words[word] >> (rank % 64) & 1 == 1, "rank {rank} is not a member");
        self.words[word] &= !(1 << (rank % 64));
        if self.words[word] == 0 {
            self.summary[word / 64] &= !(1 << (word % 64));
        }
        self.len -= 1;
    }

    /// Returns the smallest member that is at least `rank`.
    pub(crate) fn next_from(&self, rank: u32) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let word = rank as usize / 64;
        let here = self.words.get(word)? & (u64::MAX << (rank % 64));
        if here != 0 {
            return Some(word as u32 * 64 + here.trailing_zeros());
        }
        let word = self.next_word(word + 1)?;
        Some(word as u32 * 64 + self.words[word].trailing_zeros())
    }

    /// Returns the first non-empty word that is at least `word`.
    fn next_word(&self, word: usize) -> Option<usize> {
        let first = word / 64;
        for (offset, bits) in self.summary.get(first..)?.iter().enumerate() {
            let bits = if offset == 0 { bits & (u64::MAX << (word % 64)) } else { *bits };
            if bits != 0 {
                return Some((first + offset) * 64 + bits.trailing_zeros() as usize);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn agrees_with_an_ordered_set() {
        let mut set = RankSet::default();
        let mut plain = BTreeSet::new();
        let mut seed = 7u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let rank = (seed >> 33) as u32 % 9_000;
            if plain.remove(&rank) {
                set.remove(rank);
            } else {
                plain.insert(rank);
                set.insert(rank);
            }
            let from = (seed >> 20) as u32 % 10_000;
            assert_eq!(set.next_from(from), plain.range(from..).next().copied());
            assert_eq!(set.len() as usize, plain.len());
        }
    }
}
