use super::{Codec, CodecError};

/// Numbers as Kafka's own serializers write them: big-endian, of fixed width.
#[derive(Clone, Copy, Debug)]
pub struct BigEndian;

macro_rules! big_endian {
    ($($number:ty),*) => {$(
        impl Codec<$number> for BigEndian {
            type Out<'b> = $number;
            const ID: u8 = 4;

            #[inline]
            fn decode(bytes: &[u8]) -> Result<$number, CodecError> {
                const WIDTH: usize = size_of::<$number>();
                let bytes: [u8; WIDTH] = bytes
                    .try_into()
                    .map_err(|_| CodecError::new(format_args!("expected {WIDTH} bytes, found {}", bytes.len())))?;
                Ok(<$number>::from_be_bytes(bytes))
            }

            #[inline]
            fn encode(value: &$number, out: &mut Vec<u8>) -> Result<(), CodecError> {
                out.extend_from_slice(&value.to_be_bytes());
                Ok(())
            }
        }
    )*};
}

big_endian!(i32, i64, f64);
