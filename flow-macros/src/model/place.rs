//! Where a flow stands: the rules of `from`, `to` and `repartition`.

use syn::{Expr, Type};

use super::options::Worded;
use super::step::{is_never, spelled};
use super::{Fold, Place, Step};
use crate::errors::Errors;

/// What the steps of a flow say they emit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Emits {
    Nothing,
    Something,
    /// A step could not be read, so nothing is known.
    Unknown,
}

impl Emits {
    pub(super) fn of<'s>(mut steps: impl Iterator<Item = &'s Step>) -> Self {
        steps
            .try_fold(Self::Nothing, |emits, step| match step.context.as_ref().map(|cx| cx.out.as_ref()) {
                None => Ok(emits),
                Some(None) => Err(Self::Unknown),
                Some(Some(out)) if is_never(out) => Ok(emits),
                Some(Some(_)) => Ok(Self::Something),
            })
            .unwrap_or_else(|unknown| unknown)
    }
}

/// Hands the `from` of `#[flow(..)]` to the one fold there is.
pub(super) fn distribute(from: Option<Worded<Expr>>, folds: &mut [Fold], errors: &mut Errors) {
    let Some(from) = from else { return };
    match folds {
        [] => {} // reported as a flow without a fold
        [fold] => match &fold.from {
            Some(own) => errors.at(own, "`from` stands twice, here and in `#[flow(..)]`: leave one out"),
            None => fold.from = Some(from.value),
        },
        [..] => {
            errors.at(&from, "several folds read several topics: say it at each, as in `#[fold(from = CLICKS)]`");
            // The best guess, so that folds are not blamed for having no `from`.
            folds.iter_mut().for_each(|fold| fold.from = fold.from.take().or_else(|| Some(from.value.clone())));
        }
    }
}

/// Whether the flow says where it stands, after the rules.
pub(super) fn place(
    folds: &[Fold],
    to: Option<Worded<Expr>>,
    emits: Emits,
    out: Option<&Type>,
    errors: &mut Errors,
) -> Option<Place> {
    let first = folds.iter().find_map(|fold| fold.from.as_ref());
    for fold in folds.iter().filter(|fold| fold.from.is_none()) {
        if first.is_some() {
            errors.at(
                &fold.step.function,
                "this fold has no `from`, and another has one: a whole topology says it at each fold, a step at none",
            );
        }
        if let Some(repartition) = fold.key.as_ref().and_then(|key| key.repartition.as_ref()) {
            errors.at(
                repartition,
                format!(
                    "`repartition` goes with `from`; where `.flow(..)` places this flow, write \
                     `.key_by({}, ..)` before `.flow(..)`",
                    spelled(repartition)
                ),
            );
        }
    }
    match (&to, first) {
        (Some(to), _) if emits == Emits::Nothing => errors.at(
            to,
            format!(
                "nothing would go to `{}`: no step of this flow takes a `&mut Context<Out>` to emit with",
                spelled(&to.value)
            ),
        ),
        (Some(to), None) => errors.at(
            to,
            format!(
                "`to` goes with `from`; where `.flow(..)` places this flow, write `.to({})` after it",
                spelled(&to.value)
            ),
        ),
        (None, Some(from)) if emits == Emits::Something => errors.at(
            from,
            format!(
                "what this flow emits would go nowhere: say which topic takes its `{}`, as in `to = CLOSED`",
                out.map(spelled).unwrap_or_default()
            ),
        ),
        _ => {}
    }
    first.is_some().then(|| Place { to: to.map(|to| to.value) })
}
