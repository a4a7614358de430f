//! Form (a): one annotated function.

use syn::Ident;

use super::options::{self, Form, Options};
use super::place::{self, Emits};
use super::step::{self, Role};
use super::{Fold, Key, KeySource, Model, Subject, cfgs};
use crate::errors::Errors;
use crate::parse::{Args, Closure, Function};

/// None: nobody knows what the flow is called, so there is nothing to implement it for.
pub(crate) fn function(args: Args, item: Function, errors: &mut Errors) -> Option<Model> {
    let (options, doubtful) = options::flow(args, Form::Function, errors);
    let function = item.sig.ident.clone();
    if !doubtful {
        missing(&options, &function, errors);
    }
    let Options { flow, name, key, from, to, repartition, state_version, upgrades, codec, root } = options;

    let (step, event) = step::fold(&item.sig, &[], Role::Function, errors);
    let step_in_a_block = step.receiver.is_some();
    let state = step.state.clone();
    let out = step.context.as_ref().and_then(|cx| cx.out.clone());
    let emits = Emits::of([&step].into_iter());
    let mut key = key.map(|closure| self::key(closure, errors));
    match (&mut key, repartition) {
        (Some(key), repartition) => key.repartition = repartition.map(|repartition| repartition.value),
        (None, Some(repartition)) => errors.at(repartition, "`repartition` goes with the `key` to repartition by"),
        (None, None) => {}
    }
    // Without an event the signature is wrong already; there is no fold to implement then.
    let folds: Vec<Fold> =
        event.map(|event| Fold { step, event, key, from: from.map(|from| from.value) }).into_iter().collect();
    let place = match folds.is_empty() {
        true => None,
        false => place::place(&folds, to, emits, out.as_ref(), errors),
    };
    if step_in_a_block {
        return None; // where this function stands, no struct may be declared
    }
    let docs = item.attrs.iter().filter(|attr| attr.path().is_ident("doc")).cloned().collect();
    Some(Model {
        subject: Subject::Function { flow: flow?, vis: item.vis, docs, function },
        cfgs: cfgs(&item.attrs),
        root,
        name,
        state,
        out,
        codec,
        state_version,
        upgrades: upgrades.map(|upgrades| upgrades.value),
        folds,
        timers: Vec::new(),
        place,
        helpers: Vec::new(),
    })
}

fn missing(options: &Options, function: &Ident, errors: &mut Errors) {
    if options.flow.is_none() {
        errors.at(
            function,
            "the flow needs a name in Rust, first in the attribute, as in `#[flow(ClicksPerUser, ..)]`: \
             it is the type that `.flow(ClicksPerUser)` places",
        );
    }
    if options.name.is_none() {
        errors.at(function, options::NO_NAME);
    }
}

fn key(closure: Closure, errors: &mut Errors) -> Key {
    let event = step::event(&closure.event, "a key reads the event by reference", errors);
    Key { event, output: closure.output.clone(), repartition: None, source: KeySource::Closure(Box::new(closure)) }
}
