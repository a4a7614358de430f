//! What the words mean, checked against the rules; no tokens are made here.
//!
//! A mistake is reported and the best guess taken, so that all mistakes of an item show at once and the impl that
//! `expand` writes still stands.

mod block;
mod function;
mod options;
mod place;
mod step;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, Expr, ExprArray, Generics, Ident, LitInt, LitStr, Path, Type, Visibility};

use crate::parse::Closure;

pub(crate) use block::block;
pub(crate) use function::function;

/// One flow, of either form.
pub(crate) struct Model {
    pub(crate) subject: Subject,
    /// `#[cfg(..)]` of the item: what is generated comes and goes with it.
    pub(crate) cfgs: Vec<Attribute>,
    /// How generated code names flow-core, if not `::flow_core`.
    pub(crate) root: Option<Path>,
    pub(crate) name: Option<LitStr>,
    pub(crate) state: Option<Type>,
    /// None: no step takes a context, so the flow emits nothing.
    pub(crate) out: Option<Type>,
    pub(crate) codec: Option<Path>,
    pub(crate) state_version: Option<LitInt>,
    pub(crate) upgrades: Option<Upgrades>,
    pub(crate) folds: Vec<Fold>,
    pub(crate) timers: Vec<Timer>,
    pub(crate) place: Option<Place>,
    /// The helper attributes' own words, for an editor to resolve.
    pub(crate) helpers: Vec<Ident>,
}

/// What the flow is implemented for.
pub(crate) enum Subject {
    /// A function: the macro declares the unit struct that the user named.
    Function { flow: Ident, vis: Visibility, docs: Vec<Attribute>, function: Ident },
    /// An impl block: its type.
    Block { generics: Box<Generics>, self_ty: Box<Type> },
}

/// How states of earlier versions become states of this one.
pub(crate) enum Upgrades {
    /// The functions, the oldest first; they end at the state's version.
    List(ExprArray),
    /// A value of flow-core's type of that name.
    Value(Box<Expr>),
}

impl ToTokens for Upgrades {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::List(list) => list.to_tokens(tokens),
            Self::Value(value) => value.to_tokens(tokens),
        }
    }
}

/// A function that the engine calls, and where its parts stand in the user's code.
pub(crate) struct Step {
    pub(crate) function: Ident,
    /// The receiver, if it has one.
    pub(crate) receiver: Option<syn::Token![self]>,
    /// The type of the state as it is spelled in the parameter.
    pub(crate) state: Option<Type>,
    pub(crate) context: Option<Context>,
    pub(crate) output: Option<Type>,
    pub(crate) cfgs: Vec<Attribute>,
}

/// `cx: &mut Context<Out>`.
pub(crate) struct Context {
    pub(crate) spelled: Type,
    pub(crate) out: Option<Type>,
}

/// One event type and what is done with it.
pub(crate) struct Fold {
    pub(crate) step: Step,
    /// `Click` of `click: &Click`.
    pub(crate) event: Type,
    pub(crate) key: Option<Key>,
    pub(crate) from: Option<Expr>,
}

/// The key that an event names itself.
pub(crate) struct Key {
    pub(crate) event: Type,
    pub(crate) output: Type,
    pub(crate) repartition: Option<LitStr>,
    pub(crate) source: KeySource,
}

pub(crate) enum KeySource {
    Closure(Box<Closure>),
    Function { function: Ident, cfgs: Vec<Attribute> },
}

/// One timer and its handler.
pub(crate) struct Timer {
    pub(crate) constant: syn::ExprPath,
    pub(crate) step: Step,
}

/// Where the flow stands, if it says so: each fold then has its `from`.
pub(crate) struct Place {
    pub(crate) to: Option<Expr>,
}

impl Key {
    /// What its source is called, for the texts.
    pub(crate) fn name(&self) -> String {
        match &self.source {
            KeySource::Closure(_) => "the closure of `#[flow(..)]`".to_owned(),
            KeySource::Function { function, .. } => function.to_string(),
        }
    }
}

fn cfgs(attrs: &[Attribute]) -> Vec<Attribute> {
    attrs.iter().filter(|attr| attr.path().is_ident("cfg")).cloned().collect()
}
