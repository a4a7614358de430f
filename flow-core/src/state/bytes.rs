//! Bytes that mostly are few: keys, and states that nobody has read yet.

use std::ops::Deref;

/// How many bytes fit in place. Three words in all, one of them shared with the tag: what a `Box<[u8]>` and an enum's tag take anyway.
const IN_PLACE: usize = 22;

/// An owned `[u8]` that needs no allocation of its own up to 22 bytes.
///
/// Most keys (numbers, UUIDs, short names) and many states are that small; a million of them restored are a million allocations less
/// each, which is most of what an entry would take.
pub(super) enum SmallBytes {
    InPlace { len: u8, bytes: [u8; IN_PLACE] },
    Apart(Box<[u8]>),
}

impl From<&[u8]> for SmallBytes {
    #[inline]
    fn from(from: &[u8]) -> Self {
        if from.len() > IN_PLACE {
            return SmallBytes::Apart(from.into());
        }
        let mut bytes = [0; IN_PLACE];
        bytes[..from.len()].copy_from_slice(from);
        SmallBytes::InPlace { len: from.len() as u8, bytes }
    }
}

impl Default for SmallBytes {
    fn default() -> Self {
        SmallBytes::InPlace { len: 0, bytes: [0; IN_PLACE] }
    }
}

impl Deref for SmallBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            SmallBytes::InPlace { len, bytes } => &bytes[..usize::from(*len)],
            SmallBytes::Apart(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_come_back_as_they_were() {
        for len in 0..=3 * IN_PLACE {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8 ^ 0xa5).collect();
            let small = SmallBytes::from(&bytes[..]);
            assert_eq!(*small, bytes[..]);
            assert_eq!(matches!(small, SmallBytes::InPlace { .. }), len <= IN_PLACE);
        }
        assert!(SmallBytes::default().is_empty());
    }

    #[test]
    fn they_take_three_words() {
        assert_eq!(size_of::<SmallBytes>(), 24);
    }
}
