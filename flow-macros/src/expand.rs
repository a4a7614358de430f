//! The tokens. Nothing is checked here: a part of the model that is missing was reported, and a stand-in takes its place.
//!
//! Spans decide under which word of the user's rustc reports what only it can see (a state that is no `Clone`, a topic of
//! another type). An argument of a generated call lies at the parameter that it fills, the call at the function's signature.
//! Generated locals resolve at the macro (`mixed_site`), so the user's code cannot see them.

mod place;
mod upgrades;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Attribute, Type};

use crate::model::{Fold, Key, KeySource, Model, Step, Subject, Timer};

/// All that stands beside the user's item. An unsound model gets the same impls with bodies that are never reached, so that
/// uses of the flow elsewhere do not complain as well.
pub(crate) fn model(model: &Model, sound: bool) -> TokenStream {
    let expansion = Expansion { model, sound, root: root(model) };
    let declaration = expansion.declaration();
    let flow = expansion.flow();
    let folds = model.folds.iter().map(|fold| expansion.fold(fold));
    let place = expansion.place();
    let helpers = expansion.helpers();
    let cfgs = &model.cfgs;
    quote! {
        #declaration
        #(#cfgs)*
        const _: () = {
            #helpers
            #flow
            #(#folds)*
            #place
        };
    }
}

struct Expansion<'m> {
    model: &'m Model,
    sound: bool,
    /// The hidden module of flow-core that holds all that generated code names.
    root: TokenStream,
}

fn root(model: &Model) -> TokenStream {
    match &model.root {
        Some(path) => quote!(#path::__macro),
        None => quote!(::flow_core::__macro),
    }
}

/// A local of generated code, placed at the user's token and invisible to the user's code.
fn local(name: &str, span: Span) -> Ident {
    Ident::new(name, span.resolved_at(Span::mixed_site()))
}

/// The receiver of a generated method, placed at the user's token.
fn this(span: Span) -> Ident {
    Ident::new("self", span.resolved_at(Span::call_site()))
}

fn ends(tokens: &impl ToTokens) -> (Span, Span) {
    let mut spans = tokens.to_token_stream().into_iter().map(|token| token.span());
    let first = spans.next().unwrap_or_else(Span::call_site);
    (first, spans.last().unwrap_or(first))
}

/// The same tokens, as if the user had written them at `span`.
fn respan(tokens: TokenStream, span: Span) -> TokenStream {
    let respan = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    tokens.into_iter().map(respan).collect()
}

impl Expansion<'_> {
    /// Tokens that name flow-core, placed at the user's token. A path that the user gave keeps its own place: `$crate` is
    /// resolved by it.
    fn at(&self, tokens: TokenStream, span: Span) -> TokenStream {
        if self.model.root.is_some() { tokens } else { respan(tokens, span) }
    }

    /// The unit struct of an annotated function.
    fn declaration(&self) -> TokenStream {
        let Subject::Function { flow, vis, docs, function } = &self.model.subject else { return TokenStream::new() };
        let cfgs = &self.model.cfgs;
        let text = format!("The flow whose fold is [`{function}`].");
        let text = if docs.is_empty() { quote!(#[doc = #text]) } else { quote!(#(#docs)* #[doc = ""] #[doc = #text]) };
        quote! {
            #(#cfgs)*
            #text
            #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
            #vis struct #flow;
        }
    }

    /// `impl trait_ for` the subject `{ body }`.
    fn implement(&self, cfgs: &[Attribute], trait_: &TokenStream, body: &TokenStream) -> TokenStream {
        let (generics, self_ty, where_clause) = match &self.model.subject {
            Subject::Function { flow, .. } => (None, flow.to_token_stream(), None),
            Subject::Block { generics, self_ty } => {
                let (impl_generics, _, where_clause) = generics.split_for_impl();
                (Some(impl_generics), self_ty.to_token_stream(), where_clause)
            }
        };
        quote! {
            #(#cfgs)*
            #[automatically_derived]
            impl #generics #trait_ for #self_ty #where_clause { #body }
        }
    }

    fn flow(&self) -> TokenStream {
        let root = &self.root;
        let name = self.model.name.as_ref().map_or_else(|| quote!(""), ToTokens::to_token_stream);
        let state = self.model.state.as_ref().map_or_else(|| quote!(()), ToTokens::to_token_stream);
        let out = self.model.out.as_ref().map_or_else(|| quote!(#root::Never), ToTokens::to_token_stream);
        // A state that the codec cannot write is reported under the state.
        let default_codec = self.at(quote!(#root::Json), ends(&state).0);
        let codec = self.model.codec.as_ref().map_or(default_codec, ToTokens::to_token_stream);
        // A state or an output that is private is reported there, too.
        let declare = |keyword: TokenStream, ty: &TokenStream| {
            let (start, end) = ends(ty);
            let (keyword, semicolon) = (respan(keyword, start), respan(quote!(;), end));
            quote!(#keyword #ty #semicolon)
        };
        let (state, out) = (declare(quote!(type State =), &state), declare(quote!(type Out =), &out));
        let version = self.model.state_version.as_ref().map(|version| quote!(const STATE_VERSION: u32 = #version;));
        let upgrades = self.upgrades();
        let timers = self.timers();
        let body = quote! {
            const NAME: &'static ::core::primitive::str = #name;
            #version
            #state
            type Codec = #codec;
            #out
            #upgrades
            #timers
        };
        self.implement(&[], &quote!(#root::Flow), &body)
    }

    fn timers(&self) -> Option<TokenStream> {
        let timers = &self.model.timers;
        if timers.is_empty() {
            return None;
        }
        let root = &self.root;
        let constants = timers.iter().map(|Timer { constant, step }| {
            let cfgs = &step.cfgs;
            quote!(#(#cfgs)* #constant)
        });
        let [timer, state, cx] = ["timer", "state", "cx"].map(|name| local(name, Span::call_site()));
        let body = match self.sound {
            true => {
                let arms = timers.iter().map(|one| self.timer(one, &timer, &state, &cx));
                quote! {
                    #(#arms)*
                    ::core::result::Result::Err(#root::no_such_timer(<Self as #root::Flow>::NAME, #timer))
                }
            }
            false => quote!(::core::unreachable!()),
        };
        Some(quote! {
            const TIMERS: &'static [#root::Timer] = &[#(#constants),*];
            #[allow(unused_variables)]
            fn timer(
                &self,
                #timer: #root::Timer,
                #state: &mut ::core::option::Option<<Self as #root::Flow>::State>,
                #cx: &mut #root::Context<<Self as #root::Flow>::Out>,
            ) -> ::core::result::Result<(), #root::StepError> {
                #body
            }
        })
    }

    fn timer(&self, Timer { constant, step }: &Timer, timer: &Ident, state: &Ident, cx: &Ident) -> TokenStream {
        let root = &self.root;
        let cfgs = &step.cfgs;
        let at = step.state.as_ref().map_or_else(Span::call_site, |state| ends(state).1);
        let taken = local("taken", at);
        let call = self.call(step, &[taken.to_token_stream()], state, cx);
        quote! {
            #(#cfgs)*
            if #timer == #constant {
                let #taken = #root::take_state(#state, #timer)?;
                #call
            }
        }
    }

    fn fold(&self, fold: &Fold) -> TokenStream {
        let root = &self.root;
        let event_ty = &fold.event;
        let [event, out] = ["event", "out"].map(|name| local(name, Span::call_site()));
        let [state, cx] = ["state", "cx"].map(|name| local(name, Span::call_site()));
        let body = match self.sound {
            true => {
                let state_at = fold.step.state.as_ref().map_or_else(Span::call_site, |state| ends(state).0);
                let argument = local("event", ends(event_ty).1);
                let taken = quote_spanned!(state_at.resolved_at(Span::mixed_site())=> #state.take());
                self.call(&fold.step, &[taken, argument.to_token_stream()], &state, &cx)
            }
            false => quote!(::core::unreachable!()),
        };
        let key_fn = fold.key.as_ref().and_then(|key| self.key_fn(key));
        let key = fold.key.as_ref().map(|key| self.key(key, event_ty, &event, &out));
        let implementation = self.implement(
            &fold.step.cfgs,
            &quote!(#root::Fold<#event_ty>),
            &quote! {
                #key
                #[allow(unused_variables)]
                #[inline]
                fn fold(
                    &self,
                    #state: &mut ::core::option::Option<<Self as #root::Flow>::State>,
                    #event: &#event_ty,
                    #cx: &mut #root::Context<<Self as #root::Flow>::Out>,
                ) -> ::core::result::Result<(), #root::StepError> {
                    #body
                }
            },
        );
        quote!(#key_fn #implementation)
    }

    /// Calls a step and keeps what it returns as the next state.
    fn call(&self, step: &Step, inputs: &[TokenStream], state: &Ident, cx: &Ident) -> TokenStream {
        let root = &self.root;
        let function = &step.function;
        let (start, end) = match &step.output {
            Some(output) => ends(output),
            None => (function.span(), function.span()),
        };
        let this = step.receiver.map(|receiver| {
            let this = this(receiver.span);
            quote!(#this,)
        });
        let cx = step.context.as_ref().map(|context| local(&cx.to_string(), ends(&context.spelled).1));
        let path = match &self.model.subject {
            Subject::Function { .. } => quote!(#function),
            Subject::Block { .. } => quote_spanned!(start=> Self::#function),
        };
        let arguments = quote!(#this #(#inputs,)* #cx);
        let arguments = quote_spanned!(end=> (#arguments));
        let into_next = self.at(quote!(#root::IntoNext::<<Self as #root::Flow>::State>::into_next), start);
        quote! {
            *#state = #into_next(#path #arguments)?;
            return ::core::result::Result::Ok(());
        }
    }

    /// The closure of a function's key, as a function: its body stands once, and `return` and `&str` work in it.
    fn key_fn(&self, key: &Key) -> Option<TokenStream> {
        let KeySource::Closure(closure) = &key.source else { return None };
        let (name, pattern, event, output, body) =
            (key_fn_name(key), &closure.pattern, &closure.event, &closure.output, &closure.body);
        let unused = (!self.sound).then(|| quote!(#[allow(dead_code)]));
        Some(quote! {
            #unused
            fn #name(#pattern: #event) -> #output #body
        })
    }

    /// The path that calls a key.
    fn key_path(&self, key: &Key) -> TokenStream {
        match &key.source {
            KeySource::Closure(_) => key_fn_name(key).to_token_stream(),
            KeySource::Function { function, .. } => {
                let start = ends(&key.output).0;
                quote_spanned!(start=> Self::#function)
            }
        }
    }

    fn key(&self, key: &Key, event_ty: &Type, event: &Ident, out: &Ident) -> TokenStream {
        let root = &self.root;
        let cfgs = match &key.source {
            KeySource::Function { cfgs, .. } => cfgs.as_slice(),
            KeySource::Closure(_) => &[],
        };
        let body = match self.sound {
            true => {
                let (start, end) = ends(&key.output);
                let path = self.key_path(key);
                let argument = local("event", ends(&key.event).1);
                let call = quote_spanned!(end=> (#argument));
                let borrow = (!is_reference(&key.output)).then(|| quote_spanned!(start=> &));
                let write = self.at(quote!(#root::write_key), start);
                quote!(#write(#borrow #path #call, #out))
            }
            false => quote!(::core::unreachable!()),
        };
        quote! {
            #(#cfgs)*
            #[allow(unused_variables)]
            #[inline]
            fn key(
                &self,
                #event: &#event_ty,
                #out: &mut #root::Vec<::core::primitive::u8>,
            ) -> ::core::result::Result<::core::primitive::bool, #root::StepError> {
                #body
            }
        }
    }

    /// Names each helper attribute where it can be resolved, so that an editor shows its docs.
    fn helpers(&self) -> TokenStream {
        let root = &self.root;
        let uses = self.model.helpers.iter().map(|word| {
            quote! {
                #[allow(unused_imports)]
                use #root::#word as _;
            }
        });
        quote!(#(#uses)*)
    }
}

fn key_fn_name(key: &Key) -> Ident {
    Ident::new("__flow_key", ends(&key.output).0)
}

fn is_reference(ty: &Type) -> bool {
    matches!(ty, Type::Reference(_))
}
