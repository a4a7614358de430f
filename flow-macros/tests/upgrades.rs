//! A flow whose state has a past beside its twin written by hand: both make the same of what earlier versions wrote.

use flow_core::{
    Context, Flow, Fold, HeadersRef, Json, Offset, Partition, RecordRef, StepError, TaskOptions, Timestamp, Topic,
    TopologyBuilder, Upgrades, flow,
};
use serde::{Deserialize, Serialize};

/// Version 2; version 1 was the number of clicks alone.
#[derive(Serialize, Deserialize)]
struct Counted {
    clicks: u64,
}

/// Version 3.
#[derive(Clone, Serialize, Deserialize)]
struct Session {
    clicks: u64,
    pages: Vec<u64>,
}

fn counted(clicks: u64) -> Counted {
    Counted { clicks }
}

struct Sessions;

#[flow(name = "sessions", state_version = 3, upgrades = [counted, Self::with_pages])]
impl Sessions {
    fn with_pages(old: Counted) -> Session {
        Session { clicks: old.clicks, pages: Vec::new() }
    }

    #[fold]
    fn click(session: Option<Session>, page: &u64, cx: &mut Context<u64>) -> Option<Session> {
        let mut session = session.unwrap_or(Session { clicks: 0, pages: Vec::new() });
        session.clicks += 1;
        session.pages.push(*page);
        cx.emit(session.clicks);
        Some(session)
    }
}

struct SessionsByHand;

impl Flow for SessionsByHand {
    const NAME: &'static str = "sessions";
    const STATE_VERSION: u32 = 3;
    type State = Session;
    type Codec = Json;
    type Out = u64;

    fn upgrades() -> Upgrades<Session, Json> {
        Upgrades::from_version(1).then(counted).then(Sessions::with_pages)
    }
}

impl Fold<u64> for SessionsByHand {
    fn fold(&self, state: &mut Option<Session>, page: &u64, cx: &mut Context<u64>) -> Result<(), StepError> {
        *state = Sessions::click(state.take(), page, cx);
        Ok(())
    }
}

/// What becomes of a restored snapshot when its key is used: what is emitted, and the next snapshot; or what is wrong.
fn after_a_click<F: Fold<u64, Out = u64>>(flow: F, snapshot: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let topology = TopologyBuilder::new();
    topology.stream(Topic::<str, u64>::new("clicks")).flow(flow).to(Topic::<str, u64>::new("counts"));
    let topology = topology.build().map_err(|error| error.to_string())?;
    let mut task = topology.sub_topologies()[0].task(Partition(0), &TaskOptions::default());
    task.restore(0, b"ann", Some(snapshot)).map_err(|error| error.to_string())?;
    let click = RecordRef {
        key: Some(b"ann"),
        value: Some(b"1"),
        timestamp: Some(Timestamp::from_millis(0)),
        offset: Offset(0),
        headers: HeadersRef::EMPTY,
    };
    task.process(0, &click).map_err(|error| error.message)?;
    task.prepare_commit().map_err(|error| error.message)?;
    let of = |bytes: Option<&[u8]>| bytes.unwrap_or_default().to_vec();
    Ok((of(task.effects().output(0).value), of(task.effects().snapshot(0).value)))
}

#[test]
fn a_flow_with_upgrades_behaves_as_its_hand_written_twin() {
    for (snapshot, clicks) in [
        (&b"\x01\x01\x00\x00\x00\x01\x007"[..], Ok("8")),
        (b"\x01\x01\x00\x00\x00\x02\x00{\"clicks\":8}", Ok("9")),
        (b"\x01\x01\x00\x00\x00\x03\x00{\"clicks\":9,\"pages\":[1]}", Ok("10")),
        (b"\x01\x01\x00\x00\x00\x04\x00{}", Err("has state version 4")),
        (b"\x01\x01\x00\x00\x00\x02\x007", Err("cannot be read as version 2")),
    ] {
        let annotated = after_a_click(Sessions, snapshot);
        assert_eq!(annotated, after_a_click(SessionsByHand, snapshot));
        match (annotated, clicks) {
            (Ok((emitted, _)), Ok(clicks)) => assert_eq!(emitted, clicks.as_bytes()),
            (Err(error), Err(text)) => assert!(error.contains(text), "{error}"),
            (answer, _) => panic!("{answer:?}"),
        }
    }
}
