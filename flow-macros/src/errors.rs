//! Collects mistakes, so that one build shows all of an item's.
//!
//! Every phase adds to the same [`Errors`] and goes on with the best guess it has; none stops early. Each mistake lies
//! under the tokens it is about.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;

/// The mistakes found so far in one annotated item.
#[derive(Default)]
pub(crate) struct Errors {
    found: Vec<syn::Error>,
}

impl Errors {
    /// Reports `message` under `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.found.push(syn::Error::new_spanned(tokens, message));
    }

    /// Keeps a mistake that already knows its place.
    pub(crate) fn push(&mut self, error: syn::Error) {
        self.found.push(error);
    }

    /// Takes the value of a result; a mistake is kept and leaves nothing.
    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// One `compile_error!` for each mistake.
    pub(crate) fn to_compile_errors(&self) -> TokenStream {
        self.found.iter().map(syn::Error::to_compile_error).collect()
    }
}
