//! Whether a request's body is as long as its own lengths say.
//!
//! The codec makes room for as many elements as a list says it has, before it reads the first one. A length that lies would take
//! all memory and with it the process, so each body is walked before it is decoded.

use super::shapes::{Field, Kind, body};
use kafka_protocol::messages::ApiKey;

/// True if all lists and strings of the body end inside it. Bytes behind it are left to the codec, which ignores them.
pub(super) fn holds(api: ApiKey, version: i16, bytes: &[u8]) -> bool {
    walk(api, version, bytes).is_some()
}

/// What is left behind the body.
pub(super) fn walk(api: ApiKey, version: i16, bytes: &[u8]) -> Option<&[u8]> {
    let (flexible_since, fields) = body(api)?;
    let mut walk = Walk { rest: bytes, version, is_flexible: version >= flexible_since };
    walk.fields(fields)?;
    Some(walk.rest)
}

struct Walk<'b> {
    rest: &'b [u8],
    version: i16,
    /// The compact encoding of KIP-482: varint lengths that are one too high, and tagged fields behind every structure.
    is_flexible: bool,
}

impl Walk<'_> {
    fn fields(&mut self, fields: &[Field]) -> Option<()> {
        let version = self.version;
        for field in fields.iter().filter(|field| field.versions.contains(&version)) {
            self.field(field.kind)?;
        }
        if self.is_flexible { self.tagged() } else { Some(()) }
    }

    fn field(&mut self, kind: Kind) -> Option<()> {
        match kind {
            Kind::Fixed(size) => self.skip(size),
            Kind::Text => {
                let length = self.length(2)?;
                self.skip(length)
            }
            Kind::Bytes => {
                let length = self.length(4)?;
                self.skip(length)
            }
            Kind::List(element) => {
                for _ in 0..self.length(4)? {
                    self.field(*element)?;
                }
                Some(())
            }
            Kind::Structure(fields) => self.fields(fields),
        }
    }

    fn tagged(&mut self) -> Option<()> {
        for _ in 0..self.varint()? {
            self.varint()?;
            let size = self.varint()?;
            self.skip(size)?;
        }
        Some(())
    }

    /// A length of `size` bytes, or a compact one; null counts as nothing.
    fn length(&mut self, size: usize) -> Option<usize> {
        if self.is_flexible {
            return Some(self.varint()?.saturating_sub(1));
        }
        let (length, rest) = self.rest.split_at_checked(size)?;
        self.rest = rest;
        let length = match *length {
            [a, b] => i32::from(i16::from_be_bytes([a, b])),
            [a, b, c, d] => i32::from_be_bytes([a, b, c, d]),
            _ => return None,
        };
        match length {
            -1 => Some(0),
            length => usize::try_from(length).ok(),
        }
    }

    fn varint(&mut self) -> Option<usize> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn skip(&mut self, size: usize) -> Option<()> {
        self.rest = self.rest.get(size..)?;
        Some(())
    }
}
