//! Generations, rebalances, sessions, static members.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::*;

use super::Broker;
use super::requests::*;

/// Two members of a stable group: the leader, the other one, and their generation.
fn two_members(broker: &mut Broker) -> (String, String, i32) {
    let (leader, _) = broker.sole_member("g");
    let (joining, other) = broker.join_new("g");
    assert!(broker.answer::<JoinGroupRequest>(joining).is_none(), "the first member has to join again");
    let joined = broker.ask(join_request("g", &leader, None), 5);
    assert_eq!(broker.answer::<JoinGroupRequest>(joining).unwrap().generation_id, joined.generation_id);
    let waiting = broker.post(sync_request("g", joined.generation_id, &other, &[]), 3);
    let assignments = [(leader.as_str(), "a"), (other.as_str(), "b")];
    broker.ask(sync_request("g", joined.generation_id, &leader, &assignments), 3);
    assert_eq!(broker.answer::<SyncGroupRequest>(waiting).unwrap().assignment, "b");
    (leader, other, joined.generation_id)
}

fn beat(broker: &mut Broker, generation: i32, member: &str) -> i16 {
    broker.ask(heartbeat_request("g", generation, member), 3).error_code
}

const REBALANCE: i16 = 27;

#[test]
fn members_that_know_no_id_are_told_one_and_old_clients_join_at_once() {
    let mut broker = Broker::new();
    let told = broker.ask(join_request("g", "", None), 4);
    assert_eq!(told.error_code, ResponseError::MemberIdRequired.code());
    assert!(!told.member_id.is_empty());
    let joined = broker.ask(join_request("old", "", None), 3);
    assert_eq!((joined.error_code, joined.generation_id), (0, 1));
}

#[test]
fn the_leader_alone_learns_the_members_and_each_gets_what_it_assigns() {
    let mut broker = Broker::new();
    let (leader, other, generation) = two_members(&mut broker);
    assert_eq!(generation, 2);
    assert_ne!(leader, other);
    // A follower that asks again stays in its generation.
    let again = broker.ask(join_request("g", &other, None), 5);
    assert_eq!((again.generation_id, again.members.len()), (2, 0));
}

#[test]
fn a_rebalance_is_told_by_heartbeats_and_waits_for_those_who_are_late() {
    let mut broker = Broker::new();
    let (leader, other, generation) = two_members(&mut broker);
    let (joining, third) = broker.join_new("g");
    assert_eq!(beat(&mut broker, generation, &leader), REBALANCE);
    let rejoining = broker.post(join_request("g", &leader, None), 5);
    for _ in 0..59 {
        broker.pass(1_000);
        assert_eq!(beat(&mut broker, generation, &other), REBALANCE, "it is alive, only late");
    }
    assert!(broker.answer::<JoinGroupRequest>(joining).is_none());

    broker.pass(1_000);
    let joined = broker.answer::<JoinGroupRequest>(rejoining).unwrap();
    assert_eq!(joined.generation_id, generation + 1);
    let members: Vec<_> = joined.members.iter().map(|member| member.member_id.to_string()).collect();
    assert_eq!(members, [leader, third]);
    assert_eq!(beat(&mut broker, generation, &other), ResponseError::UnknownMemberId.code());
}

#[test]
fn a_silent_member_is_out_after_its_session_and_the_others_go_on() {
    let mut broker = Broker::new();
    let (leader, other, generation) = two_members(&mut broker);
    broker.pass(9_000);
    assert_eq!(beat(&mut broker, generation, &leader), 0);
    broker.pass(1_000);
    assert_eq!(beat(&mut broker, generation, &leader), REBALANCE);
    assert_eq!(broker.ask(join_request("g", &leader, None), 5).members.len(), 1);
    assert_eq!(beat(&mut broker, generation + 1, &other), ResponseError::UnknownMemberId.code());
}

#[test]
fn a_group_whose_members_are_all_silent_is_empty_and_keeps_its_offsets() {
    let mut broker = Broker::new();
    broker.create("t", &[]);
    let (member, generation) = broker.sole_member("g");
    let producer = broker.init();
    broker.add_offsets(producer, "g");
    broker.commit_offset(producer, ("g", generation, &member), "t", 7);
    broker.end(producer, true);
    broker.pass(60_000);
    let described = broker.ask(DescribeGroupsRequest::default().with_groups(vec![group_id("g")]), 0);
    assert_eq!(described.groups[0].group_state.as_str(), "Empty");
    assert_eq!(broker.stable_offset("g", "t"), (0, 7));
    let next_check = broker.now - broker.now % 600_000 + 600_000;
    assert_eq!(broker.machine.next_deadline(), Some(next_check), "only its offsets get older");
}

#[test]
fn a_promised_member_id_that_is_never_used_delays_no_longer_than_its_session() {
    let mut broker = Broker::new();
    broker.ask(join_request("g", "", None), 5);
    let (joining, _) = broker.join_new("g");
    assert!(broker.answer::<JoinGroupRequest>(joining).is_none());
    broker.pass(10_000);
    assert_eq!(broker.answer::<JoinGroupRequest>(joining).unwrap().generation_id, 1);
}

#[test]
fn a_member_that_leaves_is_out_at_once() {
    let mut broker = Broker::new();
    let (leader, other, generation) = two_members(&mut broker);
    let leaving = MemberIdentity::default().with_member_id(leader.clone().into());
    let request = LeaveGroupRequest::default().with_group_id(group_id("g")).with_members(vec![leaving]);
    assert_eq!(broker.ask(request, 3).members[0].error_code, 0);
    assert_eq!(beat(&mut broker, generation, &other), REBALANCE);
    let joined = broker.ask(join_request("g", &other, None), 5);
    assert_eq!(joined.leader.as_str(), other);
    assert_eq!(beat(&mut broker, generation, &leader), ResponseError::UnknownMemberId.code());
}

#[test]
fn a_join_in_the_middle_sends_waiting_syncs_back() {
    let mut broker = Broker::new();
    let (leader, other, generation) = two_members(&mut broker);
    let (third_joins, third) = broker.join_new("g");
    broker.post(join_request("g", &leader, None), 5);
    broker.ask(join_request("g", &other, None), 5);
    broker.answer::<JoinGroupRequest>(third_joins).unwrap();
    let waiting = broker.post(sync_request("g", generation + 1, &third, &[]), 3);
    broker.join_new("g");
    assert_eq!(broker.answer::<SyncGroupRequest>(waiting).unwrap().error_code, REBALANCE);
}

#[test]
fn a_member_that_never_fetches_its_assignment_is_out_after_the_rebalance_timeout() {
    let mut broker = Broker::new();
    let (joining, member) = broker.join_new("g");
    let joined = broker.answer::<JoinGroupRequest>(joining).unwrap();
    for _ in 0..60 {
        assert_eq!(beat(&mut broker, joined.generation_id, &member), 0);
        broker.pass(1_000);
    }
    assert_eq!(beat(&mut broker, joined.generation_id, &member), ResponseError::UnknownMemberId.code());
}

#[test]
fn assignors_without_a_common_one_are_refused() {
    let mut broker = Broker::new();
    broker.sole_member("g");
    let mut request = join_request("g", "", None);
    request.protocols[0].name = "sticky".into();
    assert_eq!(broker.ask(request, 5).error_code, ResponseError::InconsistentGroupProtocol.code());
}

#[test]
fn sessions_outside_the_limits_are_refused() {
    let mut broker = Broker::new();
    for timeout in [5_999, 1_800_001, -1] {
        let request = join_request("g", "", None).with_session_timeout_ms(timeout);
        assert_eq!(broker.ask(request, 5).error_code, ResponseError::InvalidSessionTimeout.code());
    }
}

#[test]
fn a_static_member_that_comes_back_keeps_generation_and_assignment_and_fences_its_predecessor() {
    let mut broker = Broker::new();
    let first = broker.ask(join_request("g", "", Some("i")), 5);
    let old = first.member_id.to_string();
    broker.ask(sync_request("g", first.generation_id, &old, &[(&old, "all")]), 3);

    let second = broker.ask(join_request("g", "", Some("i")), 5);
    assert_eq!(second.generation_id, first.generation_id);
    assert_ne!(second.member_id, first.member_id);
    assert_ne!(second.leader, second.member_id, "it must not assign anew");
    let sync = sync_request("g", second.generation_id, &second.member_id, &[]);
    assert_eq!(broker.ask(sync, 3).assignment, "all");
    let stale = heartbeat_request("g", first.generation_id, &old).with_group_instance_id(Some("i".into()));
    assert_eq!(broker.ask(stale, 3).error_code, ResponseError::FencedInstanceId.code());
}

#[test]
fn only_empty_groups_can_be_deleted() {
    let mut broker = Broker::new();
    broker.sole_member("g");
    let delete = || DeleteGroupsRequest::default().with_groups_names(vec![group_id("g")]);
    assert_eq!(broker.ask(delete(), 1).results[0].error_code, ResponseError::NonEmptyGroup.code());
    broker.pass(20_000);
    assert_eq!(broker.ask(delete(), 1).results[0].error_code, 0);
    assert_eq!(broker.ask(delete(), 1).results[0].error_code, ResponseError::GroupIdNotFound.code());
}

#[test]
fn a_static_member_that_gives_itself_no_time_to_rejoin_does_not_stop_the_clock() {
    let mut broker = Broker::new();
    let join = |member: &str, instance| join_request("g", member, Some(instance)).with_rebalance_timeout_ms(0);
    let first = broker.ask(join("", "i"), 5);
    broker.ask(sync_request("g", first.generation_id, &first.member_id, &[]), 3);
    broker.post(join("", "j"), 5);
    // The first one never comes back. `pass` fails on a deadline that is still due after it was met.
    broker.pass(60_000);
    assert_eq!(beat(&mut broker, first.generation_id, &first.member_id), ResponseError::UnknownMemberId.code());
}
