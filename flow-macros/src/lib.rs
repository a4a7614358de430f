//! The attributes of flow-core, which re-exports them: [`macro@flow`] turns a function or an impl block into a flow, and inside
//! such a block [`macro@key`], [`macro@fold`] and [`macro@timer`] mark the functions that it is made of.
//!
//! Use them from `flow_core`; this crate has no other API. The files are the steps: `parse` (the words as written), `model` (what
//! they mean, checked), `expand` (the tokens). Mistakes are collected, so that one build shows all of an item's.

mod annotate;
mod errors;
mod expand;
mod model;
mod parse;

use proc_macro::TokenStream;

/// Turns a function, or an impl block, into a flow: a stateful step that keeps one state per key.
///
/// The item stays as it is written, so its functions can be called, and tested, as functions. Beside it the macro writes the
/// impls of `Flow` and `Fold` that one could write by hand, and nothing else.
///
/// # A function
///
/// The first word is the name of the flow, a unit struct that the macro declares with the function's visibility.
///
/// ```
/// use flow_core::flow;
///
/// struct Click {
///     user: String,
/// }
///
/// /// Counts clicks per user.
/// #[flow(ClicksPerUser, name = "clicks-per-user", key = |click: &Click| -> String { click.user.clone() })]
/// fn count_click(count: Option<u64>, _click: &Click) -> Option<u64> {
///     Some(count.unwrap_or(0) + 1)
/// }
///
/// let click = Click { user: "ann".to_owned() };
/// assert_eq!(count_click(None, &click), Some(1));
/// assert_eq!(count_click(Some(1), &click), Some(2));
/// ```
///
/// It takes the state, `None` for a key that has none; the event, by reference; and, if it emits or sets timers, a
/// `&mut Context<Out>`. It returns the next state, as `Option<State>` or `Result<Option<State>, E>`; `None` forgets the key. A
/// step is a plain function: it is replayed after a crash, so it must not wait on the outside world.
///
/// # An impl block
///
/// For flows with settings, with timers, or with events of several types. Settings are fields, read through `&self`; what changes
/// is the state.
///
/// ```
/// use std::time::Duration;
///
/// use flow_core::testing::ContextExt;
/// use flow_core::{Context, Timer, Timestamp, flow};
/// use serde::{Deserialize, Serialize};
///
/// struct Click {
///     user: String,
///     at: Timestamp,
/// }
///
/// #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
/// struct Session {
///     clicks: u64,
/// }
///
/// #[derive(Debug, PartialEq)]
/// struct SessionClosed {
///     clicks: u64,
/// }
///
/// /// Closes a user's session after a while without clicks.
/// struct Sessions {
///     idle_after: Duration,
/// }
///
/// #[flow(name = "sessions")]
/// impl Sessions {
///     const IDLE: Timer = Timer::event_time("idle");
///
///     #[key]
///     fn user(click: &Click) -> String {
///         click.user.clone()
///     }
///
///     #[fold]
///     fn click(&self, session: Option<Session>, click: &Click, cx: &mut Context<SessionClosed>) -> Option<Session> {
///         cx.set_timer(Self::IDLE, click.at + self.idle_after);
///         let mut session = session.unwrap_or(Session { clicks: 0 });
///         session.clicks += 1;
///         Some(session)
///     }
///
///     #[timer(Self::IDLE)]
///     fn close(&self, session: Session, cx: &mut Context<SessionClosed>) -> Option<Session> {
///         cx.emit(SessionClosed { clicks: session.clicks });
///         None // forgets the key, and its timers with it
///     }
/// }
///
/// let sessions = Sessions { idle_after: Duration::from_secs(30) };
/// let click = Click { user: "ann".to_owned(), at: Timestamp::from_millis(5) };
/// let mut cx = Context::at(click.at);
/// let session = sessions.click(None, &click, &mut cx);
/// assert_eq!(session, Some(Session { clicks: 1 }));
/// assert_eq!(cx.timers(), [(Sessions::IDLE, Some(Timestamp::from_millis(30_005)))]);
///
/// assert_eq!(sessions.close(session.unwrap(), &mut cx), None);
/// assert_eq!(cx.emitted(), [SessionClosed { clicks: 1 }]);
/// ```
///
/// All steps of a block share one state type and one output type, spelled alike: the macro reads the spelling and cannot see
/// through an alias. Generics, bounds and where-clauses of the block are passed on. `#[key]`, `#[fold]` and `#[timer]` need no
/// `use` here.
///
/// # A whole topology
///
/// With `from` and `to` the flow also says where it stands, so that `Topology::of(flow)` or `topology.add(flow)` is all a program
/// writes; without them it is a step that `.flow(..)` places. Where a block has several folds, each says its own `from`:
/// [`#[fold(from = CLICKS)]`](macro@fold).
///
/// ```
/// use flow_core::{Context, Topic, Topology, flow};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Click {
///     user: String,
/// }
///
/// const CLICKS: Topic<String, Click> = Topic::new("clicks");
/// const COUNTS: Topic<String, u64> = Topic::new("counts");
///
/// #[flow(ClicksPerUser, name = "clicks-per-user", from = CLICKS, to = COUNTS)]
/// fn count_click(count: Option<u64>, _click: &Click, cx: &mut Context<u64>) -> Option<u64> {
///     let count = count.unwrap_or(0) + 1;
///     cx.emit(count);
///     Some(count)
/// }
///
/// # fn main() -> Result<(), flow_core::TopologyError> {
/// let topology = Topology::of(ClicksPerUser)?;
/// # Ok(())
/// # }
/// ```
///
/// # A state that changes
///
/// When the state changes so that its codec cannot bridge it, the version goes up, and a function says how a state of the version
/// before becomes one of the next. The functions are listed, the oldest first, and never change again: snapshots of any version
/// that ever ran may still be there, because a snapshot is only written again when its key is next used.
///
/// ```
/// use flow_core::{Flow, flow};
/// use serde::{Deserialize, Serialize};
///
/// # struct Click { page: String }
/// /// Version 2. Version 1 was the number of clicks alone.
/// #[derive(Clone, Serialize, Deserialize)]
/// struct Session {
///     clicks: u64,
///     pages: Vec<String>,
/// }
///
/// fn with_pages(clicks: u64) -> Session {
///     Session { clicks, pages: Vec::new() }
/// }
///
/// #[flow(Sessions, name = "sessions", state_version = 2, upgrades = [with_pages])]
/// fn click(session: Option<Session>, click: &Click) -> Option<Session> {
///     let mut session = session.unwrap_or(Session { clicks: 0, pages: Vec::new() });
///     session.clicks += 1;
///     session.pages.push(click.page.clone());
///     Some(session)
/// }
///
/// assert_eq!(Sessions::upgrades().version(), 2);
/// ```
///
/// Instead of a list, `upgrades` may be a value of flow-core's `Upgrades`, which can also say that an upgrade may fail, or that the
/// codec changed: `upgrades = Upgrades::<Session, Json>::from_version(1).then(|same| same).written_by::<MyCodec>()`.
///
/// # Settings
///
/// | word | what it says | where |
/// | --- | --- | --- |
/// | `Name` | the flow's type, which the macro declares; it stands first | function |
/// | `name = "clicks-per-user"` | what the state is stored under: it reaches Kafka and must outlive renames. Required | both |
/// | `key = \|click: &Click\| -> UserId { .. }` | the key that an event names itself, checked against the record's; see [`macro@key`] | function |
/// | `repartition = "clicks-by-user"` | puts a `key_by` of that name, by `key`, in front of the flow; needs `from` | function |
/// | `from = CLICKS`, `to = CLOSED` | the topics of a whole topology | both |
/// | `state_version = 2` | the version of the state's layout: snapshots of another one are upgraded, or refused at restore. 1 if not said | both |
/// | `upgrades = [with_pages]` | how states of earlier versions become this one's; see above | both |
/// | `codec = MyCodec` | how snapshots write the state; JSON if not said | both |
/// | `crate = streams` | what you call flow-core, if you renamed or re-exported it | both |
#[proc_macro_attribute]
pub fn flow(args: TokenStream, item: TokenStream) -> TokenStream {
    annotate::flow(args.into(), item.into()).into()
}

/// Marks the function of a [`#[flow]`](macro@flow) block that gives the key which an event names itself.
///
/// It takes the event by reference and returns the key, owned or lent by the event. There is at most one for each event type. The
/// flow works on the records of its topic in place, so this changes no key: it is a check. If the key's bytes differ from those
/// of the record's key, the record fails, and both are shown.
///
/// To change the key, say what the repartition topic is called: `#[key(repartition = "clicks-by-user")]` puts a `key_by` of that
/// name in front of the flow. It needs the fold's `from`; where `.flow(..)` places the flow, write `.key_by(..)` before it.
///
/// ```
/// use flow_core::{Topic, Topology, flow};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Click {
///     user: String,
/// }
///
/// /// Written with keys that do not matter.
/// const CLICKS: Topic<(), Click> = Topic::new("clicks");
///
/// struct Clicks;
///
/// #[flow(name = "clicks-per-user", from = CLICKS)]
/// impl Clicks {
///     #[key(repartition = "clicks-by-user")]
///     fn user(click: &Click) -> &str {
///         &click.user
///     }
///
///     #[fold]
///     fn count(count: Option<u64>, _click: &Click) -> Option<u64> {
///         Some(count.unwrap_or(0) + 1)
///     }
/// }
///
/// # fn main() -> Result<(), flow_core::TopologyError> {
/// let topology = Topology::of(Clicks)?;
/// assert_eq!(topology.sub_topologies().len(), 2);
/// # Ok(())
/// # }
/// ```
///
/// On an annotated function the key is a setting: `#[flow(.., key = |click: &Click| -> UserId { .. })]`.
#[proc_macro_attribute]
pub fn key(_args: TokenStream, item: TokenStream) -> TokenStream {
    annotate::alone("key", &item.into()).into()
}

/// Marks the function of a [`#[flow]`](macro@flow) block that folds events of one type into the state of their key.
///
/// It takes, after an optional `&self`, the state as `Option<State>`, the event by reference, and, if it emits or sets timers, a
/// `&mut Context<Out>`. It returns the next state, as `Option<State>` or `Result<Option<State>, E>`; `None` forgets the key and
/// its timers. There is one for each event type, so several topics can be folded into one state.
///
/// With `#[fold(from = CLICKS)]` it also says which topic its events come from. All folds of a block say so, or none.
///
/// ```
/// use flow_core::{Topic, Topology, flow};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Click;
/// #[derive(Serialize, Deserialize)]
/// struct Order;
///
/// const CLICKS: Topic<String, Click> = Topic::new("clicks");
/// const ORDERS: Topic<String, Order> = Topic::new("orders");
///
/// /// Counts what a user does.
/// struct Deeds;
///
/// #[flow(name = "deeds")]
/// impl Deeds {
///     #[fold(from = CLICKS)]
///     fn click(deeds: Option<u64>, _click: &Click) -> Option<u64> {
///         Some(deeds.unwrap_or(0) + 1)
///     }
///
///     #[fold(from = ORDERS)]
///     fn order(deeds: Option<u64>, _order: &Order) -> Option<u64> {
///         Some(deeds.unwrap_or(0) + 10)
///     }
/// }
///
/// # fn main() -> Result<(), flow_core::TopologyError> {
/// let topology = Topology::of(Deeds)?;
/// # Ok(())
/// # }
/// ```
#[proc_macro_attribute]
pub fn fold(_args: TokenStream, item: TokenStream) -> TokenStream {
    annotate::alone("fold", &item.into()).into()
}

/// Marks the function of a [`#[flow]`](macro@flow) block that a timer calls: `#[timer(Self::IDLE)]`.
///
/// The timer is a constant of the block, as in `const IDLE: Timer = Timer::event_time("idle");`; its clock, event time or wall
/// clock, is part of it. A key's timer is set with `cx.set_timer(Self::IDLE, deadline)`. It is stored with the key's state,
/// survives restarts, and fires once.
///
/// The function takes, after an optional `&self`, the state by value, since a timer only exists while there is a state, and, if it
/// emits or sets timers, a `&mut Context<Out>`. It returns what a fold returns. Timers that are due at the same time for the same
/// key fire in the order of their functions.
///
/// The example of [`macro@flow`] has one.
#[proc_macro_attribute]
pub fn timer(_args: TokenStream, item: TokenStream) -> TokenStream {
    annotate::alone("timer", &item.into()).into()
}
