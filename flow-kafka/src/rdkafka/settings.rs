//! The settings of each kind of client, and the keys that a user may not set.

use std::time::Duration;

use crate::broker::{BrokerError, ConsumerSpec, ErrorKind, ProducerSpec};
use crate::config::ClientSettings;

/// Settings in the order in which librdkafka is given them: later ones win.
pub(super) type Settings = Vec<(String, String)>;

/// Why a setting of librdkafka cannot be passed through; `None`: it can.
///
/// A key that is refused would break a guarantee (what is committed, by whom, and who may see it), or is set by this crate from
/// a setting of its own, which other decisions depend on.
pub fn refused_override(key: &str) -> Option<&'static str> {
    Some(match key {
        "enable.auto.commit" | "auto.commit.enable" | "auto.commit.interval.ms" | "enable.auto.offset.store" => {
            "offsets are committed in the transaction, together with the state they belong to"
        }
        "offset.store.method" | "offset.store.path" | "offset.store.sync.interval.ms" => {
            "offsets are kept by the broker, in the transaction of the state they belong to"
        }
        "isolation.level" => "records of aborted transactions must not be seen, so it is read_committed",
        "auto.offset.reset" => "where a partition starts is decided by the committed offset and the start policy",
        "transactional.id" => "each incarnation of a worker has one of its own, or it would fence its successor",
        "enable.idempotence" | "enable.gapless.guarantee" | "acks" | "request.required.acks" => {
            "transactions need an idempotent producer that waits for all replicas"
        }
        "delivery.report.only.error" | "produce.offset.report" => "the commit reads the reports of refused records",
        "group.id" => "it is the application id",
        "group.instance.id" => "it is made from the configured instance, one for each worker",
        "client.id" => "each client has a name of its own",
        "bootstrap.servers" | "metadata.broker.list" => "it is a setting of its own",
        "partition.assignment.strategy" | "group.protocol" | "group.remote.assignor" | "group.protocol.type" => {
            "the topology decides how partitions are assigned, the same for all members of the group"
        }
        "session.timeout.ms" | "heartbeat.interval.ms" => "it follows from the configured session timeout",
        "max.poll.interval.ms" => "it is a setting of its own, because recovery and shutdown are bounded by it",
        "transaction.timeout.ms" => "it is a setting of its own, because the deadline of a commit follows from it",
        "message.timeout.ms" | "delivery.timeout.ms" => {
            "it is a setting of its own, because it must be shorter than a transaction"
        }
        "enable.partition.eof" => "an end of partition would be taken for a record's offset",
        "allow.auto.create.topics" => "a topic made by chance has the wrong partitions; topics are checked at start",
        "log.queue" | "enabled_events" => "logs and events are served by this crate",
        _ => return None,
    })
}

/// What is true for every client.
fn common(settings: &ClientSettings, client_id: &str) -> Result<Settings, BrokerError> {
    let mut all = pairs([
        ("bootstrap.servers", settings.bootstrap.as_str()),
        ("client.id", client_id),
        // After an outage the default would wait up to 10 s before it looks again.
        ("reconnect.backoff.max.ms", "500"),
    ]);
    for (key, value) in &settings.overrides {
        if let Some(reason) = refused_override(key) {
            let message = format!("the Kafka setting {key} cannot be passed through: {reason}");
            return Err(BrokerError::new(ErrorKind::Refused, message));
        }
        all.push((key.clone(), value.clone()));
    }
    Ok(all)
}

/// Defaults that a user may override stand before the overrides, what must hold stands after them.
fn layered(defaults: &[(&str, &str)], common: Settings, fixed: &[(&str, &str)]) -> Settings {
    let mut all = pairs(defaults.iter().copied());
    all.extend(common);
    all.extend(pairs(fixed.iter().copied()));
    all
}

pub(super) fn consumer(settings: &ClientSettings, spec: &ConsumerSpec) -> Result<Settings, BrokerError> {
    let session = settings.session_timeout;
    let strategy = spec.assignor.to_string();
    let mut all = layered(
        &[
            // A request that waits for records holds up all others to the same broker.
            ("fetch.wait.max.ms", "100"),
            // How long a full queue idles a partition; the default is a second.
            ("fetch.queue.backoff.ms", "10"),
        ],
        common(settings, &spec.client_id)?,
        &[
            ("group.id", &spec.group),
            ("partition.assignment.strategy", strategy.as_str()),
            ("session.timeout.ms", &ms(session)),
            // By its heartbeats a member learns of a rebalance: that is most of what partitions wait for when they move.
            ("heartbeat.interval.ms", &ms((session / 20).max(Duration::from_millis(1)))),
            ("max.poll.interval.ms", &ms(settings.poll_limit())),
        ],
    );
    all.extend(reads());
    if let Some(instance) = settings.instance_of(&spec.client_id) {
        all.extend(pairs([("group.instance.id", instance.as_str())]));
    }
    Ok(all)
}

pub(super) fn reader(settings: &ClientSettings, client_id: &str, group: &str) -> Result<Settings, BrokerError> {
    let mut all = layered(
        &[
            ("fetch.queue.backoff.ms", "10"),
            // A recovery reads all there is, at full speed with this little ahead: what waits here is memory beside the state.
            ("fetch.message.max.bytes", "131072"),
            ("queued.min.messages", "5000"),
            ("queued.max.messages.kbytes", "8192"),
        ],
        common(settings, client_id)?,
        &[("group.id", group), ("fetch.wait.max.ms", "20"), ("retry.backoff.ms", "2"), ("retry.backoff.max.ms", "20")],
    );
    all.extend(reads());
    Ok(all)
}

/// What must hold for everything that reads.
fn reads() -> Settings {
    pairs([
        ("isolation.level", "read_committed"),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("auto.offset.reset", "error"),
        ("enable.partition.eof", "false"),
        ("allow.auto.create.topics", "false"),
    ])
}

pub(super) fn producer(settings: &ClientSettings, spec: &ProducerSpec) -> Result<Settings, BrokerError> {
    let mut all = sender(settings, &spec.client_id)?;
    all.extend(pairs([
        ("transactional.id", spec.transactional_id.as_str()),
        ("transaction.timeout.ms", &ms(settings.transaction_timeout)),
        // While the broker writes the last transaction's markers it answers "not yet", and the default waits 100 ms then.
        ("retry.backoff.ms", "5"),
        ("retry.backoff.max.ms", "100"),
    ]));
    Ok(all)
}

/// A producer without transactions. Idempotence keeps its records in order.
pub(super) fn sender(settings: &ClientSettings, client_id: &str) -> Result<Settings, BrokerError> {
    Ok(layered(
        &[
            // No linger doubles the broker's work; a commit does not wait for it, for a flush ends it.
            ("linger.ms", "5"),
            ("batch.size", "1000000"),
            // The broker's own default limit. The client's is lower and counts otherwise.
            ("message.max.bytes", "1048588"),
            ("queue.buffering.max.messages", "1000000"),
            // How long a topic that the broker does not know may still appear; must end before a transaction does.
            ("topic.metadata.propagation.max.ms", "3000"),
        ],
        common(settings, client_id)?,
        &[
            ("enable.idempotence", "true"),
            ("message.timeout.ms", &ms(settings.message_timeout)),
            // Successful reports would only cost time.
            ("delivery.report.only.error", "true"),
        ],
    ))
}

pub(super) fn admin(settings: &ClientSettings, client_id: &str) -> Result<Settings, BrokerError> {
    Ok(layered(&[], common(settings, client_id)?, &[("retry.backoff.ms", "10"), ("retry.backoff.max.ms", "200")]))
}

fn pairs<'s>(from: impl IntoIterator<Item = (&'s str, &'s str)>) -> Settings {
    from.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn ms(time: Duration) -> String {
    super::client::millis(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Assignor;

    fn settings(overrides: &[(&str, &str)]) -> ClientSettings {
        ClientSettings {
            bootstrap: "127.0.0.1:1".to_owned(),
            session_timeout: Duration::from_secs(10),
            transaction_timeout: Duration::from_secs(8),
            message_timeout: Duration::from_secs(6),
            max_poll_interval: Duration::from_secs(300),
            instance: None,
            overrides: pairs(overrides.iter().copied()),
        }
    }

    fn spec() -> ConsumerSpec {
        ConsumerSpec { group: "app".to_owned(), assignor: Assignor::Range, client_id: "app-0".to_owned() }
    }

    fn last<'s>(all: &'s Settings, key: &str) -> Option<&'s str> {
        all.iter().rev().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_setting_that_would_break_a_guarantee_is_refused_by_name() {
        let error = consumer(&settings(&[("enable.auto.commit", "true")]), &spec()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.message.contains("enable.auto.commit") && error.message.contains("transaction"), "{error}");
    }

    #[test]
    fn a_users_setting_wins_over_a_default() {
        let all = consumer(&settings(&[("fetch.wait.max.ms", "7")]), &spec()).unwrap();
        assert_eq!(last(&all, "fetch.wait.max.ms"), Some("7"));
        assert_eq!(last(&all, "isolation.level"), Some("read_committed"));
    }

    #[test]
    fn every_key_that_is_fixed_is_refused_as_an_override() {
        let settings = settings(&[]);
        let producer_spec = ProducerSpec { transactional_id: "t".to_owned(), client_id: "c".to_owned() };
        let tuned_here = ["retry.backoff.ms", "retry.backoff.max.ms"];
        for all in [consumer(&settings, &spec()).unwrap(), producer(&settings, &producer_spec).unwrap()] {
            let start = all.iter().position(|(key, _)| key == "reconnect.backoff.max.ms").unwrap() + 1;
            for (key, _) in &all[start..] {
                assert!(
                    refused_override(key).is_some() || tuned_here.contains(&key.as_str()),
                    "{key} is passed through"
                );
            }
        }
    }

    #[test]
    fn each_worker_of_a_static_application_is_a_member_of_its_own() {
        let settings = ClientSettings { instance: Some("pod-3".to_owned()), ..settings(&[]) };
        let all = consumer(&settings, &spec()).unwrap();
        assert_eq!(last(&all, "group.instance.id"), Some("pod-3-app-0"));
    }

    #[test]
    fn the_poll_interval_is_never_shorter_than_the_session() {
        let settings = ClientSettings { max_poll_interval: Duration::from_secs(1), ..settings(&[]) };
        let all = consumer(&settings, &spec()).unwrap();
        assert_eq!(last(&all, "max.poll.interval.ms"), Some("10000"));
    }
}
