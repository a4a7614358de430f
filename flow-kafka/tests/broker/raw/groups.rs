//! Generations and members.

use super::code;
use super::group::Member;
use crate::cluster::Cluster;

#[test]
fn a_member_gets_its_assignment_in_its_own_generation_only() {
    let cluster = Cluster::new("sync");
    let topic = cluster.topic("t", 2);
    let mut wire = cluster.connect();
    let mut member = Member::join(&mut wire, &cluster.name("g"), &topic);

    assert_eq!(member.sync(member.generation), code::NONE);
    assert_eq!(member.sync(member.generation + 5), code::ILLEGAL_GENERATION);
}

#[test]
fn heartbeats_are_taken_from_members_of_the_generation() {
    let cluster = Cluster::new("heartbeat");
    let topic = cluster.topic("t", 2);
    let mut wire = cluster.connect();
    let mut member = Member::join(&mut wire, &cluster.name("g"), &topic);
    let (generation, id) = (member.generation, member.id.to_string());

    assert_eq!(member.heartbeat(generation, &id), code::NONE);
    assert_eq!(member.heartbeat(generation + 5, &id), code::ILLEGAL_GENERATION);
    assert_eq!(member.heartbeat(generation, "nobody"), code::UNKNOWN_MEMBER_ID);
}
