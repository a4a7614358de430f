//! States that earlier versions of a program wrote, and how they become those of this one.
//!
//! A version is upgraded by the function that was written when the next one came; the functions are chained, so none of them
//! changes again. Which versions can be read is known without any payload: an entry of another one is refused when it is
//! restored, and the payload is read, and upgraded, when its key is first used.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::codec::{Codec, CodecError};

/// How states of earlier versions become states `S`, which the codec `C` writes: what [`Flow::upgrades`](crate::Flow::upgrades)
/// returns.
///
/// It starts at the oldest version that may still be stored, and each [`then`](Upgrades::then) is the step to the next one. An
/// upgrade is written once, when the state changes, and stays: a snapshot is only written again when its key is next used, so any
/// version that ever ran may still be there.
///
/// ```
/// use flow_core::{Context, Flow, Fold, Json, Never, StepError, Upgrades};
/// use serde::{Deserialize, Serialize};
///
/// /// The second version of the state; the first was the number of clicks alone.
/// #[derive(Clone, Serialize, Deserialize)]
/// struct Session {
///     clicks: u64,
///     pages: Vec<String>,
/// }
///
/// struct Sessions;
///
/// impl Flow for Sessions {
///     const NAME: &'static str = "sessions";
///     const STATE_VERSION: u32 = 2;
///     type State = Session;
///     type Codec = Json;
///     type Out = Never;
///
///     fn upgrades() -> Upgrades<Session, Json> {
///         Upgrades::from_version(1).then(|clicks: u64| Session { clicks, pages: Vec::new() })
///     }
/// }
/// # impl Fold<String> for Sessions {
/// #     fn fold(&self, _: &mut Option<Session>, _: &String, _: &mut Context<Never>) -> Result<(), StepError> { Ok(()) }
/// # }
/// ```
///
/// The codec can change, too: [`written_by`](Upgrades::written_by). A change that the codec itself bridges (a new field with
/// `#[serde(default)]` in JSON) needs no version.
#[must_use = "upgrades do nothing by themselves: return them from `Flow::upgrades`"]
pub struct Upgrades<S, C> {
    version: u32,
    older: Vec<Older<S>>,
    codec: PhantomData<fn() -> C>,
}

/// Makes a state of what an earlier version wrote.
type Read<S> = dyn Fn(&[u8]) -> Result<S, CodecError> + Send + Sync;

/// An earlier version, and how its bytes become a state of this one. An error completes "the state of key `k` ..".
pub(crate) struct Older<S> {
    pub(crate) version: u32,
    pub(crate) codec: u8,
    pub(crate) read: Arc<Read<S>>,
}

impl<S, C> Upgrades<S, C> {
    /// Starts at the oldest version that can be read. Alone, it says that there is no other.
    pub fn from_version(version: u32) -> Self {
        Upgrades { version, older: Vec::new(), codec: PhantomData }
    }

    /// Says that states of the version that is reached are written by another codec than those before.
    ///
    /// ```
    /// use flow_core::{BigEndian, Json, Upgrades};
    ///
    /// let upgrades: Upgrades<u64, BigEndian> = Upgrades::<u64, Json>::from_version(1).then(|same| same).written_by();
    /// assert_eq!(upgrades.version(), 2);
    /// ```
    pub fn written_by<D>(self) -> Upgrades<S, D> {
        Upgrades { version: self.version, older: self.older, codec: PhantomData }
    }

    /// The version that is reached.
    pub fn version(&self) -> u32 {
        self.version
    }

    pub(crate) fn into_older(self) -> Vec<Older<S>> {
        self.older
    }
}

impl<S: 'static, C: for<'b> Codec<S, Out<'b> = S>> Upgrades<S, C> {
    /// Adds the next version: `upgrade` makes its state of one of the version before. It is replayed after a crash, so it looks at
    /// nothing but the state.
    pub fn then<T: 'static>(self, upgrade: impl Fn(S) -> T + Send + Sync + 'static) -> Upgrades<T, C> {
        self.step(move |state| Ok(upgrade(state)))
    }

    /// [`then`](Upgrades::then) for an upgrade that not every state allows. Where it fails the run stops, with the store and the
    /// key: a state is never skipped.
    pub fn try_then<T: 'static, E: fmt::Display>(
        self,
        upgrade: impl Fn(S) -> Result<T, E> + Send + Sync + 'static,
    ) -> Upgrades<T, C> {
        let from = self.version;
        self.step(move |state| {
            upgrade(state)
                .map_err(|error| CodecError::new(format_args!("cannot be upgraded from version {from}: {error}")))
        })
    }

    fn step<T: 'static>(self, upgrade: impl Fn(S) -> Result<T, CodecError> + Send + Sync + 'static) -> Upgrades<T, C> {
        let from = self.version;
        let latest = move |bytes: &[u8]| {
            C::decode(bytes).map_err(|error| CodecError::new(format_args!("cannot be read as version {from}: {error}")))
        };
        let latest = Older { version: from, codec: C::ID, read: Arc::new(latest) };
        let upgrade = Arc::new(upgrade);
        let through = |Older { version, codec, read }: Older<S>| {
            let upgrade = Arc::clone(&upgrade);
            Older { version, codec, read: Arc::new(move |bytes: &[u8]| upgrade(read(bytes)?)) }
        };
        let older = self.older.into_iter().chain([latest]).map(through).collect();
        Upgrades { version: from.saturating_add(1), older, codec: PhantomData }
    }
}

impl<S, C> fmt::Debug for Upgrades<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let older: Vec<u32> = self.older.iter().map(|older| older.version).collect();
        f.debug_struct("Upgrades").field("version", &self.version).field("older", &older).finish()
    }
}
