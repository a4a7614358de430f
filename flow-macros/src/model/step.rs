//! One function of the user's: its parameters, read from their spelling.

use quote::ToTokens;
use syn::{FnArg, GenericArgument, PatType, PathArguments, Receiver, ReturnType, Signature, Type, TypeReference};

use super::{Context, Step, cfgs};
use crate::errors::Errors;

/// What a signature belongs to, for the texts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A function annotated on its own.
    Function,
    Fold,
    Timer,
    Key,
}

/// A fold as it is spelled: the step, and the event type behind its `&`.
pub(super) fn fold(sig: &Signature, attrs: &[syn::Attribute], role: Role, errors: &mut Errors) -> (Step, Option<Type>) {
    let (mut step, params) = step(sig, attrs, role, errors);
    let [state, rest @ ..] = params.as_slice() else {
        parameters(sig, FOLD, errors);
        return (step, None);
    };
    let ([event] | [event, _]) = rest else {
        parameters(sig, FOLD, errors);
        return (step, None);
    };
    if option_of(&state.ty).is_none() && reference(&state.ty).is_some() && option_of(&event.ty).is_some() {
        errors.at(&sig.inputs, "the state comes first, then the event: `(state: Option<State>, event: &Event)`");
        return (step, reference(&state.ty).map(|event| (*event.elem).clone()));
    }
    step.state = Some(fold_state(&state.ty, errors));
    step.context = rest.get(1).map(|cx| context(&cx.ty, errors));
    if !sig.generics.params.is_empty() || impl_trait(&event.ty).is_some() {
        return (step, None); // there is no such type outside of the function
    }
    (step, Some(self::event(&event.ty, "events come by reference", errors)))
}

/// A timer's handler.
pub(super) fn timer(sig: &Signature, attrs: &[syn::Attribute], errors: &mut Errors) -> Step {
    let (mut step, params) = step(sig, attrs, Role::Timer, errors);
    match params.as_slice() {
        [state] => step.state = Some(state.ty.as_ref().clone()),
        [state, cx] if spelled(&cx.ty).contains("Context") => {
            step.state = Some(state.ty.as_ref().clone());
            step.context = Some(context(&cx.ty, errors));
        }
        _ => parameters(sig, TIMER, errors),
    }
    step
}

/// A key: the event type behind its `&`, and the type of the key.
pub(super) fn key(sig: &Signature, errors: &mut Errors) -> Option<(Type, Type)> {
    qualifiers(sig, Role::Key, errors);
    if let Some(receiver) = sig.receiver() {
        errors.at(receiver, "a key takes the event alone: settings must not decide where a record belongs");
    }
    let output = match &sig.output {
        ReturnType::Type(_, output) => Some(output.as_ref().clone()),
        ReturnType::Default => {
            errors.at(&sig.ident, "a key function returns the key, as in `-> UserId`");
            None
        }
    };
    match typed(sig).as_slice() {
        [event] => Some((self::event(&event.ty, "a key reads the event by reference", errors), output?)),
        _ => {
            parameters(sig, KEY, errors);
            None
        }
    }
}

const FOLD: &str = "a fold takes the state and the event, and the context if it emits or sets timers: \
                    `(state: Option<State>, event: &Event, cx: &mut Context<Out>)`";
const TIMER: &str = "a timer takes the state, and the context if it emits or sets timers: \
                     `(state: State, cx: &mut Context<Out>)`";
const KEY: &str = "a key takes the event alone: `(event: &Event) -> Key`";

fn parameters(sig: &Signature, text: &str, errors: &mut Errors) {
    if typed(sig).is_empty() {
        errors.at(&sig.ident, text);
    } else {
        errors.at(&sig.inputs, text);
    }
}

fn step<'a>(sig: &'a Signature, attrs: &[syn::Attribute], role: Role, errors: &mut Errors) -> (Step, Vec<&'a PatType>) {
    qualifiers(sig, role, errors);
    if let Some(found) = sig.receiver() {
        receiver(found, role, errors);
    }
    let step = Step {
        function: sig.ident.clone(),
        receiver: sig.receiver().map(|receiver| receiver.self_token),
        state: None,
        context: None,
        output: match &sig.output {
            ReturnType::Type(_, output) => Some(output.as_ref().clone()),
            ReturnType::Default => None,
        },
        cfgs: cfgs(attrs),
    };
    (step, typed(sig))
}

fn typed(sig: &Signature) -> Vec<&PatType> {
    sig.inputs
        .iter()
        .filter_map(|arg| match arg {
            FnArg::Typed(typed) => Some(typed),
            FnArg::Receiver(_) => None,
        })
        .collect()
}

fn qualifiers(sig: &Signature, role: Role, errors: &mut Errors) {
    let what = if role == Role::Key { "a key" } else { "a step" };
    if let Some(asyncness) = &sig.asyncness {
        errors.at(
            asyncness,
            format!("{what} is a plain `fn`: it is replayed after a crash, so it must not wait on the outside world"),
        );
    }
    if let Some(unsafety) = &sig.unsafety {
        errors.at(unsafety, format!("{what} is a plain `fn`: the engine calls it, and can keep no promise for it"));
    }
    let generics = &sig.generics;
    if !generics.params.is_empty() {
        errors.at(generics, no_generics(role));
    } else if let Some(where_clause) = &generics.where_clause {
        errors.at(where_clause, no_generics(role));
    }
    for argument in typed(sig) {
        if let Some(hidden) = impl_trait(&argument.ty) {
            errors.at(hidden, no_generics(role));
        }
    }
}

fn no_generics(role: Role) -> &'static str {
    match role {
        Role::Function => {
            "an annotated function has no generics: its flow is one plain type with one state; \
                           annotate an impl block of a generic type instead"
        }
        Role::Key => "a key has no generics of its own: put them on the impl block",
        Role::Fold | Role::Timer => {
            "a step has no generics of its own: a flow has one state, and one event type a fold; \
                                     put them on the impl block"
        }
    }
}

fn impl_trait(ty: &Type) -> Option<&Type> {
    match peel(ty) {
        Type::Reference(reference) => impl_trait(&reference.elem),
        ty @ Type::ImplTrait(_) => Some(ty),
        _ => None,
    }
}

fn receiver(receiver: &Receiver, role: Role, errors: &mut Errors) {
    let by_reference = matches!(&*receiver.ty, Type::Reference(TypeReference { mutability: None, elem, .. })
        if matches!(&**elem, Type::Path(path) if path.path.is_ident("Self")));
    if role == Role::Function {
        errors.at(receiver, "an annotated function takes no `self`: annotate the impl block with `#[flow(name = \"..\")]`, and this function with `#[fold]`");
    } else if !by_reference {
        errors.at(receiver, "a step takes `&self`: what changes belongs in the state, where snapshots can see it");
    }
}

fn fold_state(ty: &Type, errors: &mut Errors) -> Type {
    option_of(ty).cloned().unwrap_or_else(|| {
        errors.at(ty, "the state of a fold is spelled `Option<State>`: `None` is a key seen for the first time");
        ty.clone()
    })
}

/// The event type behind `&`. A closure's parameter is read by the same rule.
pub(super) fn event(ty: &Type, rule: &str, errors: &mut Errors) -> Type {
    let ty = peel(ty);
    match ty {
        Type::Reference(TypeReference { mutability: None, elem, .. }) => (**elem).clone(),
        Type::Reference(TypeReference { mutability: Some(_), elem, .. }) => {
            errors.at(ty, format!("{rule}, and are only read: write `&{}`", spelled(elem)));
            (**elem).clone()
        }
        _ => {
            errors.at(ty, format!("{rule}: write `&{}`", spelled(ty)));
            ty.clone()
        }
    }
}

fn context(ty: &Type, errors: &mut Errors) -> Context {
    let out = match reference(ty) {
        Some(TypeReference { mutability: Some(_), elem, .. }) => argument_of(elem, "Context"),
        _ => None,
    };
    if out.is_none() {
        errors.at(
            ty,
            "the context is spelled `&mut Context<Out>`, where `Out` is what the flow emits (`Never`: it only sets timers)",
        );
    }
    Context { spelled: ty.clone(), out: out.cloned() }
}

/// `S` of `Option<S>`.
pub(super) fn option_of(ty: &Type) -> Option<&Type> {
    argument_of(ty, "Option")
}

fn argument_of<'t>(ty: &'t Type, name: &str) -> Option<&'t Type> {
    let Type::Path(path) = peel(ty) else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(ty) if last.ident == name && arguments.args.len() == 1 => Some(ty),
        _ => None,
    }
}

pub(super) fn reference(ty: &Type) -> Option<&TypeReference> {
    match peel(ty) {
        Type::Reference(reference) => Some(reference),
        _ => None,
    }
}

/// A type that came through a `macro_rules!` macro is wrapped in an invisible group.
fn peel(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => peel(&group.elem),
        Type::Paren(paren) => peel(&paren.elem),
        ty => ty,
    }
}

/// Whether two types are spelled alike; aliases are not seen through.
pub(super) fn same(a: &Type, b: &Type) -> bool {
    peel(a).to_token_stream().to_string() == peel(b).to_token_stream().to_string()
}

/// A type as a person would write it.
pub(super) fn spelled(tokens: &impl ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    let tight =
        [(" < ", "<"), (" <", "<"), ("< ", "<"), (" >", ">"), (" :: ", "::"), (":: ", "::"), ("& ", "&"), (" ,", ",")];
    tight.iter().fold(text, |text, (from, to)| text.replace(from, to))
}

/// Whether the type is spelled `Never`, under whatever path.
pub(super) fn is_never(ty: &Type) -> bool {
    matches!(peel(ty), Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Never"))
}
