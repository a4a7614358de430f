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

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> TokenStream {
        text.parse().unwrap()
    }

    fn flow(args: &str, item: &str) -> String {
        super::flow(tokens(args), tokens(item)).to_string()
    }

    /// How often a word stands in the output.
    fn count(word: &str, output: &str) -> usize {
        output.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|found| *found == word).count()
    }

    const FUNCTION: &str =
        "/// Counts. \n pub fn count(count: Option<u64>, _click: &Click) -> Option<u64> { Some(count?.marked()) }";

    #[test]
    fn a_function_is_emitted_first_and_unchanged_and_its_body_once() {
        let output = flow("Counts, name = \"counts\"", FUNCTION);
        assert!(output.starts_with(&tokens(FUNCTION).to_string()), "{output}");
        assert_eq!(count("marked", &output), 1, "{output}");
    }

    #[test]
    fn a_block_is_emitted_first_and_unchanged_but_for_the_helper_attributes() {
        let block = |key: &str, fold: &str| {
            format!(
                "/// Docs. \n impl Clicks {{ #![allow(dead_code)] const A: u8 = {{ 1 }}; {key} fn user(click: &Click) -> &str \
                 {{ marked() }} helper! {{ a b }} {fold} #[inline] pub fn click(count: Option<u64>, _: &Click) \
                 -> Option<u64> {{ count }} }}"
            )
        };
        let output = flow("name = \"clicks\"", &block("#[key]", "#[fold]"));
        let tight = |text: String| text.replace(' ', "");
        assert!(tight(output.clone()).starts_with(&tight(tokens(&block("", "")).to_string())), "{output}");
        assert_eq!(count("marked", &output), 1, "{output}");
    }

    #[test]
    fn an_unfinished_body_does_not_keep_a_flow_from_being_one() {
        let item = "fn count(count: Option<u64>, click: &Click) -> Option<u64> { click. }";
        let output = flow("Counts, name = \"counts\"", item);
        assert!(output.starts_with(&tokens(item).to_string()), "{output}");
        assert!(output.contains("Fold < Click > for Counts"), "{output}");
        assert_eq!(count("compile_error", &output), 0, "{output}");
    }

    #[test]
    fn an_unfinished_key_is_kept_as_it_is_once() {
        let output = flow("Counts, name = \"counts\", key = |click: &Click| -> UserId { marked. }", FUNCTION);
        assert!(output.contains("-> UserId { marked . }"), "{output}");
        assert_eq!(count("marked", &output) + count("compile_error", &output), 2, "{output}");
    }

    #[test]
    fn an_item_that_does_not_parse_is_returned_as_it_came() {
        for item in ["fn count(count: ) -> Option<u64> { count }", "fn count(count: Option<u64>);", "impl { fn }", ""] {
            assert_eq!(flow("Counts, nmae = 1", item), tokens(item).to_string());
        }
    }

    #[test]
    fn after_a_mistake_the_impls_stand_with_bodies_that_are_never_reached() {
        let block = "impl Clicks { #[key] fn user(click: &Click) -> &str { &click.user } \
                     #[fold(from = CLICKS)] async fn click(count: Option<u64>, _: &Click) -> Option<u64> { count } \
                     #[timer(Self::IDLE)] fn close(count: u64) -> Option<u64> { None } }";
        let output = flow("name = \"clicks\"", block);
        for implemented in ["Flow for Clicks", "Fold < Click > for Clicks", "Placed for Clicks"] {
            assert!(output.contains(implemented), "{implemented} in {output}");
        }
        assert_eq!(count("compile_error", &output), 1, "{output}");
        assert_eq!(count("unreachable", &output), 4, "timer, key, fold, place: {output}");
    }
}
