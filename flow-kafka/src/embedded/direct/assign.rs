//! The group leader's work: who gets which partitions.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition as AssignedTopic;
use kafka_protocol::messages::consumer_protocol_subscription::TopicPartition as OwnedTopic;
use kafka_protocol::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use crate::broker::{Assignor, TopicPartition};

pub(super) type Partitions = BTreeSet<TopicPartition>;

/// The version of the embedded consumer protocol; 2 adds the generation of the claim to the owned partitions.
const VERSION: i16 = 2;

/// What a member says of itself when it joins.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Subscription {
    pub(super) topics: BTreeSet<String>,
    pub(super) owned: Partitions,
    /// The generation in which it owned them: of two claims the younger one counts.
    pub(super) generation: i32,
}

/// The name by which members agree on an assignor.
pub(super) fn protocol_name(assignor: Assignor) -> &'static str {
    match assignor {
        Assignor::Range => "range",
        Assignor::CooperativeSticky => "cooperative-sticky",
    }
}

/// Spreads the partitions of all topics over the members.
pub(super) fn assign(
    assignor: Assignor,
    topics: &BTreeMap<String, i32>,
    members: &BTreeMap<String, Subscription>,
) -> BTreeMap<String, Partitions> {
    match assignor {
        Assignor::Range => range(topics, members),
        Assignor::CooperativeSticky => cooperative_sticky(topics, members),
    }
}

/// Topic by topic: a run of partitions for each member in the order of their ids, the first ones get one more.
fn range(topics: &BTreeMap<String, i32>, members: &BTreeMap<String, Subscription>) -> BTreeMap<String, Partitions> {
    let mut result: BTreeMap<String, Partitions> = members.keys().map(|id| (id.clone(), Partitions::new())).collect();
    for (topic, &count) in topics {
        let ids: Vec<&String> = subscribers(members, topic).collect();
        let mut next = 0;
        for (index, id) in ids.iter().enumerate() {
            let left = (ids.len() - index) as i32;
            let share = (count - next + left - 1) / left;
            let Some(own) = result.get_mut(*id) else { continue };
            own.extend((next..next + share).map(|partition| TopicPartition::new(topic, partition)));
            next += share;
        }
    }
    result
}

/// Everybody keeps what is theirs; the rest goes to whoever has least; then single partitions move until no two members differ
/// by more than one. A partition that moves is given to nobody in this round, so that its owner can give it up first.
fn cooperative_sticky(
    topics: &BTreeMap<String, i32>,
    members: &BTreeMap<String, Subscription>,
) -> BTreeMap<String, Partitions> {
    let owners = owners(topics, members);
    let mut result: BTreeMap<String, Partitions> = members.keys().map(|id| (id.clone(), Partitions::new())).collect();
    for (partition, owner) in &owners {
        if let Some(own) = result.get_mut(*owner) {
            own.insert(partition.clone());
        }
    }
    for (topic, &count) in topics {
        for partition in (0..count).map(|number| TopicPartition::new(topic, number)) {
            if owners.contains_key(&partition) {
                continue;
            }
            let least = subscribers(members, topic).min_by_key(|id| result.get(*id).map_or(0, Partitions::len));
            if let Some(own) = least.and_then(|id| result.get_mut(id)) {
                own.insert(partition);
            }
        }
    }
    while balance_one(members, &mut result) {}
    for (id, own) in &mut result {
        own.retain(|partition| owners.get(partition).is_none_or(|owner| *owner == id));
    }
    result
}

/// Who owns what by their own account. A claim of a younger generation wins; of two equal ones, none is true.
fn owners<'m>(
    topics: &BTreeMap<String, i32>,
    members: &'m BTreeMap<String, Subscription>,
) -> BTreeMap<TopicPartition, &'m String> {
    let mut claims: BTreeMap<TopicPartition, (i32, Option<&'m String>)> = BTreeMap::new();
    for (id, member) in members {
        for partition in &member.owned {
            let exists = topics.get(&partition.topic).is_some_and(|&count| partition.partition.0 < count);
            if !exists || !member.topics.contains(&partition.topic) {
                continue;
            }
            let claim = claims.entry(partition.clone()).or_insert((i32::MIN, None));
            if member.generation > claim.0 {
                *claim = (member.generation, Some(id));
            } else if member.generation == claim.0 {
                claim.1 = None;
            }
        }
    }
    claims.into_iter().filter_map(|(partition, (_, owner))| Some((partition, owner?))).collect()
}

/// Moves one partition from the fullest member that has one for the emptiest; false when nothing is left to gain.
fn balance_one(members: &BTreeMap<String, Subscription>, result: &mut BTreeMap<String, Partitions>) -> bool {
    let mut by_load: Vec<(usize, String)> = result.iter().map(|(id, own)| (own.len(), id.clone())).collect();
    by_load.sort();
    for (light, to) in &by_load {
        for (heavy, from) in by_load.iter().rev() {
            if *heavy <= light + 1 {
                break;
            }
            let wanted = |partition: &&TopicPartition| {
                members.get(to).is_some_and(|member| member.topics.contains(&partition.topic))
            };
            let Some(moved) = result.get(from).and_then(|own| own.iter().rev().find(wanted)).cloned() else { continue };
            if let Some(own) = result.get_mut(from) {
                own.remove(&moved);
            }
            if let Some(own) = result.get_mut(to) {
                own.insert(moved);
            }
            return true;
        }
    }
    false
}

fn subscribers<'m>(
    members: &'m BTreeMap<String, Subscription>,
    topic: &str,
) -> impl Iterator<Item = &'m String> + use<'m> {
    let topic = topic.to_owned();
    members.iter().filter(move |(_, member)| member.topics.contains(&topic)).map(|(id, _)| id)
}

/// A subscription as it travels in `JoinGroup`.
pub(super) fn encode_subscription(subscription: &Subscription) -> Result<Bytes, String> {
    let owned = by_topic(&subscription.owned)
        .map(|(topic, partitions)| OwnedTopic::default().with_topic(topic).with_partitions(partitions));
    let message = ConsumerProtocolSubscription::default()
        .with_topics(subscription.topics.iter().map(|topic| StrBytes::from_string(topic.clone())).collect())
        .with_owned_partitions(owned.collect())
        .with_generation_id(subscription.generation);
    encode(&message)
}

/// An assignment as it travels in `SyncGroup`.
pub(super) fn encode_assignment(partitions: &Partitions) -> Result<Bytes, String> {
    let assigned = by_topic(partitions)
        .map(|(topic, partitions)| AssignedTopic::default().with_topic(topic).with_partitions(partitions));
    encode(&ConsumerProtocolAssignment::default().with_assigned_partitions(assigned.collect()))
}

fn encode(message: &impl Encodable) -> Result<Bytes, String> {
    let mut out = BytesMut::from(&VERSION.to_be_bytes()[..]);
    message.encode(&mut out, VERSION).map_err(|error| format!("the group's metadata could not be encoded: {error}"))?;
    Ok(out.freeze())
}

pub(super) fn decode_subscription(bytes: &Bytes) -> Result<Subscription, String> {
    let message: ConsumerProtocolSubscription = decode(bytes)?;
    let owned = message.owned_partitions.iter();
    Ok(Subscription {
        topics: message.topics.iter().map(|topic| topic.to_string()).collect(),
        owned: owned.flat_map(|entry| partitions(&entry.topic, &entry.partitions)).collect(),
        generation: message.generation_id,
    })
}

/// No bytes are an empty assignment: the leader did not know this member.
pub(super) fn decode_assignment(bytes: &Bytes) -> Result<Partitions, String> {
    if bytes.is_empty() {
        return Ok(Partitions::new());
    }
    let message: ConsumerProtocolAssignment = decode(bytes)?;
    let assigned = message.assigned_partitions.iter();
    Ok(assigned.flat_map(|entry| partitions(&entry.topic, &entry.partitions)).collect())
}

fn decode<M: Decodable>(bytes: &Bytes) -> Result<M, String> {
    let mut rest = bytes.clone();
    if rest.len() < 2 {
        return Err("the group's metadata is too short".to_owned());
    }
    let version = rest.split_to(2);
    let version = i16::from_be_bytes([version[0], version[1]]).min(VERSION);
    M::decode(&mut rest, version).map_err(|error| format!("the group's metadata could not be decoded: {error}"))
}

fn partitions(topic: &TopicName, numbers: &[i32]) -> Vec<TopicPartition> {
    numbers.iter().map(|&number| TopicPartition::new(topic.to_string(), number)).collect()
}

/// Groups partitions by topic, as nearly every request wants them.
pub(super) fn by_topic<'p>(
    partitions: impl IntoIterator<Item = &'p TopicPartition>,
) -> impl Iterator<Item = (TopicName, Vec<i32>)> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition.0);
    }
    let topics: Vec<_> = topics.into_iter().map(|(topic, numbers)| (topic_name(topic), numbers)).collect();
    topics.into_iter()
}

pub(super) fn topic_name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(topics: &[&str], owned: &[(&str, i32)], generation: i32) -> Subscription {
        Subscription {
            topics: topics.iter().map(|&topic| topic.to_owned()).collect(),
            owned: owned.iter().map(|&(topic, number)| TopicPartition::new(topic, number)).collect(),
            generation,
        }
    }

    fn group(members: &[(&str, Subscription)]) -> BTreeMap<String, Subscription> {
        members.iter().map(|(id, member)| ((*id).to_owned(), member.clone())).collect()
    }

    fn topics(topics: &[(&str, i32)]) -> BTreeMap<String, i32> {
        topics.iter().map(|&(topic, count)| (topic.to_owned(), count)).collect()
    }

    fn shown(result: &BTreeMap<String, Partitions>) -> Vec<String> {
        let show = |own: &Partitions| own.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        result.iter().map(|(id, own)| format!("{id}: {}", show(own))).collect()
    }

    #[test]
    fn range_gives_equal_numbers_of_all_topics_to_one_member() {
        let members = group(&[("a", member(&["x", "y"], &[], -1)), ("b", member(&["x", "y"], &[], -1))]);
        let result = assign(Assignor::Range, &topics(&[("x", 3), ("y", 3)]), &members);
        assert_eq!(shown(&result), ["a: x/0 x/1 y/0 y/1", "b: x/2 y/2"]);
    }

    #[test]
    fn cooperative_sticky_takes_a_moving_partition_away_before_it_gives_it() {
        let topics = topics(&[("x", 4)]);
        let all = [("x", 0), ("x", 1), ("x", 2), ("x", 3)];
        let members = group(&[("a", member(&["x"], &all, 1)), ("b", member(&["x"], &[], -1))]);
        let first = assign(Assignor::CooperativeSticky, &topics, &members);
        assert_eq!(shown(&first), ["a: x/0 x/1", "b: "]);
        let members = group(&[("a", member(&["x"], &all[..2], 2)), ("b", member(&["x"], &[], 2))]);
        let second = assign(Assignor::CooperativeSticky, &topics, &members);
        assert_eq!(shown(&second), ["a: x/0 x/1", "b: x/2 x/3"]);
    }

    #[test]
    fn cooperative_sticky_moves_nothing_without_need_and_believes_the_younger_claim() {
        let topics = topics(&[("x", 3)]);
        let members =
            group(&[("a", member(&["x"], &[("x", 0), ("x", 2)], 3)), ("b", member(&["x"], &[("x", 1), ("x", 2)], 5))]);
        let result = assign(Assignor::CooperativeSticky, &topics, &members);
        assert_eq!(shown(&result), ["a: x/0", "b: x/1 x/2"]);
    }

    #[test]
    fn what_members_say_survives_the_wire() {
        let subscription = member(&["x", "y"], &[("x", 1), ("y", 0)], 7);
        let bytes = encode_subscription(&subscription).unwrap();
        assert_eq!(decode_subscription(&bytes).unwrap(), subscription);
        let bytes = encode_assignment(&subscription.owned).unwrap();
        assert_eq!(decode_assignment(&bytes).unwrap(), subscription.owned);
        assert!(decode_assignment(&Bytes::new()).unwrap().is_empty());
        assert!(decode_subscription(&Bytes::from_static(b"x")).is_err());
    }
}
