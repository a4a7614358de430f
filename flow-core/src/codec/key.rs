use std::any::TypeId;

use super::{BigEndian, Bytes, Codec, CodecError, Nullable, Utf8};

/// A type that can be a key, with the codec that writes it.
///
/// Key bytes are the identity of a key: they choose the partition and address the state. So the default is what Kafka's own
/// serializers write: text as UTF-8, numbers [big-endian](BigEndian), a `Uuid` (feature `uuid`) as its text, `None` as a null. What
/// they have no serializer for follows a rule of our own: unsigned numbers are big-endian, too, and a [`Tuple`](super::Tuple)
/// writes each part behind its length.
///
/// ```
/// use flow_core::{Codec, CodecError, Key, Utf8};
///
/// #[derive(Clone)]
/// struct UserId(String);
///
/// struct UserIdCodec;
///
/// impl Codec<UserId> for UserIdCodec {
///     type Out<'b> = UserId;
///     const ID: u8 = 64;
///     fn decode(bytes: &[u8]) -> Result<UserId, CodecError> {
///         <Utf8 as Codec<String>>::decode(bytes).map(UserId)
///     }
///     fn encode(user: &UserId, out: &mut Vec<u8>) -> Result<(), CodecError> {
///         <Utf8 as Codec<String>>::encode(&user.0, out)
///     }
/// }
///
/// impl Key for UserId {
///     type Codec = UserIdCodec;
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no key codec",
    note = "implement `flow_core::Key` for it, or spell the codec as the third type of `Topic`"
)]
pub trait Key {
    /// Writes keys of this type.
    type Codec: Codec<Self>;
}

impl Key for str {
    type Codec = Utf8;
}
impl Key for String {
    type Codec = Utf8;
}
impl Key for [u8] {
    type Codec = Bytes;
}
impl Key for Vec<u8> {
    type Codec = Bytes;
}
macro_rules! number {
    ($($number:ty),*) => {$(
        impl Key for $number {
            type Codec = BigEndian;
        }
    )*};
}
number!(bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

impl Key for () {
    type Codec = NoKey;
}
impl<K: Key> Key for Option<K>
where
    K::Codec: for<'b> Codec<K, Out<'b> = K>,
{
    type Codec = Nullable<K::Codec>;
}

/// The codec that the key's type names: see [`Key`].
#[derive(Clone, Copy, Debug)]
pub struct ByType;

impl<K: Key + ?Sized> Codec<K> for ByType {
    type Out<'b> = <K::Codec as Codec<K>>::Out<'b>;
    const ID: u8 = <K::Codec as Codec<K>>::ID;

    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self::Out<'_>, CodecError> {
        K::Codec::decode(bytes)
    }

    #[inline]
    fn encode(value: &K, out: &mut Vec<u8>) -> Result<(), CodecError> {
        K::Codec::encode(value, out)
    }

    #[inline]
    fn decode_null<'b>() -> Option<Self::Out<'b>> {
        K::Codec::decode_null()
    }

    #[inline]
    fn is_null(value: &K) -> bool {
        K::Codec::is_null(value)
    }

    fn layout() -> TypeId {
        K::Codec::layout()
    }
}

/// For topics whose keys do not matter: any key, also a null one, reads as `()`; written as a null.
#[derive(Clone, Copy, Debug)]
pub struct NoKey;

impl Codec<()> for NoKey {
    type Out<'b> = ();
    const ID: u8 = 5;

    #[inline]
    fn decode(_bytes: &[u8]) -> Result<(), CodecError> {
        Ok(())
    }

    #[inline]
    fn encode(_value: &(), _out: &mut Vec<u8>) -> Result<(), CodecError> {
        Ok(())
    }

    #[inline]
    fn decode_null<'b>() -> Option<Self::Out<'b>> {
        Some(())
    }

    #[inline]
    fn is_null(_value: &()) -> bool {
        true
    }
}
