//! What an impl block is generic over is passed on: types, constants, lifetimes of events, bounds and where-clauses.

use std::borrow::Cow;
use std::marker::PhantomData;

use flow_core::{Context, Flow, Fold, Timer, flow};
use serde::{Serialize, de::DeserializeOwned};

trait Scores<E>: Send + Sync + 'static {
    type Score: Clone + Send + Serialize + DeserializeOwned + 'static;
    fn score(&self, event: &E) -> Self::Score;
}

struct Scorer<E, S, const LIMIT: usize>
where
    S: Scores<E>,
{
    scores: S,
    events: PhantomData<fn(E)>,
}

#[flow(name = "scores")]
impl<E: 'static, S: Scores<E>, const LIMIT: usize> Scorer<E, S, LIMIT>
where
    E: ToString,
{
    const EXPIRE: Timer = Timer::wall_clock("expire");

    #[key]
    fn user(event: &E) -> String {
        event.to_string()
    }

    #[fold]
    fn event(&self, best: Option<Vec<S::Score>>, event: &E, cx: &mut Context<S::Score>) -> Option<Vec<S::Score>> {
        let mut best = best.unwrap_or_default();
        cx.emit(self.scores.score(event));
        best.push(self.scores.score(event));
        best.truncate(LIMIT);
        Some(best)
    }

    #[timer(Self::EXPIRE)]
    fn expire(_best: Vec<S::Score>) -> Option<Vec<S::Score>> {
        None
    }
}

struct Length;

impl Scores<u64> for Length {
    type Score = usize;
    fn score(&self, event: &u64) -> usize {
        event.to_string().len()
    }
}

struct Words;

#[flow(name = "words")]
impl Words {
    #[fold]
    fn borrowed(count: Option<u64>, word: &Cow<'static, str>) -> Option<u64> {
        Some(count.unwrap_or(0) + word.len() as u64)
    }

    #[fold]
    fn text(count: Option<u64>, word: &str) -> Option<u64> {
        Some(count.unwrap_or(0) + word.len() as u64)
    }

    #[fold]
    fn bytes(count: Option<u64>, word: &[u8]) -> Option<u64> {
        Some(count.unwrap_or(0) + word.len() as u64)
    }
}

fn is_a_flow<E: ?Sized>(_: &(impl Flow + Fold<E>)) {}

fn main() {
    is_a_flow::<u64>(&Scorer::<u64, Length, 3> { scores: Length, events: PhantomData });
    is_a_flow::<str>(&Words);
    is_a_flow::<[u8]>(&Words);
    is_a_flow::<Cow<'static, str>>(&Words);
}
