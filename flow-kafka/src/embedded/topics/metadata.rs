//! `Metadata`, `DescribeCluster` and `FindCoordinator`: the one node is everything.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId, DescribeClusterResponse, FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest,
    MetadataResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::{Topic, is_legal};
use crate::embedded::Machine;

const NODE: BrokerId = BrokerId(1);
const CLUSTER: &str = "embedded";

impl Machine {
    pub(in crate::embedded) fn metadata(&self, request: &MetadataRequest, version: i16) -> MetadataResponse {
        let topics = match &request.topics {
            // In version 0 an empty list, later a missing one, stands for all topics.
            Some(topics) if version > 0 || !topics.is_empty() => {
                topics.iter().filter_map(|topic| topic.name.as_ref()).map(|name| self.describe_topic(name)).collect()
            }
            _ => self.topics.by_name.iter().map(|(name, topic)| found(name.clone().into(), topic)).collect(),
        };
        let broker = MetadataResponseBroker::default()
            .with_node_id(NODE)
            .with_host(self.options.host.clone().into())
            .with_port(self.options.port.into());
        MetadataResponse::default()
            .with_brokers(vec![broker])
            .with_cluster_id(Some(CLUSTER.into()))
            .with_controller_id(NODE)
            .with_topics(topics)
    }

    fn describe_topic(&self, name: &TopicName) -> MetadataResponseTopic {
        match self.topics.get(name) {
            Ok(topic) => found(name.0.clone(), topic),
            Err(error) => {
                let error = if is_legal(name) { error } else { ResponseError::InvalidTopicException };
                MetadataResponseTopic::default().with_name(Some(name.clone())).with_error_code(error.code())
            }
        }
    }

    pub(in crate::embedded) fn describe_cluster(&self) -> DescribeClusterResponse {
        let broker = DescribeClusterBroker::default()
            .with_broker_id(NODE)
            .with_host(self.options.host.clone().into())
            .with_port(self.options.port.into());
        DescribeClusterResponse::default()
            .with_cluster_id(CLUSTER.into())
            .with_controller_id(NODE)
            .with_brokers(vec![broker])
    }

    pub(in crate::embedded) fn find_coordinator(
        &self,
        request: FindCoordinatorRequest,
        version: i16,
    ) -> FindCoordinatorResponse {
        let error = match request.key_type {
            0 | 1 => 0,
            _ => ResponseError::InvalidRequest.code(),
        };
        let (host, port) = (StrBytes::from(self.options.host.clone()), i32::from(self.options.port));
        if version < 4 {
            let response = FindCoordinatorResponse::default().with_error_code(error);
            return response.with_node_id(NODE).with_host(host).with_port(port);
        }
        let coordinator = |key| {
            let found = Coordinator::default().with_key(key).with_error_code(error);
            found.with_node_id(NODE).with_host(host.clone()).with_port(port)
        };
        let coordinators = request.coordinator_keys.into_iter().map(coordinator).collect();
        FindCoordinatorResponse::default().with_coordinators(coordinators)
    }
}

fn found(name: StrBytes, topic: &Topic) -> MetadataResponseTopic {
    let partition = |index| {
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(NODE)
            .with_leader_epoch(0)
            .with_replica_nodes(vec![NODE])
            .with_isr_nodes(vec![NODE])
    };
    let partitions = (0..topic.partitions.len() as i32).map(partition).collect();
    MetadataResponseTopic::default().with_name(Some(TopicName(name))).with_partitions(partitions)
}
