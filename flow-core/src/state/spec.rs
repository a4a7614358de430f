use super::upgrade::{Older, Upgrades};
use crate::codec::{Codec, CodecError};
use crate::engine::RestoreError;
use crate::flow::Timer;

/// What is fixed about a store: its name, and how its states are written.
pub(crate) struct StoreSpec<S> {
    pub(crate) name: String,
    pub(crate) version: u32,
    pub(crate) timers: &'static [Timer],
    pub(crate) codec: u8,
    pub(crate) decode: fn(&[u8]) -> Result<S, CodecError>,
    pub(crate) encode: fn(&S, &mut Vec<u8>) -> Result<(), CodecError>,
    /// Earlier versions that can be read.
    pub(crate) older: Vec<Older<S>>,
}

/// Which version wrote a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrittenBy {
    /// This one.
    Current,
    /// The one with this index in [`StoreSpec::older`].
    Older(usize),
}

impl<S> StoreSpec<S> {
    pub(crate) fn new<C>(name: &str, timers: &'static [Timer], upgrades: Upgrades<S, C>) -> Self
    where
        C: for<'b> Codec<S, Out<'b> = S>,
    {
        StoreSpec {
            name: name.to_owned(),
            version: upgrades.version(),
            timers,
            codec: C::ID,
            decode: |bytes| C::decode(bytes),
            encode: C::encode,
            older: upgrades.into_older(),
        }
    }

    /// Whose payload this is; refused if this program cannot read it.
    pub(crate) fn written_by(&self, version: u32, codec: u8) -> Result<WrittenBy, RestoreError> {
        let store = || self.name.clone();
        let (by, expected) = if version == self.version {
            (WrittenBy::Current, self.codec)
        } else if let Some(at) = self.older.iter().position(|older| older.version == version) {
            (WrittenBy::Older(at), self.older[at].codec)
        } else {
            let oldest = self.older.first().map_or(self.version, |older| older.version);
            return Err(RestoreError::Version { store: store(), found: version, expected: self.version, oldest });
        };
        if codec != expected {
            return Err(RestoreError::Codec { store: store(), found: codec, expected });
        }
        Ok(by)
    }
}
