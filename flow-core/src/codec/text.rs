use super::{Codec, CodecError};

/// Text as UTF-8, as Kafka's `StringSerializer` writes it.
#[derive(Clone, Copy, Debug)]
pub struct Utf8;

impl Codec<str> for Utf8 {
    type Out<'b> = &'b str;
    const ID: u8 = 2;

    #[inline]
    fn decode(bytes: &[u8]) -> Result<&str, CodecError> {
        std::str::from_utf8(bytes).map_err(|error| CodecError::new(format_args!("not UTF-8: {error}")))
    }

    #[inline]
    fn encode(value: &str, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }
}

impl Codec<String> for Utf8 {
    type Out<'b> = String;
    const ID: u8 = 2;

    #[inline]
    fn decode(bytes: &[u8]) -> Result<String, CodecError> {
        <Utf8 as Codec<str>>::decode(bytes).map(str::to_owned)
    }

    #[inline]
    fn encode(value: &String, out: &mut Vec<u8>) -> Result<(), CodecError> {
        <Utf8 as Codec<str>>::encode(value, out)
    }
}

/// Bytes as they are.
#[derive(Clone, Copy, Debug)]
pub struct Bytes;

impl Codec<[u8]> for Bytes {
    type Out<'b> = &'b [u8];
    const ID: u8 = 3;

    #[inline]
    fn decode(bytes: &[u8]) -> Result<&[u8], CodecError> {
        Ok(bytes)
    }

    #[inline]
    fn encode(value: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(value);
        Ok(())
    }
}

impl Codec<Vec<u8>> for Bytes {
    type Out<'b> = Vec<u8>;
    const ID: u8 = 3;

    #[inline]
    fn decode(bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
        Ok(bytes.to_vec())
    }

    #[inline]
    fn encode(value: &Vec<u8>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.extend_from_slice(value);
        Ok(())
    }
}
