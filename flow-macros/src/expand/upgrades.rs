//! `fn upgrades`: the chain of the user's functions, each under its own token.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ExprArray;

use super::{Expansion, ends};
use crate::model::Upgrades;

impl Expansion<'_> {
    pub(super) fn upgrades(&self) -> Option<TokenStream> {
        let root = &self.root;
        let body = match self.model.upgrades.as_ref()? {
            _ if !self.sound => quote!(::core::unreachable!()),
            Upgrades::List(list) => self.upgrade_chain(list),
            Upgrades::Value(value) => quote!(#value),
        };
        let written = ends(self.model.upgrades.as_ref()?).0;
        let upgrades =
            self.at(quote!(#root::Upgrades<<Self as #root::Flow>::State, <Self as #root::Flow>::Codec>), written);
        Some(quote! {
            fn upgrades() -> #upgrades {
                #body
            }
        })
    }

    fn upgrade_chain(&self, list: &ExprArray) -> TokenStream {
        let root = &self.root;
        let version = self.model.state_version.as_ref().and_then(|version| version.base10_parse::<u32>().ok());
        let oldest = version.unwrap_or(1).saturating_sub(list.elems.len() as u32);
        let steps = list.elems.iter().map(|upgrade| quote_spanned!(ends(upgrade).0=> .then(#upgrade)));
        let start = self.at(quote!(#root::Upgrades::from_version(#oldest)), ends(list).0);
        quote!(#start #(#steps)*)
    }
}
