//! From the tokens of an annotated item to the tokens that take its place: parse, model, expand.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};

use crate::errors::Errors;
use crate::parse::{self, Item};
use crate::{expand, model};

/// `#[flow(args)] item`: the item as it came, what makes it a flow, and its mistakes.
pub(crate) fn flow(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = parse::args(args, &mut errors);
    let (item, model) = match parse::item(&item, args.root()) {
        Item::Broken => return item,
        Item::Other => {
            errors.at(head(&item), "`#[flow]` goes on a function or on an impl block");
            (item, None)
        }
        Item::Function(function) => (item, model::function(args, *function, &mut errors)),
        Item::Block(block) => {
            let model = model::block(args, &block, &mut errors);
            (block.into_token_stream(), Some(model))
        }
    };
    let generated = model.map(|model| expand::model(&model, errors.is_empty()));
    let errors = errors.to_compile_errors();
    quote!(#item #generated #errors)
}

/// `#[fold]` and its like outside of an annotated impl block.
pub(crate) fn alone(word: &str, item: &TokenStream) -> TokenStream {
    let text = format!("`#[{word}]` marks a function of an impl block that is annotated with `#[flow(name = \"..\")]`");
    let error = syn::Error::new(Span::call_site(), text).to_compile_error();
    quote!(#item #error)
}

/// The first words of an item, without what stands in its braces.
fn head(item: &TokenStream) -> TokenStream {
    item.clone().into_iter().take_while(|token| !matches!(token, proc_macro2::TokenTree::Group(_))).collect()
}
