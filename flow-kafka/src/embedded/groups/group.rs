//! One group and its members.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::ResponseError;

use super::offsets::Offsets;
use crate::embedded::machine::Caller;

/// Where a group is between two generations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// No members; there may be offsets.
    #[default]
    Empty,
    /// Waits for all members to join the next generation.
    PreparingRebalance,
    /// The generation is there; its leader has not said who gets what.
    CompletingRebalance,
    /// Every member has, or can have, its assignment.
    Stable,
}

impl State {
    /// Kafka's name for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::PreparingRebalance => "PreparingRebalance",
            State::CompletingRebalance => "CompletingRebalance",
            State::Stable => "Stable",
        }
    }
}

/// A group.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) state: State,
    pub(super) generation: i32,
    pub(super) protocol_type: String,
    /// The assignor that all members of this generation know.
    pub(super) protocol: String,
    pub(super) leader: Option<String>,
    pub(super) members: BTreeMap<String, Member>,
    /// Static members: instance id to member id (KIP-345).
    pub(super) instances: BTreeMap<String, String>,
    /// Member ids that were given out and have not been used yet, with the time until which they are kept (KIP-394).
    pub(super) promised: BTreeMap<String, i64>,
    /// Until when members have to join (preparing) or to fetch their assignment (completing, stable).
    pub(super) rebalance_deadline: Option<i64>,
    pub(super) offsets: Offsets,
    /// When it lost its last member; none if it never had one.
    pub(super) empty_since: Option<i64>,
}

/// A member of a group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) instance: Option<String>,
    pub(super) session_timeout: i64,
    pub(super) rebalance_timeout: i64,
    /// Assignors the member knows, the preferred one first, each with its subscription.
    pub(super) protocols: Vec<(String, Bytes)>,
    pub(super) assignment: Bytes,
    /// Waits for the next generation.
    pub(super) joining: Option<Caller>,
    /// Waits for the leader's assignment.
    pub(super) syncing: Option<Caller>,
    /// Has asked for its assignment in this generation.
    pub(super) has_synced: bool,
    pub(super) session_deadline: i64,
}

impl Member {
    /// A member that waits for an answer is alive: it cannot send heartbeats meanwhile.
    pub(super) fn is_waiting(&self) -> bool {
        self.joining.is_some() || self.syncing.is_some()
    }

    pub(super) fn was_heard(&mut self, now: i64) {
        self.session_deadline = now.saturating_add(self.session_timeout);
    }

    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        self.protocols
            .iter()
            .find(|(name, _)| name == protocol)
            .map(|(_, metadata)| metadata.clone())
            .unwrap_or_default()
    }
}

/// Who sends a request that must come from a member.
#[derive(Clone, Copy, Debug)]
pub(in crate::embedded) struct Sender<'r> {
    pub(in crate::embedded) generation: i32,
    pub(in crate::embedded) member: &'r str,
    pub(in crate::embedded) instance: Option<&'r str>,
}

impl Group {
    /// The member, if it is one, and still the owner of its instance id.
    ///
    /// # Errors
    /// `UNKNOWN_MEMBER_ID`, or `FENCED_INSTANCE_ID` if another process took over the instance id.
    pub(super) fn check_member(&self, member: &str, instance: Option<&str>) -> Result<(), ResponseError> {
        if let Some(instance) = instance {
            let owner = self.instances.get(instance).ok_or(ResponseError::UnknownMemberId)?;
            if owner != member {
                return Err(ResponseError::FencedInstanceId);
            }
        }
        if self.members.contains_key(member) { Ok(()) } else { Err(ResponseError::UnknownMemberId) }
    }

    /// The sender, if it is a member of this generation.
    pub(super) fn check_sender(&self, sender: Sender<'_>) -> Result<(), ResponseError> {
        self.check_member(sender.member, sender.instance)?;
        if sender.generation == self.generation { Ok(()) } else { Err(ResponseError::IllegalGeneration) }
    }

    /// Whether the sender may commit offsets.
    pub(super) fn check_commit(&self, sender: Sender<'_>, is_transactional: bool) -> Result<(), ResponseError> {
        let names_itself = sender.generation >= 0 || !sender.member.is_empty() || sender.instance.is_some();
        if sender.generation < 0 && self.state == State::Empty {
            return Ok(());
        }
        if names_itself {
            self.check_sender(sender)?;
        } else if !is_transactional {
            // Inside a transaction it is taken from anybody: older producers send no generation (KIP-447).
            return Err(ResponseError::UnknownMemberId);
        }
        if !is_transactional && self.state == State::CompletingRebalance {
            return Err(ResponseError::RebalanceInProgress);
        }
        Ok(())
    }

    /// When something runs out here.
    pub(super) fn deadline(&self) -> Option<i64> {
        let sessions =
            self.members.values().filter(|member| !member.is_waiting()).map(|member| member.session_deadline);
        sessions.chain(self.promised.values().copied()).chain(self.rebalance_deadline).min()
    }

    /// Whether a member with these assignors fits the others.
    pub(super) fn accepts(&self, protocol_type: &str, protocols: &[(String, Bytes)]) -> bool {
        if protocol_type.is_empty() || protocols.is_empty() {
            return false;
        }
        self.members.is_empty()
            || self.protocol_type == protocol_type && protocols.iter().any(|(name, _)| self.is_known_to_all(name))
    }

    fn is_known_to_all(&self, protocol: &str) -> bool {
        self.members.values().all(|member| member.protocols.iter().any(|(name, _)| name == protocol))
    }

    /// The assignor that most members prefer among those that all know.
    pub(super) fn elect_protocol(&self) -> String {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some((name, _)) = member.protocols.iter().find(|(name, _)| self.is_known_to_all(name)) {
                *votes.entry(name).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name.to_owned()).unwrap_or_default()
    }

    /// The longest time that a member needs to come back; never zero, so that a deadline made of it always lies ahead.
    pub(super) fn rebalance_timeout(&self) -> i64 {
        self.members.values().map(|member| member.rebalance_timeout).max().unwrap_or(0).max(1)
    }
}
