//! Form (b): an annotated impl block.

use syn::{Attribute, ExprPath, Ident, Type};

use super::options::{self, Form, Options};
use super::place::{self, Emits};
use super::step::{self, Role, same, spelled};
use super::{Fold, Key, KeySource, Model, Step, Subject, Timer, cfgs};
use crate::errors::Errors;
use crate::parse::{self, Args, Block, Helper, HelperKind, Member};

pub(crate) fn block(args: Args, item: &Block, errors: &mut Errors) -> Model {
    let (options, doubtful) = options::flow(args, Form::Block, errors);
    let self_ty = &item.header.self_ty;
    if let Some((_, path, _)) = &item.header.trait_ {
        errors.at(
            path,
            format!("a flow is an impl block of the type itself, not of a trait: write `impl {}`", spelled(self_ty)),
        );
    }
    if options.name.is_none() && !doubtful {
        errors.at(self_ty, options::NO_NAME);
    }
    let Options { name, from, to, state_version, upgrades, codec, root, .. } = options;

    let mut parts = Parts::default();
    for member in &item.members {
        parts.member(member, errors);
    }
    if parts.folds.is_empty() && !parts.unread_fold {
        errors.at(self_ty, "a flow needs a fold: mark the function that takes the events with `#[fold]`");
    }
    parts.assign_keys(errors);
    place::distribute(from, &mut parts.folds, errors);
    let (state, out) = parts.agree(errors);
    let place = place::place(&parts.folds, to, Emits::of(parts.steps()), out.as_ref(), errors);
    let Parts { folds, timers, helpers, .. } = parts;
    Model {
        subject: Subject::Block { generics: Box::new(item.header.generics.clone()), self_ty: self_ty.clone() },
        cfgs: cfgs(&item.header.attrs),
        root,
        name,
        state,
        out,
        codec,
        state_version,
        upgrades: upgrades.map(|upgrades| upgrades.value),
        folds,
        timers,
        place,
        helpers,
    }
}

/// What the members of a block are, as far as they could be read.
#[derive(Default)]
struct Parts {
    folds: Vec<Fold>,
    keys: Vec<Key>,
    timers: Vec<Timer>,
    helpers: Vec<Ident>,
    /// There is a fold, but not one that could be kept.
    unread_fold: bool,
}

impl Parts {
    fn member(&mut self, member: &Member, errors: &mut Errors) {
        self.helpers.extend(member.helpers.iter().filter_map(|helper| helper.attr.path().get_ident().cloned()));
        let [helper, more @ ..] = member.helpers.as_slice() else { return };
        for more in more {
            errors.at(&more.attr, "one mark a function: it is a `#[key]`, a `#[fold]` or a `#[timer(..)]`");
        }
        if member.sig.is_none() {
            errors.at(&helper.attr, format!("`#[{}]` goes on a function", helper.kind.word()));
            self.unread_fold |= helper.kind == HelperKind::Fold;
            return;
        }
        match helper.kind {
            HelperKind::Key => self.key(member, helper, errors),
            HelperKind::Fold => self.fold(member, helper, errors),
            HelperKind::Timer => self.timer(member, helper, errors),
        }
    }

    fn key(&mut self, member: &Member, helper: &Helper, errors: &mut Errors) {
        let Some(sig) = &member.sig else { return };
        let repartition = options::one_word(helper, "repartition", errors).and_then(|found| {
            let (word, value) = (found.word, found.value);
            options::kafka_name(&word, value, errors)
        });
        let Some((event, output)) = step::key(sig, errors) else { return };
        if let Some(first) = self.keys.iter().find(|key| same(&key.event, &event)) {
            errors.at(
                &event,
                format!("`{}` has a key already, `{}`: an event has one key", spelled(&event), first.name()),
            );
            return;
        }
        let source = KeySource::Function { function: sig.ident.clone(), cfgs: cfgs(&member.attrs) };
        self.keys.push(Key { event, output, repartition, source });
    }

    fn fold(&mut self, member: &Member, helper: &Helper, errors: &mut Errors) {
        let Some(sig) = &member.sig else { return };
        let from = options::one_word(helper, "from", errors).and_then(|found| options::topic(found.value, errors));
        let (step, event) = step::fold(sig, &member.attrs, Role::Fold, errors);
        let Some(event) = event else {
            self.unread_fold = true;
            return;
        };
        if let Some(first) = self.folds.iter().find(|fold| same(&fold.event, &event)) {
            errors.at(
                &event,
                format!(
                    "`{}` has a fold already, `{}`: a flow folds each event type once",
                    spelled(&event),
                    first.step.function
                ),
            );
            return;
        }
        self.folds.push(Fold { step, event, key: None, from });
    }

    fn timer(&mut self, member: &Member, helper: &Helper, errors: &mut Errors) {
        let Some(sig) = &member.sig else { return };
        let step = step::timer(sig, &member.attrs, errors);
        let Some(constant) = constant(&helper.attr, errors) else { return };
        let path = spelled(&constant);
        if let Some(first) = self.timers.iter().find(|timer| spelled(&timer.constant) == path) {
            errors.at(
                &constant,
                format!("`{path}` has a handler already, `{}`: a timer calls one function", first.step.function),
            );
            return;
        }
        self.timers.push(Timer { constant, step });
    }

    /// Gives each key to the fold of its event type.
    fn assign_keys(&mut self, errors: &mut Errors) {
        let blameless = self.unread_fold || self.folds.is_empty();
        for key in std::mem::take(&mut self.keys) {
            match self.folds.iter_mut().find(|fold| same(&fold.event, &key.event)) {
                Some(fold) => fold.key = Some(key),
                None if blameless => {}
                None => {
                    let event = spelled(&key.event);
                    errors.at(
                        &key.event,
                        format!("no fold takes `&{event}`: a key belongs to the fold that takes the same event"),
                    );
                }
            }
        }
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.folds.iter().map(|fold| &fold.step).chain(self.timers.iter().map(|timer| &timer.step))
    }

    /// The state and the output of the flow: the first step decides, the others must agree.
    fn agree(&self, errors: &mut Errors) -> (Option<Type>, Option<Type>) {
        let mut state: Option<(&Ident, &Type)> = None;
        let mut out: Option<(&Ident, &Type)> = None;
        let folds = self.folds.len();
        for (index, step) in self.steps().enumerate() {
            if let Some(own) = &step.state {
                match state {
                    None => state = Some((&step.function, timer_state(own, index >= folds))),
                    Some((first, state)) if !same(state, own) => {
                        errors.at(own, state_differs(first, state, own, index >= folds));
                    }
                    Some(_) => {}
                }
            }
            if let Some(own) = step.context.as_ref().and_then(|cx| cx.out.as_ref()) {
                match out {
                    None => out = Some((&step.function, own)),
                    Some((first, out)) if !same(out, own) => errors.at(
                        own,
                        format!(
                            "all steps of a flow emit one type, spelled alike: `{first}` emits `{}`, not `{}`",
                            spelled(out),
                            spelled(own)
                        ),
                    ),
                    Some(_) => {}
                }
            }
        }
        (state.map(|(_, state)| state.clone()), out.map(|(_, out)| out.clone()))
    }
}

/// Without a readable fold a timer has the best guess at the state.
fn timer_state(spelled: &Type, timer: bool) -> &Type {
    step::option_of(spelled).filter(|_| timer).unwrap_or(spelled)
}

fn state_differs(first: &Ident, state: &Type, own: &Type, timer: bool) -> String {
    let (state_text, own_text) = (spelled(state), spelled(own));
    if timer && step::option_of(own).is_some_and(|own| same(own, state)) {
        format!("a timer takes `{state_text}`, not `{own_text}`: it only fires while there is a state")
    } else if timer && step::reference(own).is_some_and(|own| same(&own.elem, state)) {
        format!("a timer takes the state by value and returns the next: write `{state_text}`")
    } else {
        format!(
            "all steps of a flow share one state, spelled alike: that of `{first}` is `{state_text}`, not `{own_text}`"
        )
    }
}

fn constant(attr: &Attribute, errors: &mut Errors) -> Option<ExprPath> {
    let tokens = parse::helper_args(attr);
    match syn::parse2::<ExprPath>(tokens.clone()) {
        Ok(path) => Some(path),
        Err(_) if tokens.is_empty() => {
            errors.at(attr, "a timer names its constant, as in `#[timer(Self::IDLE)]`");
            None
        }
        Err(_) => {
            errors.at(
                tokens,
                "a timer is named by a constant, as in `const IDLE: Timer = Timer::event_time(\"idle\");` \
                 and `#[timer(Self::IDLE)]`",
            );
            None
        }
    }
}
