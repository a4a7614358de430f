//! Where a flow stands: what its user would write with the topology's own methods.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Expr, LitStr};

use super::{Expansion, ends, is_reference, local};
use crate::model::{Fold, Place};

impl Expansion<'_> {
    pub(super) fn place(&self) -> Option<TokenStream> {
        let place = self.model.place.as_ref()?;
        let root = &self.root;
        let topology = local("topology", Span::call_site());
        let receiver = Ident::new("self", self.receiver_at());
        let body = match self.sound {
            true => self.chain(place, &topology, &receiver),
            false => quote!(::core::unreachable!()),
        };
        Some(self.implement(
            &[],
            &quote!(#root::Placed),
            &quote! {
                #[allow(unused_variables)]
                fn place(#receiver, #topology: &#root::TopologyBuilder) {
                    #body
                }
            },
        ))
    }

    /// A flow that cannot fold what its topic holds is reported under the topic.
    fn receiver_at(&self) -> Span {
        match self.model.folds.as_slice() {
            [Fold { from: Some(from), .. }] => ends(from).1,
            _ => Span::call_site(),
        }
    }

    fn chain(&self, place: &Place, topology: &Ident, receiver: &Ident) -> TokenStream {
        let folds: Vec<_> = self.model.folds.iter().filter_map(|fold| Some((fold, fold.from.as_ref()?))).collect();
        // The line that a name clash is reported with is the one that gives the name.
        let named_at = self.model.name.as_ref().map_or_else(Span::call_site, LitStr::span);
        let flow = Ident::new("flow", named_at);
        let flowing = match folds.as_slice() {
            [(fold, from)] => {
                let input = input(self, fold, from, topology);
                let call = quote_spanned!(ends(from).1=> (#receiver));
                quote!(#input.#flow #call)
            }
            folds => {
                let inputs = folds.iter().map(|(fold, from)| {
                    let input = input(self, fold, from, topology);
                    let (start, end) = ends(from);
                    let call = quote_spanned!(end=> (#input));
                    quote_spanned!(start=> .fold #call)
                });
                quote!(#topology.#flow(#receiver) #(#inputs)* .output())
            }
        };
        match &place.to {
            Some(to) => {
                let (start, end) = ends(to);
                let call = quote_spanned!(end=> (#to));
                let to = quote_spanned!(start=> .to #call);
                quote!(#flowing #to;)
            }
            None => quote!(let _ = #flowing;),
        }
    }
}

/// The stream of one fold's topic, under the key that its `#[key(repartition = ..)]` asks for.
fn input(expansion: &Expansion<'_>, fold: &Fold, from: &Expr, topology: &Ident) -> TokenStream {
    let (start, end) = ends(from);
    let call = quote_spanned!(end=> (#from));
    let stream = quote_spanned!(start=> #topology.stream #call);
    let Some((key, name)) = fold.key.as_ref().and_then(|key| Some((key, key.repartition.as_ref()?))) else {
        return stream;
    };
    let event = local("event", ends(&key.event).1);
    let path = expansion.key_path(key);
    // A key that the event lends must be owned to travel.
    let owned = match is_reference(&key.output) {
        true => quote!(::std::borrow::ToOwned::to_owned(#path(#event))),
        false => quote!(#path(#event)),
    };
    let at = name.span();
    let key_by = quote_spanned!(at=> .key_by);
    quote!(#stream #key_by(#name, |_, #event| #owned))
}
