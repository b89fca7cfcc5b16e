//! Joins constant lists that are too long for one file, at compile time.

/// Returns the parts one after the other; `N` is the sum of their lengths.
pub(crate) const fn joined<T: Copy, const N: usize>(parts: &[&[T]]) -> [T; N] {
    let mut list = [parts[0][0]; N];
    let mut part = 0;
    let mut next = 0;
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            list[next] = parts[part][index];
            (next, index) = (next + 1, index + 1);
        }
        part += 1;
    }
    assert!(next == N, "N is the sum of the lengths");
    list
}
