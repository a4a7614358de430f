//! Brokers that go away and networks that are cut, in the middle of anything: no process has to be started again, and what comes
//! out is exact.
//!
//! The application's clients go through a proxy; the test's own do not.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use flow_core::{ByType, Topic, Topology, TopologyBuilder, Utf8};
use flow_kafka::broker::{Broker, BrokerError, ErrorKind, Reader, TopicPartition};
use flow_kafka::{App, ClientSettings, KafkaConfig, RdkafkaBroker, State, start};
use futures::executor::block_on;
use kafka_protocol::messages::ApiKey;

use crate::kafka::{Kafka, record, wait_for};
use crate::proxy::{Fate, Proxy};

/// Longer than the session timeout of [`Kafka::config`], and than the broker needs to notice.
const LONG: Duration = Duration::from_secs(8);

fn topology(kafka: &Kafka) -> Topology {
    let topology = TopologyBuilder::new();
    let events: Topic<str, str, ByType, Utf8> = Topic::new(kafka.topic("in"));
    topology.stream(events).count("counts").changes().to(Topic::<str, u64>::new(kafka.topic("out")));
    topology.build().unwrap()
}

/// One application whose network a test can cut.
struct Scene {
    /// The broker itself.
    direct: Kafka,
    /// The same, through the proxy.
    far: Kafka,
    proxy: Proxy,
    sent: i64,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let direct = Kafka::new(name);
        direct.create("in", 1, &[]);
        direct.create("out", 1, &[]);
        let proxy = Proxy::to(&direct.bootstrap);
        let far = Kafka::of(&proxy.bootstrap(), &direct.app);
        Scene { direct, far, proxy, sent: 0 }
    }

    fn config(&self) -> KafkaConfig {
        self.far.config()
    }

    fn start(&self, config: KafkaConfig) -> App {
        start(topology(&self.direct), config).unwrap()
    }

    fn send(&mut self, events: usize) {
        self.direct.send("in", &vec![record("k", "e"); events]);
        self.sent += events as i64;
    }

    fn await_commit(&self) {
        wait_for("all is committed", || self.direct.committed("in") == Some(self.sent));
    }

    fn assert_exact(&self) {
        assert_eq!(self.direct.numbers("out"), (1..=self.sent as u64).collect::<Vec<u64>>(), "{}", self.direct.app);
        assert_eq!(self.direct.newest_snapshot("counts"), self.sent as u64, "{}", self.direct.app);
    }
}

/// The owner's last request of a transaction is on its way when its network is cut, and arrives when it is no owner any more.
fn cut_off(request: ApiKey) {
    let mut scene = Scene::new(&format!("cut-{request:?}").to_lowercase());
    let owner = scene.start(scene.config());
    scene.send(100);
    scene.await_commit();
    let spare = scene.start(scene.direct.config());
    std::thread::sleep(Duration::from_secs(2));
    scene.proxy.next(request, Fate::Cut);
    scene.send(50);
    wait_for("the owner's network is cut", || scene.proxy.has_happened());
    wait_for("the spare process commits", || scene.direct.committed("in") == Some(150));
    assert!(spare.counters().tasks == 1 && spare.counters().restored > 0);
    scene.proxy.heal();
    wait_for("the one that was cut off has lost its partition", || owner.counters().tasks == 0);
    scene.send(10);
    scene.await_commit();
    block_on(spare.shutdown()).unwrap();
    scene.send(10);
    scene.await_commit();
    let counters = block_on(owner.shutdown()).unwrap().counters;
    assert!(counters.restored > 0 && counters.records >= 160, "{counters:?}");
    scene.assert_exact();
}

#[test]
fn a_process_cut_off_inside_a_transaction_is_replaced_and_comes_back_by_itself() {
    all_at_once(&[ApiKey::TxnOffsetCommit, ApiKey::EndTxn], cut_off);
}

#[test]
fn a_broker_that_goes_away_again_and_again_in_the_middle_of_processing_costs_only_time() {
    let mut scene = Scene::new("away");
    let app = scene.start(scene.config());
    scene.send(1000);
    scene.await_commit();
    for away in [Duration::from_millis(500), LONG, Duration::from_secs(2)] {
        for _ in 0..20 {
            scene.send(20);
            std::thread::sleep(Duration::from_millis(10));
        }
        scene.proxy.away();
        scene.send(1000);
        std::thread::sleep(away);
        scene.proxy.heal();
        scene.send(100);
        scene.await_commit();
    }
    block_on(app.shutdown()).unwrap();
    scene.assert_exact();
}

const TRANSACTION: [ApiKey; 5] =
    [ApiKey::AddPartitionsToTxn, ApiKey::Produce, ApiKey::AddOffsetsToTxn, ApiKey::TxnOffsetCommit, ApiKey::EndTxn];

/// Each of these becomes of each request of a transaction.
fn a_transaction_meets(fates: &[Fate]) {
    let all: Vec<_> = fates.iter().flat_map(|fate| TRANSACTION.map(|request| (request, *fate))).collect();
    all_at_once(&all, |(request, fate)| {
        let mut scene = Scene::new(&format!("{request:?}-{fate:?}").to_lowercase());
        let app = scene.start(scene.config().transaction_timeout(Duration::from_secs(3)));
        scene.send(100);
        scene.await_commit();
        scene.proxy.next(request, fate);
        scene.send(50);
        wait_for("it happens", || scene.proxy.has_happened());
        if !matches!(fate, Fate::LoseRequest | Fate::LoseAnswer) {
            std::thread::sleep(Duration::from_secs(2));
            scene.proxy.heal();
        }
        scene.send(10);
        scene.await_commit();
        block_on(app.shutdown()).unwrap();
        scene.assert_exact();
    });
}

/// The connection of the request is mute from then on: whether the broker has committed is not known.
#[test]
fn whichever_request_or_answer_of_a_transaction_is_lost_everything_comes_out_once() {
    a_transaction_meets(&[Fate::LoseRequest, Fate::LoseAnswer]);
}

#[test]
fn whichever_request_of_a_transaction_a_broker_goes_away_before_or_after_everything_comes_out_once() {
    a_transaction_meets(&[Fate::Away, Fate::AwayAfter]);
}

/// The worker waits to learn what became of its commit, and is thrown out of its group for not polling.
#[test]
fn an_outage_in_a_commit_that_outlasts_the_poll_interval_needs_no_restart() {
    all_at_once(&[Fate::Away, Fate::AwayAfter], |fate| {
        let mut scene = Scene::new(&format!("poll-interval-{fate:?}").to_lowercase());
        let config = scene.config().transaction_timeout(Duration::from_secs(2)).max_poll_interval(LONG);
        let app = scene.start(config);
        scene.send(100);
        scene.await_commit();
        scene.proxy.next(ApiKey::EndTxn, fate);
        scene.send(50);
        wait_for("the broker goes away", || scene.proxy.has_happened());
        std::thread::sleep(LONG * 3 / 2);
        scene.proxy.heal();
        scene.send(10);
        scene.await_commit();
        block_on(app.shutdown()).unwrap();
        scene.assert_exact();
    });
}

#[test]
fn whichever_request_of_a_transaction_finds_its_coordinator_on_the_move_everything_comes_out_once() {
    a_transaction_meets(&[Fate::Move]);
}

/// librdkafka 2.12 ends the process when a coordinator comes back for which somebody has stopped to wait.
#[test]
fn a_coordinator_that_comes_back_answers_those_who_had_no_patience() {
    let mut scene = Scene::new("impatient");
    let app = scene.start(scene.direct.config());
    scene.send(10);
    scene.await_commit();
    let broker = RdkafkaBroker::new(ClientSettings::new(&scene.far.bootstrap)).unwrap();
    let mut reader = broker.reader().unwrap();
    let (group, of) = (&scene.direct.app, [TopicPartition::new(scene.direct.topic("in"), 0)]);
    let wait = Duration::from_millis(100);
    type Ask<'a> = &'a dyn Fn(&mut dyn Reader) -> Result<(), BrokerError>;
    let asks: [Ask<'_>; 3] = [
        &|reader| reader.committed(group, &of, wait).map(|found| assert_eq!(found[0].as_ref().unwrap().offset.0, 10)),
        &|reader| reader.last_committed(group, &of, wait).map(|found| assert!(found[0].is_some())),
        &|reader| reader.members(group, wait).map(|members| assert_eq!(members.len(), 1)),
    ];
    let patiently = |ask: Ask<'_>, reader: &mut dyn Reader| {
        let start = Instant::now();
        while let Err(error) = ask(reader) {
            assert_eq!(error.kind, ErrorKind::Retriable, "{error}");
            assert!(start.elapsed() < Duration::from_secs(20), "{error}");
        }
    };
    for ask in asks {
        patiently(ask, &mut *reader);
        scene.proxy.away();
        let away = Instant::now();
        while away.elapsed() < Duration::from_secs(2) {
            assert_eq!(ask(&mut *reader).unwrap_err().kind, ErrorKind::Retriable);
        }
        scene.proxy.heal();
        patiently(ask, &mut *reader);
    }
    block_on(app.shutdown()).unwrap();
}

/// librdkafka 2.12 takes an offset that is none for an answer. The end of a log of snapshots would be before its beginning, and
/// the state would be taken for empty.
#[test]
fn the_watermarks_of_a_broker_that_goes_away_are_not_known() {
    let mut scene = Scene::new("watermarks");
    scene.send(10);
    let broker = RdkafkaBroker::new(ClientSettings::new(&scene.far.bootstrap)).unwrap();
    let mut reader = broker.reader().unwrap();
    let of = [TopicPartition::new(scene.direct.topic("in"), 0)];
    let mut ask = |wait| reader.watermarks(&of, wait).map(|marks| (marks[0].low.0, marks[0].high.0));
    for nth in [1, 2] {
        assert_eq!(ask(LONG).unwrap(), (0, 10));
        scene.proxy.nth(nth, ApiKey::ListOffsets, Fate::Away);
        let error = ask(Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Retriable, "{error}");
        scene.proxy.heal();
    }
    assert_eq!(ask(LONG).unwrap(), (0, 10));
}

#[test]
fn a_broker_that_goes_away_in_the_middle_of_a_recovery_is_waited_for_longer_than_a_recovery_may_stand_still() {
    // For the input, the first and the last offset; then for the snapshots.
    let requests = [1, 2, 3, 4].map(|nth| (nth, ApiKey::ListOffsets)).into_iter();
    let requests: Vec<_> = requests.chain([(1, ApiKey::OffsetFetch), (1, ApiKey::Fetch)]).collect();
    all_at_once(&requests, |(nth, request)| {
        let mut scene = Scene::new(&format!("away-recovery-{nth}-{request:?}").to_lowercase());
        let app = scene.start(scene.direct.config());
        scene.send(500);
        scene.await_commit();
        block_on(app.shutdown()).unwrap();
        scene.send(10);
        scene.proxy.nth(nth, request, Fate::Away);
        let app = scene.start(scene.config().recovery_deadline(Duration::from_secs(2)));
        wait_for("the broker goes away", || scene.proxy.has_happened());
        std::thread::sleep(Duration::from_secs(5));
        assert_ne!(app.state(), State::Failed, "{nth} {request:?}");
        scene.proxy.heal();
        scene.await_commit();
        block_on(app.shutdown()).unwrap();
        scene.assert_exact();
    });
}

/// What is not committed is the next owner's to do again.
#[test]
fn a_stop_while_no_broker_answers_takes_its_time_but_ends() {
    all_at_once(&[ApiKey::Produce, ApiKey::OffsetFetch], |request| {
        let mut scene = Scene::new(&format!("stop-{request:?}").to_lowercase());
        scene.send(10);
        scene.proxy.next(request, Fate::Away);
        let app = scene.start(scene.config().transaction_timeout(Duration::from_secs(3)));
        wait_for("the broker goes away", || scene.proxy.has_happened());
        std::thread::sleep(Duration::from_secs(1));
        let asked = Instant::now();
        block_on(app.shutdown()).unwrap();
        assert!(asked.elapsed() < Duration::from_secs(30), "{request:?}: {:?}", asked.elapsed());
        scene.proxy.heal();
        let next = scene.start(scene.config());
        scene.await_commit();
        block_on(next.shutdown()).unwrap();
        scene.assert_exact();
    });
}

#[test]
fn a_recovery_and_a_start_that_find_their_coordinator_on_the_move_wait_for_it() {
    let requests = [
        ApiKey::FindCoordinator,
        ApiKey::InitProducerId,
        ApiKey::JoinGroup,
        ApiKey::SyncGroup,
        ApiKey::Heartbeat,
        ApiKey::OffsetFetch,
    ];
    all_at_once(&requests, |request| {
        let mut scene = Scene::new(&format!("move-{request:?}").to_lowercase());
        let app = scene.start(scene.direct.config());
        scene.send(500);
        scene.await_commit();
        block_on(app.shutdown()).unwrap();
        scene.send(10);
        scene.proxy.next(request, Fate::Move);
        let app = scene.start(scene.config());
        wait_for("the coordinator moves", || scene.proxy.has_happened());
        std::thread::sleep(Duration::from_secs(3));
        scene.proxy.heal();
        scene.await_commit();
        block_on(app.shutdown()).unwrap();
        scene.assert_exact();
    });
}

#[test]
fn whichever_request_of_a_start_meets_a_broker_that_goes_away_the_start_goes_on() {
    let requests = [
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::CreateTopics,
        ApiKey::DescribeConfigs,
        ApiKey::FindCoordinator,
        ApiKey::InitProducerId,
        ApiKey::JoinGroup,
        ApiKey::SyncGroup,
    ];
    let one = |request: ApiKey, fate: Fate| {
        let mut scene = Scene::new(&format!("away-start-{request:?}").to_lowercase());
        scene.send(10);
        scene.proxy.next(request, fate);
        let app = scene.start(scene.config());
        wait_for("the broker goes away", || scene.proxy.has_happened());
        std::thread::sleep(Duration::from_millis(500));
        scene.proxy.heal();
        scene.await_commit();
        block_on(app.shutdown()).unwrap();
        scene.assert_exact();
    };
    let fates = [Fate::Away, Fate::AwayAfter];
    let all: Vec<_> = fates.iter().flat_map(|fate| requests.map(|request| (request, *fate))).collect();
    all_at_once(&all, |(request, fate)| one(request, fate));
}

/// Most of the time is spent waiting.
fn all_at_once<R: Copy + Debug + Send + Sync>(requests: &[R], one: impl Fn(R) + Sync) {
    std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = requests.iter().map(|&request| (request, scope.spawn(move || one(request)))).collect();
        for (request, thread) in threads {
            assert!(thread.join().is_ok(), "{request:?}");
        }
    });
}
