//! Indices of an array job. Users and tasks see the index of an element; its *ordinal* counts the
//! elements from 0 in the order of their indices.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Indices of an array job. The ranges are in order and do not overlap; most arrays have one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// First range of the array.
    #[serde(flatten)]
    pub head: IndexRange,
    /// Further ranges, when the array is a list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<IndexRange>,
    /// Most elements that hold resources at once; `None` means no limit.
    pub max_running: Option<u32>,
}

/// Indices at a constant distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexRange {
    /// First index of the range.
    pub first: u32,
    /// Upper bound of the indices, included; never below `first`.
    pub last: u32,
    /// Distance between indices, at least 1.
    pub step: u32,
}

impl IndexRange {
    /// Returns the number of indices.
    #[must_use]
    pub fn count(self) -> u32 {
        (self.last - self.first) / self.step + 1
    }

    /// Returns the indices in order.
    pub fn indices(self) -> impl Iterator<Item = u32> {
        (self.first..=self.last).step_by(self.step as usize)
    }

    fn nth(self, ordinal: u32) -> u32 {
        self.first + ordinal * self.step
    }

    fn ordinal_of(self, index: u32) -> Option<u32> {
        let offset = index.checked_sub(self.first).filter(|_| index <= self.last)?;
        offset.is_multiple_of(self.step).then_some(offset / self.step)
    }
}

impl Array {
    /// Makes an array of one range.
    #[must_use]
    pub fn range(first: u32, last: u32, step: u32, max_running: Option<u32>) -> Self {
        Self { head: IndexRange { first, last, step }, more: Vec::new(), max_running }
    }

    /// Makes an array of these indices, in any order, duplicates allowed; returns `None` without an
    /// index. Three or more at one distance, or two consecutive ones, become a range.
    #[must_use]
    pub fn list(mut indices: Vec<u32>, max_running: Option<u32>) -> Option<Self> {
        indices.sort_unstable();
        indices.dedup();
        let mut ranges = Vec::new();
        let mut rest = &indices[..];
        while let [first, behind @ ..] = rest {
            let step = behind.first().map_or(1, |next| next - first);
            let steps = rest.windows(2).take_while(|pair| pair[1] - pair[0] == step).count();
            let is_pair = steps == 1 && step > 1;
            let steps = if is_pair { 0 } else { steps };
            let step = if is_pair { 1 } else { step };
            ranges.push(IndexRange { first: *first, last: rest[steps], step });
            rest = &rest[steps + 1..];
        }
        let mut ranges = ranges.into_iter();
        Some(Self { head: ranges.next()?, more: ranges.collect(), max_running })
    }

    /// Returns the ranges in order.
    pub fn ranges(&self) -> impl Iterator<Item = IndexRange> {
        std::iter::once(self.head).chain(self.more.iter().copied())
    }

    /// Returns the indices in order.
    pub fn indices(&self) -> impl Iterator<Item = u32> {
        self.ranges().flat_map(IndexRange::indices)
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.ranges().map(IndexRange::count).sum()
    }

    /// Returns the index of an ordinal. Beyond the last element the last range is continued.
    #[must_use]
    pub fn index_of(&self, ordinal: u32) -> u32 {
        let mut before = 0;
        let mut range = self.head;
        for next in &self.more {
            if ordinal - before < range.count() {
                break;
            }
            before += range.count();
            range = *next;
        }
        range.nth(ordinal - before)
    }

    /// Returns the ordinal of an index; `None` when there is no such element.
    #[must_use]
    pub fn ordinal_of(&self, index: u32) -> Option<u32> {
        let mut before = 0;
        for range in self.ranges() {
            match range.ordinal_of(index) {
                Some(ordinal) => return Some(before + ordinal),
                None => before += range.count(),
            }
        }
        None
    }

    /// Returns the elements from this ordinal on, in order: ranges, each with its first ordinal.
    pub fn behind(&self, ordinal: u32) -> impl Iterator<Item = (u32, IndexRange)> {
        let mut before = 0;
        self.ranges().filter_map(move |range| {
            let begin = before;
            before += range.count();
            let skipped = ordinal.saturating_sub(begin);
            let is_left = skipped < range.count();
            is_left.then(|| (begin + skipped, IndexRange { first: range.nth(skipped), ..range }))
        })
    }
}

/// Prints the list as users and Slurm write it: `1,3,7-9`, `0-20:4%2`.
impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, range) in self.ranges().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            write!(f, "{comma}{}", range.first)?;
            // A list contains single numbers; a single number alone would be read as a count.
            if range.last > range.first || self.more.is_empty() {
                write!(f, "-{}", range.last)?;
            }
            if range.step > 1 {
                write!(f, ":{}", range.step)?;
            }
        }
        self.max_running.map_or(Ok(()), |cap| write!(f, "%{cap}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_and_indices_are_one_to_one_in_every_list_of_ten() {
        for mask in 1u32..1 << 10 {
            let expected: Vec<u32> = (0..10).filter(|bit| mask & 1 << bit != 0).collect();
            let array = Array::list(expected.clone(), None).expect("it has an index");
            assert_eq!(array.indices().collect::<Vec<_>>(), expected);
            assert_eq!(array.count() as usize, expected.len());
            for index in 0..12 {
                let place = expected.iter().position(|one| *one == index).map(|place| place as u32);
                assert_eq!(array.ordinal_of(index), place, "{array}");
            }
            for (ordinal, index) in (0..).zip(&expected) {
                assert_eq!(array.index_of(ordinal), *index, "{array}");
                let behind: Vec<u32> =
                    array.behind(ordinal).flat_map(|(_, range)| range.indices()).collect();
                assert_eq!(behind, expected[ordinal as usize..], "{array}");
                assert!(
                    array.behind(ordinal).all(|(at, range)| array.index_of(at) == range.first),
                    "{array}"
                );
            }
            let stored = serde_json::to_string(&array).expect("it has no map");
            assert_eq!(serde_json::from_str::<Array>(&stored).expect("it was just written"), array);
        }
    }

    #[test]
    fn a_list_is_written_as_people_would() {
        let text = |indices: &[u32], cap| {
            Array::list(indices.to_vec(), cap).map(|array| array.to_string())
        };
        assert_eq!(text(&[9, 1, 3, 7, 8, 8], Some(2)).as_deref(), Some("1,3,7-9%2"));
        assert_eq!(text(&[0, 4, 8, 9], None).as_deref(), Some("0-8:4,9"));
        assert_eq!(text(&[5], None).as_deref(), Some("5-5"));
        assert_eq!(Array::range(0, 199, 1, Some(32)).to_string(), "0-199%32");
        assert_eq!(Array::list(Vec::new(), None), None);
    }

    #[test]
    fn what_was_stored_before_there_were_lists_is_read() {
        let stored = r#"{"first":1,"last":9,"step":2,"max_running":null}"#;
        assert_eq!(
            serde_json::from_str::<Array>(stored).expect("it was once written"),
            Array::range(1, 9, 2, None)
        );
        assert_eq!(
            serde_json::to_string(&Array::range(1, 9, 2, None)).expect("it has no map"),
            stored
        );
    }
}
