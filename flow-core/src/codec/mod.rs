//! Codecs: how keys, values and states are written as bytes. A codec is part of a topic's or a store's type.

mod json;
mod key;
mod nullable;
mod number;
#[cfg(feature = "postcard")]
mod postcard;
mod text;
mod tuple;
#[cfg(feature = "uuid")]
mod uuid;

use std::any::TypeId;
use std::borrow::Borrow;
use std::fmt;

pub use json::Json;
pub use key::{ByType, Key, NoKey};
pub use nullable::Nullable;
pub use number::BigEndian;
#[cfg(feature = "postcard")]
pub use postcard::Postcard;
pub use text::{Bytes, Utf8};
pub use tuple::Tuple;

/// Writes a `T` as bytes, and reads it.
///
/// A decoded value may borrow from the bytes it was read from ([`Utf8`] reads a `str` without copying it).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot write `{T}`",
    note = "`Json` takes what implements serde's `Serialize` and `DeserializeOwned`; keys need an impl of `flow_core::Key`"
)]
pub trait Codec<T: ?Sized>: Send + Sync + 'static {
    /// What decoding gives: an owned `T`, or something that borrows from the bytes.
    type Out<'b>: Borrow<T>;

    /// Marks what this codec writes in snapshots, so that bytes of another codec are refused when they are restored. The library
    /// uses numbers below 64, [`Nullable`] adds 128; a codec of your own takes one from 64 to 127.
    const ID: u8;

    /// Reads a value.
    ///
    /// # Errors
    /// When the bytes are not what [`Codec::encode`] writes.
    fn decode(bytes: &[u8]) -> Result<Self::Out<'_>, CodecError>;

    /// Appends the value's bytes.
    ///
    /// # Errors
    /// When the value cannot be written, as a map with keys that are no strings in JSON.
    fn encode(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError>;

    /// What a null stands for; `None`: a null is a decode failure.
    fn decode_null<'b>() -> Option<Self::Out<'b>> {
        None
    }

    /// True if this value is written as a null.
    fn is_null(_value: &T) -> bool {
        false
    }

    /// Two codecs with the same layout write the same bytes. ([`ByType`] answers for the codec it stands for.)
    #[doc(hidden)]
    fn layout() -> TypeId {
        TypeId::of::<Self>()
    }
}

/// What a codec's id stands for, for a person.
pub(crate) fn describe(id: u8) -> String {
    let name = match id & 127 {
        1 => "Json",
        2 => "Utf8",
        3 => "Bytes",
        4 => "BigEndian",
        5 => "NoKey",
        6 => "Tuple",
        7 => "Postcard",
        own => return format!("codec {own}"),
    };
    if id > 127 { format!("Nullable<{name}>") } else { name.to_owned() }
}

/// Why bytes could not be read, or a value could not be written.
#[derive(Debug)]
pub struct CodecError {
    message: String,
}

impl CodecError {
    /// An error with this text: lower case, no full stop, and what was expected.
    pub fn new(message: impl fmt::Display) -> Self {
        CodecError { message: message.to_string() }
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CodecError {}
