use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Codec, CodecError};

/// JSON, by serde. The default of values and states, and of no key: a JSON string carries quotes, so it would be another key, in
/// another partition, than every other client's.
///
/// A null value of Kafka (a tombstone) is not JSON's `null`: use [`Nullable<Json>`](super::Nullable) where one may come.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    type Out<'b> = T;
    const ID: u8 = 1;

    #[inline]
    fn decode(bytes: &[u8]) -> Result<T, CodecError> {
        serde_json::from_slice(bytes).map_err(|error| CodecError::new(format_args!("not the expected JSON: {error}")))
    }

    #[inline]
    fn encode(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
        serde_json::to_writer(out, value)
            .map_err(|error| CodecError::new(format_args!("cannot be written as JSON: {error}")))
    }
}
