//! Topics and coordinators.

use kafka_protocol::messages::FindCoordinatorRequest;

use super::code;
use crate::cluster::Cluster;

#[test]
fn a_topic_is_created() {
    let cluster = Cluster::new("create");
    // Asserts that there was no error.
    cluster.topic("t", 2);
}

#[test]
fn groups_and_transactions_have_a_coordinator() {
    let cluster = Cluster::new("coordinator");
    let mut wire = cluster.connect();
    for key_type in [0, 1] {
        let find = FindCoordinatorRequest::default().with_key(cluster.name("key").into()).with_key_type(key_type);
        assert_eq!(wire.settle(&find, 3, |response| response.error_code).error_code, code::NONE, "key type {key_type}");
    }
}
