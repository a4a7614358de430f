//! The operators, one file each: the method with its documentation, the step, its tests.

mod aggregate;
mod count;
mod filter;
mod flat_map;
pub(crate) mod flow;
mod inspect;
mod key_by;
mod map;
mod merge;
mod reduce;
pub(crate) mod source;
mod to;

pub use to::Sink;
