//! Interned names of users and queues: a long trace has few of them, and should not allocate one
//! per row.

use std::sync::Arc;

/// Number of names that are kept; sites have some hundreds of users.
const SLOTS: usize = 256;

/// Recent names. A repeated name shares its memory, unless another name has replaced it.
#[derive(Clone, Debug)]
pub(super) struct NameCache {
    slots: Vec<Arc<str>>,
}

impl NameCache {
    pub(super) fn new() -> Self {
        Self { slots: vec![Arc::default(); SLOTS] }
    }

    pub(super) fn shared(&mut self, name: &str) -> Arc<str> {
        let hash =
            name.bytes().fold(0u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let slot = &mut self.slots[hash as usize % SLOTS];
        if **slot != *name {
            *slot = name.into();
        }
        Arc::clone(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_held_once_and_never_taken_for_another() {
        let mut names = NameCache::new();
        assert!(Arc::ptr_eq(&names.shared("ann"), &names.shared("ann")));
        // Far more than there are slots.
        for number in 0..10 * SLOTS {
            let name = format!("u{number}");
            assert_eq!(*names.shared(&name), *name);
        }
        assert_eq!(&*names.shared(""), "");
    }
}
