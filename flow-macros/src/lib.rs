//! The `#[flow]` attribute of flow-core, which re-exports it.

mod annotate;
mod errors;
mod expand;
mod model;
mod parse;

use proc_macro::TokenStream;

/// Turns an annotated function or impl block into a flow.
#[proc_macro_attribute]
pub fn flow(args: TokenStream, item: TokenStream) -> TokenStream {
    annotate::flow(args.into(), item.into()).into()
}

/// The key that an event names itself.
#[proc_macro_attribute]
pub fn key(_args: TokenStream, item: TokenStream) -> TokenStream {
    annotate::alone("key", &item.into()).into()
}

/// A step that takes an event into the state.
#[proc_macro_attribute]
pub fn fold(_args: TokenStream, item: TokenStream) -> TokenStream {
    annotate::alone("fold", &item.into()).into()
}

/// A step that a timer calls.
#[proc_macro_attribute]
pub fn timer(_args: TokenStream, item: TokenStream) -> TokenStream {
    annotate::alone("timer", &item.into()).into()
}
