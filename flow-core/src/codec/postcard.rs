use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Codec, CodecError};

/// [Postcard](https://postcard.jamesmunns.com), by serde: binary, and a fraction of JSON's size and time. For values, and above all
/// for states; keys are better off with their default. (Feature `postcard`.)
///
/// Equal values have equal bytes, unless they hold something without an order, as a `HashMap` has none. The bytes do not describe
/// themselves: the names and the number of the fields are known to the type alone. So *every* change of a state's type is a new
/// version with an [upgrade](crate::Upgrades), also a field that is added; and a type that asks serde what comes next (untagged
/// enums, `#[serde(flatten)]`, `serde_json::Value`) cannot be read back.
#[derive(Clone, Copy, Debug)]
pub struct Postcard;

impl<T: Serialize + DeserializeOwned> Codec<T> for Postcard {
    type Out<'b> = T;
    const ID: u8 = 7;

    #[inline]
    fn decode(bytes: &[u8]) -> Result<T, CodecError> {
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(value),
            Ok((_, rest)) => {
                Err(CodecError::new(format_args!("not the expected Postcard: {} bytes are left over", rest.len())))
            }
            Err(error) => Err(CodecError::new(format_args!("not the expected Postcard: {error}"))),
        }
    }

    #[inline]
    fn encode(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
        postcard::serialize_with_flavor(value, Append(out))
            .map_err(|error| CodecError::new(format_args!("cannot be written as Postcard: {error}")))
    }
}

/// Writes behind what is there.
struct Append<'o>(&'o mut Vec<u8>);

impl Flavor for Append<'_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Session {
        clicks: u64,
        pages: Vec<String>,
        at: Option<i32>,
    }

    #[test]
    fn a_value_has_these_bytes_behind_what_is_there() {
        let session = Session { clicks: 300, pages: vec!["/".to_owned()], at: Some(-1) };
        let mut out = b"before".to_vec();
        Postcard::encode(&session, &mut out).unwrap();
        assert_eq!(out, b"before\xac\x02\x01\x01/\x01\x01");
        assert_eq!(<Postcard as Codec<Session>>::decode(&out[6..]).unwrap(), session);
    }

    #[test]
    fn bytes_of_another_type_are_refused_where_they_can_be_told_apart() {
        let decode = |bytes: &[u8]| <Postcard as Codec<Session>>::decode(bytes).unwrap_err().to_string();
        assert_eq!(decode(b"\x01\x00\x00\x07\x07"), "not the expected Postcard: 2 bytes are left over");
        assert!(decode(b"\x01").starts_with("not the expected Postcard: "));
    }

    #[test]
    fn a_type_that_asks_what_comes_next_is_refused() {
        let mut out = Vec::new();
        Postcard::encode(&serde_json::Value::from(1), &mut out).unwrap();
        assert!(<Postcard as Codec<serde_json::Value>>::decode(&out).is_err());
    }
}
