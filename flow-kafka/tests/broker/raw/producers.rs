//! Idempotent producers.

use super::code;
use super::producer::Producer;
use crate::cluster::Cluster;

#[test]
fn a_repeated_batch_is_not_stored_twice_and_a_gap_is_refused() {
    let cluster = Cluster::new("idempotent");
    let topic = cluster.topic("t", 2);
    let mut wire = cluster.connect();
    let producer = Producer::idempotent(&mut wire);

    assert_eq!(producer.produce(&mut wire, &topic, 1, 0, 2), (code::NONE, 0));
    assert_eq!(producer.produce(&mut wire, &topic, 1, 0, 2), (code::NONE, 0), "the repeat has the first one's offset");
    assert_eq!(producer.produce(&mut wire, &topic, 1, 2, 2), (code::NONE, 2));
    assert_eq!(producer.produce(&mut wire, &topic, 1, 9, 2).0, code::OUT_OF_ORDER_SEQUENCE_NUMBER);
}
