use super::{Codec, CodecError};

/// Numbers as Kafka's own serializers write them: big-endian, of fixed width.
///
/// | type | bytes | Kafka's serializer |
/// | --- | --- | --- |
/// | `i16`, `i32`, `i64` | 2, 4, 8 | `ShortSerializer`, `IntegerSerializer`, `LongSerializer` |
/// | `f32`, `f64` | 4, 8 | `FloatSerializer`, `DoubleSerializer`; any NaN is written as the one that these write |
/// | `bool` | 1: 0 or 1 | `BooleanSerializer` |
/// | `i8`, `u8`, `u16`, `u32`, `u64` | 1, 1, 2, 4, 8 | none has these: the same rule |
///
/// The default of keys of these types, and a small one for values and states where it is spelled.
#[derive(Clone, Copy, Debug)]
pub struct BigEndian;

fn exactly<const WIDTH: usize>(bytes: &[u8]) -> Result<[u8; WIDTH], CodecError> {
    bytes.try_into().map_err(|_| {
        let unit = if WIDTH == 1 { "byte" } else { "bytes" };
        CodecError::new(format_args!("expected {WIDTH} {unit}, found {}", bytes.len()))
    })
}

macro_rules! big_endian {
    ($($number:ty),* => $bytes:expr) => {$(
        impl Codec<$number> for BigEndian {
            type Out<'b> = $number;
            const ID: u8 = 4;

            #[inline]
            fn decode(bytes: &[u8]) -> Result<$number, CodecError> {
                exactly(bytes).map(<$number>::from_be_bytes)
            }

            #[inline]
            fn encode(value: &$number, out: &mut Vec<u8>) -> Result<(), CodecError> {
                let bytes: fn($number) -> [u8; size_of::<$number>()] = $bytes;
                out.extend_from_slice(&bytes(*value));
                Ok(())
            }
        }
    )*};
}

big_endian!(i8, i16, i32, i64, u8, u16, u32, u64 => |number| number.to_be_bytes());
// Java knows one NaN on the wire, and equal keys must have equal bytes.
big_endian!(f32 => |number| if number.is_nan() { 0x7fc0_0000_u32.to_be_bytes() } else { number.to_be_bytes() });
big_endian!(f64 => |number| if number.is_nan() { 0x7ff8_0000_0000_0000_u64.to_be_bytes() } else { number.to_be_bytes() });

impl Codec<bool> for BigEndian {
    type Out<'b> = bool;
    const ID: u8 = 4;

    #[inline]
    fn decode(bytes: &[u8]) -> Result<bool, CodecError> {
        match exactly(bytes)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(CodecError::new(format_args!("expected 0 or 1, found {other}"))),
        }
    }

    #[inline]
    fn encode(value: &bool, out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.push(u8::from(*value));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    fn check<T>(value: T, bytes: &[u8])
    where
        T: PartialEq + Debug,
        BigEndian: for<'b> Codec<T, Out<'b> = T>,
    {
        let mut out = Vec::new();
        <BigEndian as Codec<T>>::encode(&value, &mut out).unwrap();
        assert_eq!(out, bytes, "{value:?}");
        assert_eq!(<BigEndian as Codec<T>>::decode(bytes).unwrap(), value);
        for wrong in [&bytes[1..], &[bytes, b"\0"].concat()] {
            assert!(<BigEndian as Codec<T>>::decode(wrong).is_err(), "{value:?} of {wrong:?}");
        }
    }

    #[test]
    fn numbers_have_the_bytes_that_kafkas_serializers_write() {
        check(true, b"\x01");
        check(false, b"\x00");
        check(-2_i16, b"\xff\xfe");
        check(258_i32, b"\x00\x00\x01\x02");
        check(i64::MIN, b"\x80\x00\x00\x00\x00\x00\x00\x00");
        check(1.5_f32, b"\x3f\xc0\x00\x00");
        check(-0.0_f64, b"\x80\x00\x00\x00\x00\x00\x00\x00");
    }

    #[test]
    fn numbers_that_kafka_has_no_serializer_for_have_the_bytes_of_the_same_rule() {
        check(-1_i8, b"\xff");
        check(200_u8, b"\xc8");
        check(0xfffe_u16, b"\xff\xfe");
        check(0xfedc_ba98_u32, b"\xfe\xdc\xba\x98");
        check(u64::MAX - 1, b"\xff\xff\xff\xff\xff\xff\xff\xfe");
    }

    #[test]
    fn every_nan_is_the_same_key() {
        let mut out = Vec::new();
        for odd in [f64::NAN, -f64::NAN, f64::from_bits(0x7ff8_0000_0000_0001)] {
            out.clear();
            BigEndian::encode(&odd, &mut out).unwrap();
            assert_eq!(out, b"\x7f\xf8\0\0\0\0\0\0");
        }
        out.clear();
        BigEndian::encode(&-f32::NAN, &mut out).unwrap();
        assert_eq!(out, b"\x7f\xc0\0\0");
    }

    #[test]
    fn a_boolean_is_zero_or_one() {
        let decoded: Result<bool, _> = <BigEndian as Codec<bool>>::decode(b"\x02");
        assert_eq!(decoded.unwrap_err().to_string(), "expected 0 or 1, found 2");
    }
}
