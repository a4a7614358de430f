//! A consumer's background thread, as a state machine: it joins the group, sends heartbeats, fetches, and leaves what happened
//! for the next poll.
//!
//! It does what librdkafka does with the classic protocol, also where that is awkward: the generation rises in the background
//! while the application works; a cooperative rebalance revokes in the new generation and joins once more; a member that lost
//! its session keeps the old generation beside its new id until it has joined again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, MetadataRequest,
    MetadataResponse, RequestKind, ResponseKind, SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::assign::{self, Partitions, Subscription};
use super::codes;
use super::fetcher::Fetcher;
use crate::broker::{Assignor, BrokerError, ErrorKind, Generation, Rebalance, TopicPartition};

/// How long the client waits before it repeats what a coordinator could not do.
const RETRY: Duration = Duration::from_millis(100);

/// What a member is made of.
#[derive(Clone, Debug)]
pub(super) struct MemberSettings {
    pub(super) group: String,
    pub(super) assignor: Assignor,
    pub(super) instance: Option<String>,
    pub(super) session_timeout: Duration,
    pub(super) heartbeat_interval: Duration,
    pub(super) max_poll_interval: Duration,
}

/// A request on its way out.
pub(super) struct Outgoing {
    pub(super) correlation: i32,
    pub(super) version: i16,
    pub(super) request: RequestKind,
}

pub(super) type Outbox = Vec<Outgoing>;

/// Numbers the requests of a connection.
#[derive(Default)]
pub(super) struct Sender {
    correlation: i32,
    out: Outbox,
}

impl Sender {
    pub(super) fn send(&mut self, version: i16, request: RequestKind) -> i32 {
        self.correlation += 1;
        self.out.push(Outgoing { correlation: self.correlation, version, request });
        self.correlation
    }
}

pub(super) struct Member {
    settings: MemberSettings,
    sender: Sender,
    topics: BTreeSet<String>,
    id: String,
    generation: i32,
    join: Join,
    heartbeat: Heartbeat,
    /// Rebalances that the application has not seen yet.
    pending: VecDeque<Rebalance>,
    /// The one that it has seen and not acknowledged.
    unanswered: Option<Rebalance>,
    /// Join again when everything is acknowledged.
    rejoin: bool,
    /// The session was lost while a rebalance waited for its acknowledgement.
    lost: bool,
    polled_at: Duration,
    /// The application did not poll in time: do not join before it does.
    overdue: bool,
    fatal: Option<BrokerError>,
    pub(super) fetcher: Fetcher,
}

enum Join {
    /// Not subscribed, or left.
    Out,
    /// Joins at this time.
    At(Duration),
    Joining(i32),
    /// The leader asks for the topics' partitions.
    Describing(i32, JoinGroupResponse),
    Syncing(i32),
    In,
}

#[derive(Default)]
struct Heartbeat {
    at: Duration,
    sent: Option<(i32, i32)>,
    answered_at: Duration,
}

impl Member {
    pub(super) fn new(settings: MemberSettings, now: Duration) -> Self {
        Member {
            settings,
            sender: Sender::default(),
            topics: BTreeSet::new(),
            id: String::new(),
            generation: -1,
            join: Join::Out,
            heartbeat: Heartbeat::default(),
            pending: VecDeque::new(),
            unanswered: None,
            rejoin: false,
            lost: false,
            polled_at: now,
            overdue: false,
            fatal: None,
            fetcher: Fetcher::default(),
        }
    }

    pub(super) fn take_outbox(&mut self) -> Outbox {
        std::mem::take(&mut self.sender.out)
    }

    pub(super) fn subscribe(&mut self, topics: &[String], now: Duration) {
        self.topics = topics.iter().cloned().collect();
        self.polled_at = now;
        if matches!(self.join, Join::Out) {
            self.join = Join::At(now);
        }
    }

    /// The application polls: it is alive.
    pub(super) fn polled(&mut self, now: Duration) {
        self.polled_at = now;
        if std::mem::take(&mut self.overdue) && self.is_answered() && matches!(self.join, Join::Out) {
            self.join = Join::At(now);
        }
    }

    /// Something for the next poll.
    pub(super) fn has_news(&self) -> bool {
        self.fatal.is_some()
            || self.fetcher.has_failure()
            || (self.unanswered.is_none() && (!self.pending.is_empty() || self.fetcher.has_records()))
    }

    pub(super) fn take_failure(&mut self) -> Option<BrokerError> {
        self.fatal.clone().or_else(|| self.fetcher.take_failure())
    }

    pub(super) fn may_hand_out(&self) -> bool {
        self.unanswered.is_none()
    }

    pub(super) fn next_rebalance(&mut self) -> Option<Rebalance> {
        if self.unanswered.is_none() {
            self.unanswered = self.pending.pop_front();
            return self.unanswered.clone();
        }
        None
    }

    pub(super) fn acknowledge(&mut self, rebalance: &Rebalance, now: Duration) -> Result<(), BrokerError> {
        if self.unanswered.as_ref() != Some(rebalance) {
            return Err(BrokerError::new(
                ErrorKind::Refused,
                format!("acknowledged {rebalance:?}, but {:?} waits for it", self.unanswered),
            ));
        }
        self.unanswered = None;
        match rebalance {
            Rebalance::Assigned(partitions) => partitions.iter().for_each(|added| self.fetcher.add(added)),
            Rebalance::Revoked(partitions) | Rebalance::Lost(partitions) => {
                partitions.iter().for_each(|gone| self.fetcher.remove(gone));
            }
        }
        self.go_on(now);
        Ok(())
    }

    fn is_answered(&self) -> bool {
        self.unanswered.is_none() && self.pending.is_empty()
    }

    /// Everything known was acknowledged: do what had to wait for it.
    fn go_on(&mut self, now: Duration) {
        if self.unanswered.is_some() {
            return;
        }
        if std::mem::take(&mut self.lost) {
            self.pending.clear();
            self.give_up_all(Rebalance::Lost);
            self.rejoin = true;
        }
        if !self.pending.is_empty() || !self.rejoin {
            return;
        }
        if self.is_eager() && self.give_up_all(Rebalance::Revoked) {
            return;
        }
        self.rejoin = false;
        self.join = if self.overdue || self.fatal.is_some() { Join::Out } else { Join::At(now) };
    }

    fn give_up_all(&mut self, how: impl Fn(Vec<TopicPartition>) -> Rebalance) -> bool {
        let owned = self.fetcher.owned();
        let any = !owned.is_empty();
        if any {
            self.pending.push_back(how(owned.into_iter().collect()));
        }
        any
    }

    fn is_eager(&self) -> bool {
        self.settings.assignor == Assignor::Range
    }

    pub(super) fn generation(&self) -> Result<Generation, BrokerError> {
        if self.generation < 1 || self.id.is_empty() {
            let text = format!(
                "the consumer is no member of group {} now (generation {})",
                self.settings.group, self.generation
            );
            return Err(BrokerError::new(ErrorKind::NoGeneration, text));
        }
        Ok(Generation {
            group: self.settings.group.clone(),
            id: self.generation,
            member: self.id.clone(),
            instance: self.settings.instance.clone(),
        })
    }

    /// Leaves the group; a static member stays, to be able to return.
    pub(super) fn leave(&mut self) {
        if !self.id.is_empty() && self.settings.instance.is_none() {
            let request = LeaveGroupRequest::default()
                .with_group_id(self.group())
                .with_member_id(StrBytes::from_string(self.id.clone()));
            self.sender.send(1, RequestKind::LeaveGroup(request));
        }
        self.join = Join::Out;
        self.id.clear();
    }

    // ---- what happens in the background

    /// When [`tick`](Self::tick) has something to do.
    pub(super) fn due(&self) -> Option<Duration> {
        let join = match self.join {
            Join::At(at) => Some(at),
            _ => None,
        };
        let beat = self.beats().then(|| match self.heartbeat.sent {
            None => self.heartbeat.at,
            Some(_) => self.heartbeat.answered_at + self.settings.session_timeout,
        });
        let overdue = (self.is_member() && !self.overdue).then(|| self.polled_at + self.settings.max_poll_interval);
        [join, beat, overdue, self.fetcher.due()].into_iter().flatten().min()
    }

    /// The connection broke: nothing that was sent is answered. The client connects again and goes on.
    pub(super) fn cut_off(&mut self, now: Duration) {
        self.heartbeat.sent = None;
        self.heartbeat.at = self.heartbeat.at.max(now + RETRY);
        if matches!(self.join, Join::Joining(_) | Join::Describing(..) | Join::Syncing(_)) {
            self.join = Join::At(now + RETRY);
        }
        self.fetcher.cut_off(now);
    }

    pub(super) fn tick(&mut self, now: Duration) {
        if self.is_member() && !self.overdue && now >= self.polled_at + self.settings.max_poll_interval {
            self.overdue = true;
            self.leave();
            self.lose(now);
        }
        if self.beats() {
            if now >= self.heartbeat.answered_at + self.settings.session_timeout {
                self.id.clear();
                self.lose(now);
            } else if self.heartbeat.sent.is_none() && now >= self.heartbeat.at {
                self.beat(now);
            }
        }
        if let Join::At(at) = self.join
            && now >= at
        {
            self.send_join();
        }
        self.fetcher.pump(now, &mut self.sender);
    }

    fn is_member(&self) -> bool {
        !matches!(self.join, Join::Out | Join::At(_)) || !self.is_answered()
    }

    /// A parked join counts as a sign of life; all others send heartbeats.
    fn beats(&self) -> bool {
        matches!(self.join, Join::In)
    }

    fn beat(&mut self, now: Duration) {
        let request = HeartbeatRequest::default()
            .with_group_id(self.group())
            .with_generation_id(self.generation)
            .with_member_id(StrBytes::from_string(self.id.clone()))
            .with_group_instance_id(self.instance());
        let correlation = self.sender.send(3, RequestKind::Heartbeat(request));
        self.heartbeat.sent = Some((correlation, self.generation));
        self.heartbeat.at = now + self.settings.heartbeat_interval;
    }

    fn send_join(&mut self) {
        let subscription = Subscription {
            topics: self.topics.clone(),
            owned: if self.is_eager() { Partitions::new() } else { self.fetcher.owned() },
            generation: self.generation,
        };
        let metadata = match assign::encode_subscription(&subscription) {
            Ok(metadata) => metadata,
            Err(message) => return self.fail(message),
        };
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str(assign::protocol_name(self.settings.assignor)))
            .with_metadata(metadata);
        let request = JoinGroupRequest::default()
            .with_group_id(self.group())
            .with_session_timeout_ms(self.settings.session_timeout.as_millis() as i32)
            .with_rebalance_timeout_ms(self.settings.max_poll_interval.as_millis() as i32)
            .with_member_id(StrBytes::from_string(self.id.clone()))
            .with_group_instance_id(self.instance())
            .with_protocol_type(StrBytes::from_static_str("consumer"))
            .with_protocols(vec![protocol]);
        self.join = Join::Joining(self.sender.send(5, RequestKind::JoinGroup(request)));
    }

    pub(super) fn answer(&mut self, correlation: i32, response: ResponseKind, now: Duration) {
        match (response, &self.join) {
            (ResponseKind::Heartbeat(answer), _) => self.on_heartbeat(correlation, answer.error_code, now),
            (ResponseKind::Fetch(answer), _) => self.fetcher.answer(correlation, &answer, now),
            (ResponseKind::JoinGroup(answer), Join::Joining(sent)) if *sent == correlation => self.on_join(answer, now),
            (ResponseKind::SyncGroup(answer), Join::Syncing(sent)) if *sent == correlation => {
                self.on_sync(&answer, now);
            }
            (ResponseKind::Metadata(answer), Join::Describing(sent, _)) if *sent == correlation => {
                self.on_metadata(&answer);
            }
            // Late answers to what was given up.
            _ => {}
        }
    }

    fn on_heartbeat(&mut self, correlation: i32, code: i16, now: Duration) {
        let Some((sent, generation)) = self.heartbeat.sent else { return };
        if sent != correlation {
            return;
        }
        self.heartbeat.sent = None;
        if generation != self.generation || !self.beats() {
            return;
        }
        match codes::error(code) {
            None => self.heartbeat.answered_at = now,
            Some(ResponseError::RebalanceInProgress) => {
                self.heartbeat.answered_at = now;
                self.must_rejoin(now);
            }
            Some(error) => self.on_group_error("heartbeat", error, now),
        }
    }

    /// The group rebalances. Eagerly, everything is given up first.
    fn must_rejoin(&mut self, now: Duration) {
        self.rejoin = true;
        if self.is_answered() {
            self.go_on(now);
        }
    }

    fn on_group_error(&mut self, what: &str, error: ResponseError, now: Duration) {
        match error {
            ResponseError::UnknownMemberId => {
                self.id.clear();
                self.lose(now);
            }
            ResponseError::IllegalGeneration => {
                self.generation = -1;
                self.lose(now);
            }
            ResponseError::RebalanceInProgress => {
                self.join = Join::In;
                self.must_rejoin(now);
            }
            ResponseError::FencedInstanceId => {
                let text = format!("{what}: another member uses the instance id {:?}", self.settings.instance);
                self.fatal = Some(BrokerError::new(ErrorKind::InstanceTaken, text));
                self.lose(now);
                self.join = Join::Out;
            }
            ResponseError::InconsistentGroupProtocol => {
                self.fatal = Some(codes::refusal(ErrorKind::AssignorMismatch, what, error));
                self.join = Join::Out;
            }
            error if codes::is_transient(error) => {
                if !self.beats() {
                    self.join = Join::At(now + RETRY);
                }
            }
            error => {
                self.fatal = Some(codes::refusal(ErrorKind::Refused, what, error));
                self.join = Join::Out;
            }
        }
    }

    /// Whatever we own is not ours any more.
    fn lose(&mut self, now: Duration) {
        self.join = Join::Out;
        self.heartbeat.sent = None;
        self.rejoin = true;
        self.lost = true;
        self.go_on(now);
    }

    fn fail(&mut self, message: String) {
        self.fatal = Some(BrokerError::new(ErrorKind::Fatal, message));
        self.join = Join::Out;
    }

    fn on_join(&mut self, answer: JoinGroupResponse, now: Duration) {
        match codes::error(answer.error_code) {
            None => {}
            Some(ResponseError::MemberIdRequired) => {
                self.id = answer.member_id.to_string();
                return self.send_join();
            }
            Some(error) => return self.on_group_error("join", error, now),
        }
        self.id = answer.member_id.to_string();
        self.generation = answer.generation_id;
        if answer.leader != answer.member_id {
            return self.send_sync(Vec::new());
        }
        let mut topics = BTreeSet::new();
        for member in &answer.members {
            match assign::decode_subscription(&member.metadata) {
                Ok(subscription) => topics.extend(subscription.topics),
                Err(message) => return self.fail(message),
            }
        }
        let topics =
            topics.iter().map(|topic| MetadataRequestTopic::default().with_name(Some(assign::topic_name(topic))));
        let request =
            MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(false);
        self.join = Join::Describing(self.sender.send(7, RequestKind::Metadata(request)), answer);
    }

    fn on_metadata(&mut self, answer: &MetadataResponse) {
        let Join::Describing(_, joined) = std::mem::replace(&mut self.join, Join::In) else { return };
        let known = answer.topics.iter().filter(|topic| topic.error_code == 0);
        let topics: BTreeMap<String, i32> =
            known.filter_map(|topic| Some((topic.name.as_ref()?.to_string(), topic.partitions.len() as i32))).collect();
        let members = joined.members.iter().map(|member| {
            assign::decode_subscription(&member.metadata)
                .map(|subscription| (member.member_id.to_string(), subscription))
        });
        let assignments = members.collect::<Result<BTreeMap<_, _>, _>>().and_then(|members| {
            let spread = assign::assign(self.settings.assignor, &topics, &members);
            spread
                .into_iter()
                .map(|(id, own)| Ok((id, assign::encode_assignment(&own)?)))
                .collect::<Result<Vec<_>, _>>()
        });
        match assignments {
            Ok(assignments) => self.send_sync(assignments),
            Err(message) => self.fail(message),
        }
    }

    fn send_sync(&mut self, assignments: Vec<(String, Bytes)>) {
        let assignments = assignments.into_iter().map(|(id, assignment)| {
            SyncGroupRequestAssignment::default().with_member_id(StrBytes::from_string(id)).with_assignment(assignment)
        });
        let request = SyncGroupRequest::default()
            .with_group_id(self.group())
            .with_generation_id(self.generation)
            .with_member_id(StrBytes::from_string(self.id.clone()))
            .with_group_instance_id(self.instance())
            .with_assignments(assignments.collect());
        self.join = Join::Syncing(self.sender.send(3, RequestKind::SyncGroup(request)));
    }

    fn on_sync(&mut self, answer: &SyncGroupResponse, now: Duration) {
        if let Some(error) = codes::error(answer.error_code) {
            return self.on_group_error("sync", error, now);
        }
        let assigned = match assign::decode_assignment(&answer.assignment) {
            Ok(assigned) => assigned,
            Err(message) => return self.fail(message),
        };
        self.join = Join::In;
        self.heartbeat = Heartbeat { at: now + self.settings.heartbeat_interval, sent: None, answered_at: now };
        let owned = self.fetcher.owned();
        let revoked: Vec<_> = owned.difference(&assigned).cloned().collect();
        let added = assigned.difference(&owned).cloned().collect();
        if !revoked.is_empty() {
            self.pending.push_back(Rebalance::Revoked(revoked));
            self.rejoin = true;
        }
        self.pending.push_back(Rebalance::Assigned(added));
    }

    fn group(&self) -> GroupId {
        GroupId(StrBytes::from_string(self.settings.group.clone()))
    }

    fn instance(&self) -> Option<StrBytes> {
        self.settings.instance.clone().map(StrBytes::from_string)
    }
}
