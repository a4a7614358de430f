use std::marker::PhantomData;

use super::{Codec, CodecError};

/// `Option<T>` where Kafka's null stands for `None`, and `C` writes the rest.
#[derive(Clone, Copy, Debug)]
pub struct Nullable<C>(PhantomData<fn() -> C>);

impl<T, C: for<'b> Codec<T, Out<'b> = T>> Codec<Option<T>> for Nullable<C> {
    type Out<'b> = Option<T>;
    const ID: u8 = C::ID | 128;

    #[inline]
    fn decode(bytes: &[u8]) -> Result<Option<T>, CodecError> {
        C::decode(bytes).map(Some)
    }

    #[inline]
    fn encode(value: &Option<T>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        match value {
            Some(value) => C::encode(value, out),
            None => Ok(()),
        }
    }

    #[inline]
    fn decode_null<'b>() -> Option<Self::Out<'b>> {
        Some(None)
    }

    #[inline]
    fn is_null(value: &Option<T>) -> bool {
        value.is_none()
    }
}
