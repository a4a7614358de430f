use uuid::Uuid;

use super::{Codec, CodecError, Key, Utf8};

/// As Kafka's `UUIDSerializer`: the 36 characters, in small letters. (Feature `uuid`.)
impl Codec<Uuid> for Utf8 {
    type Out<'b> = Uuid;
    const ID: u8 = 2;

    fn decode(bytes: &[u8]) -> Result<Uuid, CodecError> {
        // The crate also reads forms without hyphens, in braces, and as URNs.
        let parsed = if bytes.len() == 36 { Uuid::try_parse_ascii(bytes).ok() } else { None };
        parsed.ok_or_else(|| {
            let found = String::from_utf8_lossy(&bytes[..bytes.len().min(50)]).into_owned();
            CodecError::new(format_args!("expected the 36 characters of a UUID, found `{}`", found.escape_debug()))
        })
    }

    fn encode(uuid: &Uuid, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let mut text = Uuid::encode_buffer();
        out.extend_from_slice(uuid.hyphenated().encode_lower(&mut text).as_bytes());
        Ok(())
    }
}

impl Key for Uuid {
    type Codec = Utf8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_the_bytes_that_kafkas_serializer_writes() {
        let uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let mut out = Vec::new();
        Utf8::encode(&uuid, &mut out).unwrap();
        assert_eq!(out, b"01234567-89ab-cdef-0123-456789abcdef");
        assert_eq!(<Utf8 as Codec<Uuid>>::decode(&out).unwrap(), uuid);
        assert_eq!(<Utf8 as Codec<Uuid>>::decode(b"01234567-89AB-CDEF-0123-456789ABCDEF").unwrap(), uuid);
    }

    #[test]
    fn other_forms_of_a_uuid_are_refused() {
        for other in [
            &b"0123456789abcdef0123456789abcdef"[..],
            b"{01234567-89ab-cdef-0123-456789abcdef}",
            b"01234567-89ab-cdef-0123-456789abcdeg",
            b"",
        ] {
            let error = <Utf8 as Codec<Uuid>>::decode(other).unwrap_err().to_string();
            assert!(error.starts_with("expected the 36 characters of a UUID"), "{error}");
        }
    }
}
