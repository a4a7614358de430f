use super::{Codec, CodecError, Key};

/// Tuples of two to six keys, each part behind its length: composite keys, like `(Tenant, User)`.
///
/// For each part: four bytes, big-endian, that say how many bytes the part has, or -1 for a null (`Option` in a tuple); then the
/// part, as its own type's [`Key::Codec`] writes it. Nothing stands around the parts. So two tuples have the same bytes only if
/// their parts have, whatever the parts contain; joined by a separator, `("a:b", "c")` and `("a", "b:c")` would be one key.
///
/// ```
/// use flow_core::{Codec, Tuple};
///
/// let mut key = Vec::new();
/// Tuple::encode(&("a:b".to_owned(), 7_u16), &mut key)?;
/// assert_eq!(key, b"\0\0\0\x03a:b\0\0\0\x02\0\x07");
/// # Ok::<(), flow_core::CodecError>(())
/// ```
///
/// The rule is our own: no serializer of Kafka's writes tuples.
#[derive(Clone, Copy, Debug)]
pub struct Tuple;

fn write_part<K: Key>(part: &K, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let start = out.len();
    out.extend_from_slice(&(-1_i32).to_be_bytes());
    if K::Codec::is_null(part) {
        return Ok(());
    }
    K::Codec::encode(part, out)?;
    let length = out.len() - start - 4;
    let length = i32::try_from(length)
        .map_err(|_| CodecError::new(format_args!("a part of {length} bytes is too long for a key")))?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Takes the first part off the bytes.
fn read_part<K: Key>(bytes: &mut &[u8]) -> Result<K, CodecError>
where
    K::Codec: for<'b> Codec<K, Out<'b> = K>,
{
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Err(CodecError::new(format_args!("expected the length of a part, found {} bytes", bytes.len())));
    };
    let length = i32::from_be_bytes(*length);
    if length == -1 {
        *bytes = rest;
        return K::Codec::decode_null().ok_or_else(|| CodecError::new("a part is null, and its type has no null"));
    }
    let part = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
    let Some((part, rest)) = part else {
        return Err(CodecError::new(format_args!("expected a part of {length} bytes, found {}", rest.len())));
    };
    *bytes = rest;
    K::Codec::decode(part)
}

macro_rules! tuple {
    ($($part:ident . $at:tt),*) => {
        impl<$($part: Key),*> Codec<($($part,)*)> for Tuple
        where
            $($part::Codec: for<'b> Codec<$part, Out<'b> = $part>,)*
        {
            type Out<'b> = ($($part,)*);
            const ID: u8 = 6;

            fn decode(mut bytes: &[u8]) -> Result<($($part,)*), CodecError> {
                let parts = ($(read_part::<$part>(&mut bytes)?,)*);
                match bytes.len() {
                    0 => Ok(parts),
                    more => Err(CodecError::new(format_args!("found {more} bytes behind the last part"))),
                }
            }

            fn encode(parts: &($($part,)*), out: &mut Vec<u8>) -> Result<(), CodecError> {
                $(write_part(&parts.$at, out)?;)*
                Ok(())
            }
        }

        impl<$($part: Key),*> Key for ($($part,)*)
        where
            $($part::Codec: for<'b> Codec<$part, Out<'b> = $part>,)*
        {
            type Codec = Tuple;
        }
    };
}

tuple!(A.0, B.1);
tuple!(A.0, B.1, C.2);
tuple!(A.0, B.1, C.2, D.3);
tuple!(A.0, B.1, C.2, D.3, E.4);
tuple!(A.0, B.1, C.2, D.3, E.4, F.5);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    type Pair = (String, String);

    fn bytes<K: Key>(key: &K) -> Vec<u8> {
        let mut out = Vec::new();
        K::Codec::encode(key, &mut out).unwrap();
        out
    }

    fn pair(bytes: &[u8]) -> Result<Pair, String> {
        <Tuple as Codec<Pair>>::decode(bytes).map_err(|error| error.to_string())
    }

    #[test]
    fn a_tuple_is_each_part_behind_its_length() {
        assert_eq!(bytes(&("a".to_owned(), "bc".to_owned())), b"\0\0\0\x01a\0\0\0\x02bc");
        assert_eq!(bytes(&(String::new(), true, -1_i16)), b"\0\0\0\0\0\0\0\x01\x01\0\0\0\x02\xff\xff");
        assert_eq!(bytes(&(Some(7_u8), None::<u8>)), b"\0\0\0\x01\x07\xff\xff\xff\xff");
        assert_eq!(bytes(&((1_u8, 2_u8), 3_u8)), b"\0\0\0\x0a\0\0\0\x01\x01\0\0\0\x01\x02\0\0\0\x01\x03");
        let six = (1_u8, 2_u16, 3_u32, 4_u64, 5_i32, "6".to_owned());
        assert_eq!(<Tuple as Codec<(u8, u16, u32, u64, i32, String)>>::decode(&bytes(&six)).unwrap(), six);
    }

    #[test]
    fn different_tuples_have_different_bytes_whatever_their_parts_contain() {
        let parts = ["", "a", "b", ":", "a:b", "\0", "a\0", "\0\0\0\x01a", "\u{ff}"];
        let mut seen = BTreeSet::new();
        for (left, right) in parts.iter().flat_map(|left| parts.iter().map(move |right| (left, right))) {
            let key = ((*left).to_owned(), (*right).to_owned());
            assert_eq!(pair(&bytes(&key)), Ok(key.clone()));
            assert!(seen.insert(bytes(&key)), "{key:?}");
        }
        assert_ne!(bytes(&(None::<String>, 1_u8)), bytes(&(Some(String::new()), 1_u8)));
    }

    #[test]
    fn bytes_that_are_no_tuple_are_refused() {
        let whole = bytes(&("a".to_owned(), "bc".to_owned()));
        for length in 0..whole.len() {
            assert!(pair(&whole[..length]).is_err(), "{length}");
        }
        assert_eq!(pair(&[&whole[..], b"xy"].concat()), Err("found 2 bytes behind the last part".to_owned()));
        assert_eq!(pair(b"\xff\xff\xff\xff\0\0\0\0"), Err("a part is null, and its type has no null".to_owned()));
        assert_eq!(pair(b"\xff\xff\xff\xfe\0\0\0\0"), Err("expected a part of -2 bytes, found 4".to_owned()));
        assert_eq!(pair(b"\x7f\xff\xff\xff"), Err("expected a part of 2147483647 bytes, found 0".to_owned()));
    }
}
