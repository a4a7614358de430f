//! What `#[flow]` generates beside the same flow written by hand: both must answer alike, whatever they are asked.

use std::fmt::Debug;
use std::time::Duration;

use flow_core::testing::ContextExt;
use flow_core::{
    BigEndian, Codec, CodecError, Context, Flow, Fold, Json, Key, Never, StepError, Timer, Timestamp, Utf8, flow,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Click {
    user: String,
    at: Timestamp,
}

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    user: String,
    amount: String,
}

fn click(user: &str, at: i64) -> Click {
    Click { user: user.to_owned(), at: Timestamp::from_millis(at) }
}

fn order(user: &str, amount: &str) -> Order {
    Order { user: user.to_owned(), amount: amount.to_owned() }
}

/// All that a step can answer.
struct Answer<F: Flow> {
    next: Result<Option<F::State>, String>,
    emitted: Vec<F::Out>,
    timers: Vec<(Timer, Option<Timestamp>)>,
}

impl<F: Flow<Out: Clone>> Answer<F> {
    fn of(
        state: Option<F::State>,
        step: impl FnOnce(&mut Option<F::State>, &mut Context<F::Out>) -> Result<(), StepError>,
    ) -> Self {
        let mut cx = Context::at(Timestamp::from_millis(1_000));
        let mut state = state;
        let next = step(&mut state, &mut cx).map(|()| state).map_err(|error| error.to_string());
        Answer { next, emitted: cx.emitted().to_vec(), timers: cx.timers().to_vec() }
    }
}

/// Asserts that two flows answer alike about an event: its key, and its fold.
#[track_caller]
fn assert_same_fold<A, B, E>(annotated: &A, by_hand: &B, state: &Option<A::State>, event: &E)
where
    A: Fold<E, State: PartialEq + Debug, Out: Clone + PartialEq + Debug>,
    B: Fold<E, State = A::State, Out = A::Out>,
{
    let (mut key, mut key_by_hand) = (Vec::new(), Vec::new());
    let named = annotated.key(event, &mut key).map_err(|error| error.to_string());
    assert_eq!(named, by_hand.key(event, &mut key_by_hand).map_err(|error| error.to_string()));
    assert_eq!(key, key_by_hand);
    let answer = Answer::<A>::of(state.clone(), |state, cx| annotated.fold(state, event, cx));
    let answer_by_hand = Answer::<B>::of(state.clone(), |state, cx| by_hand.fold(state, event, cx));
    assert_eq!(answer.next, answer_by_hand.next);
    assert_eq!((answer.emitted, answer.timers), (answer_by_hand.emitted, answer_by_hand.timers));
}

/// Asserts that two flows answer alike about a timer.
#[track_caller]
fn assert_same_timer<A, B>(annotated: &A, by_hand: &B, state: &Option<A::State>, timer: Timer)
where
    A: Flow<State: PartialEq + Debug, Out: Clone + PartialEq + Debug>,
    B: Flow<State = A::State, Out = A::Out>,
{
    let answer = Answer::<A>::of(state.clone(), |state, cx| annotated.timer(timer, state, cx));
    let answer_by_hand = Answer::<B>::of(state.clone(), |state, cx| by_hand.timer(timer, state, cx));
    assert_eq!(answer.next, answer_by_hand.next);
    assert_eq!((answer.emitted, answer.timers), (answer_by_hand.emitted, answer_by_hand.timers));
}

/// The constants of a flow.
fn constants<F: Flow>() -> (&'static str, u32, String, &'static [Timer], u8) {
    (F::NAME, F::STATE_VERSION, format!("{:?}", F::upgrades()), F::TIMERS, <F::Codec as Codec<F::State>>::ID)
}

// ------------------------------------------------------------------------------------------ an annotated function

/// Counts clicks per user.
#[flow(ClicksPerUser, name = "clicks-per-user", key = |click: &Click| -> String { click.user.clone() })]
fn count_click(count: Option<u64>, _click: &Click) -> Option<u64> {
    Some(count.unwrap_or(0) + 1)
}

#[derive(Clone, Copy, Debug)]
struct ClicksPerUserByHand;

impl Flow for ClicksPerUserByHand {
    const NAME: &'static str = "clicks-per-user";
    type State = u64;
    type Codec = Json;
    type Out = Never;
}

impl Fold<Click> for ClicksPerUserByHand {
    fn key(&self, click: &Click, out: &mut Vec<u8>) -> Result<bool, StepError> {
        <<String as Key>::Codec as Codec<String>>::encode(&click.user, out)?;
        Ok(true)
    }

    fn fold(&self, state: &mut Option<u64>, click: &Click, _cx: &mut Context<Never>) -> Result<(), StepError> {
        *state = count_click(state.take(), click);
        Ok(())
    }
}

#[test]
fn an_annotated_function_is_still_a_function() {
    assert_eq!(count_click(None, &click("ann", 1)), Some(1));
    assert_eq!(count_click(Some(1), &click("ann", 2)), Some(2));
}

#[test]
fn the_flow_of_a_function_behaves_as_its_hand_written_twin() {
    assert_eq!(constants::<ClicksPerUser>(), constants::<ClicksPerUserByHand>());
    for state in [None, Some(1), Some(41)] {
        assert_same_fold(&ClicksPerUser, &ClicksPerUserByHand, &state, &click("ann", 5));
    }
    let idle = Timer::event_time("idle");
    assert_same_timer(&ClicksPerUser, &ClicksPerUserByHand, &Some(1), idle);
}

// ------------------------------------- an annotated function with all that one can say: a lent key, an error, an output

#[flow(
    Amounts,
    name = "amounts",
    key = |order: &Order| -> &str {
        if order.user.is_empty() {
            return "nobody";
        }
        &order.user
    },
    state_version = 3,
    codec = BigEndian,
)]
fn add(sum: Option<i64>, order: &Order, cx: &mut Context<i64>) -> Result<Option<i64>, std::num::ParseIntError> {
    let sum = sum.unwrap_or(0) + order.amount.parse::<i64>()?;
    cx.emit(sum);
    Ok((sum != 0).then_some(sum))
}

struct AmountsByHand;

impl Flow for AmountsByHand {
    const NAME: &'static str = "amounts";
    const STATE_VERSION: u32 = 3;
    type State = i64;
    type Codec = BigEndian;
    type Out = i64;
}

impl Fold<Order> for AmountsByHand {
    fn key(&self, order: &Order, out: &mut Vec<u8>) -> Result<bool, StepError> {
        let user = if order.user.is_empty() { "nobody" } else { &order.user };
        <Utf8 as Codec<str>>::encode(user, out)?;
        Ok(true)
    }

    fn fold(&self, state: &mut Option<i64>, order: &Order, cx: &mut Context<i64>) -> Result<(), StepError> {
        let sum = state.take().unwrap_or(0) + order.amount.parse::<i64>()?;
        cx.emit(sum);
        *state = (sum != 0).then_some(sum);
        Ok(())
    }
}

#[test]
fn a_function_with_a_lent_key_an_error_and_an_output_behaves_as_its_hand_written_twin() {
    assert_eq!(constants::<Amounts>(), constants::<AmountsByHand>());
    for user in ["ann", ""] {
        for amount in ["5", "-5", "many"] {
            for state in [None, Some(5)] {
                assert_same_fold(&Amounts, &AmountsByHand, &state, &order(user, amount));
            }
        }
    }
}

// ---------------------------------------------------------------------------------------- an annotated impl block

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Session {
    clicks: u64,
    orders: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SessionClosed {
    clicks: u64,
}

struct Sessions {
    idle_after: Duration,
}

#[flow(name = "sessions")]
impl Sessions {
    const IDLE: Timer = Timer::event_time("idle");
    const LIMIT: Timer = Timer::wall_clock("limit");

    #[key]
    fn user(click: &Click) -> String {
        click.user.clone()
    }

    #[fold]
    fn click(&self, session: Option<Session>, click: &Click, cx: &mut Context<SessionClosed>) -> Option<Session> {
        cx.set_timer(Self::IDLE, click.at + self.idle_after);
        let mut session = session.unwrap_or(Session { clicks: 0, orders: 0 });
        session.clicks += 1;
        Some(session)
    }

    #[fold]
    fn order(session: Option<Session>, order: &Order) -> Result<Option<Session>, StepError> {
        let orders: u64 = order.amount.parse()?;
        Ok(session.map(|session| Session { orders: session.orders + orders, ..session }))
    }

    #[timer(Self::IDLE)]
    fn close(&self, session: Session, cx: &mut Context<SessionClosed>) -> Option<Session> {
        cx.emit(SessionClosed { clicks: session.clicks });
        None
    }

    #[timer(Self::LIMIT)]
    fn limit(session: Session) -> Result<Option<Session>, StepError> {
        if session.orders > 9 {
            return Err(StepError::new("too many orders"));
        }
        Ok(Some(session))
    }
}

struct SessionsByHand {
    idle_after: Duration,
}

impl SessionsByHand {
    const IDLE: Timer = Timer::event_time("idle");
    const LIMIT: Timer = Timer::wall_clock("limit");
}

impl Flow for SessionsByHand {
    const NAME: &'static str = "sessions";
    const TIMERS: &'static [Timer] = &[Self::IDLE, Self::LIMIT];
    type State = Session;
    type Codec = Json;
    type Out = SessionClosed;

    fn timer(
        &self,
        timer: Timer,
        state: &mut Option<Session>,
        cx: &mut Context<SessionClosed>,
    ) -> Result<(), StepError> {
        let missing = || {
            StepError::new(format_args!(
                "the timer `{}` fired for a key without a state, whose timers are gone",
                timer.name()
            ))
        };
        if timer == Self::IDLE {
            let session = state.take().ok_or_else(missing)?;
            cx.emit(SessionClosed { clicks: session.clicks });
        } else if timer == Self::LIMIT {
            let session = state.take().ok_or_else(missing)?;
            if session.orders > 9 {
                return Err(StepError::new("too many orders"));
            }
            *state = Some(session);
        } else {
            let name = timer.name();
            return Err(StepError::new(format_args!("the flow `sessions` has no handler for its timer `{name}`")));
        }
        Ok(())
    }
}

impl Fold<Click> for SessionsByHand {
    fn key(&self, click: &Click, out: &mut Vec<u8>) -> Result<bool, StepError> {
        <<String as Key>::Codec as Codec<String>>::encode(&click.user, out)?;
        Ok(true)
    }

    fn fold(
        &self,
        state: &mut Option<Session>,
        click: &Click,
        cx: &mut Context<SessionClosed>,
    ) -> Result<(), StepError> {
        cx.set_timer(Self::IDLE, click.at + self.idle_after);
        state.get_or_insert(Session { clicks: 0, orders: 0 }).clicks += 1;
        Ok(())
    }
}

impl Fold<Order> for SessionsByHand {
    fn fold(
        &self,
        state: &mut Option<Session>,
        order: &Order,
        _cx: &mut Context<SessionClosed>,
    ) -> Result<(), StepError> {
        let taken = state.take();
        let orders: u64 = order.amount.parse()?;
        *state = taken.map(|session| Session { orders: session.orders + orders, ..session });
        Ok(())
    }
}

fn sessions() -> [Option<Session>; 3] {
    [None, Some(Session { clicks: 2, orders: 0 }), Some(Session { clicks: 2, orders: 12 })]
}

#[test]
fn the_folds_of_an_impl_block_behave_as_their_hand_written_twins() {
    let idle_after = Duration::from_secs(30);
    let (annotated, by_hand) = (Sessions { idle_after }, SessionsByHand { idle_after });
    assert_eq!(constants::<Sessions>(), constants::<SessionsByHand>());
    for state in sessions() {
        assert_same_fold(&annotated, &by_hand, &state, &click("ann", 5));
        for amount in ["7", "many"] {
            assert_same_fold(&annotated, &by_hand, &state, &order("ann", amount));
        }
    }
}

#[test]
fn the_timers_of_an_impl_block_behave_as_their_hand_written_twins() {
    let idle_after = Duration::from_secs(30);
    let (annotated, by_hand) = (Sessions { idle_after }, SessionsByHand { idle_after });
    for timer in [Sessions::IDLE, Sessions::LIMIT, Timer::event_time("limit"), Timer::event_time("other")] {
        for state in sessions() {
            assert_same_timer(&annotated, &by_hand, &state, timer);
        }
    }
}

#[test]
fn the_steps_of_an_impl_block_are_plain_methods_for_a_unit_test() {
    let sessions = Sessions { idle_after: Duration::from_secs(30) };
    let mut cx = Context::at(Timestamp::from_millis(5));
    let session = sessions.click(None, &click("ann", 5), &mut cx);
    assert_eq!(session, Some(Session { clicks: 1, orders: 0 }));
    assert_eq!(cx.timers(), [(Sessions::IDLE, Some(Timestamp::from_millis(30_005)))]);
    assert_eq!(Sessions::user(&click("ann", 5)), "ann");
}

// ------------------------------------------------------------------------------------------------ a key of one's own

#[derive(Clone)]
struct UserId(String);

struct UserIdCodec;

impl Codec<UserId> for UserIdCodec {
    type Out<'b> = UserId;
    const ID: u8 = 64;

    fn decode(bytes: &[u8]) -> Result<UserId, CodecError> {
        <Utf8 as Codec<String>>::decode(bytes).map(UserId)
    }

    fn encode(user: &UserId, out: &mut Vec<u8>) -> Result<(), CodecError> {
        if user.0.is_empty() {
            return Err(CodecError::new("a user has a name"));
        }
        <Utf8 as Codec<String>>::encode(&user.0, out)
    }
}

impl Key for UserId {
    type Codec = UserIdCodec;
}

#[flow(Seen, name = "seen", key = |click: &Click| -> UserId { UserId(click.user.clone()) })]
fn seen(_: Option<bool>, _click: &Click) -> Option<bool> {
    Some(true)
}

#[test]
fn a_key_is_written_by_the_codec_of_its_type_and_may_fail() {
    let mut key = Vec::new();
    assert!(Seen.key(&click("ann", 1), &mut key).unwrap());
    assert_eq!(key, b"ann");
    let error = Seen.key(&click("", 1), &mut key).unwrap_err();
    assert_eq!(error.to_string(), "a user has a name");
}
