//! Offsets outside of transactions.

use super::code;
use super::group::Member;
use crate::cluster::Cluster;

#[test]
fn offsets_are_taken_from_members_of_the_generation() {
    let cluster = Cluster::new("commit");
    let topic = cluster.topic("t", 2);
    let mut wire = cluster.connect();
    let mut member = Member::join(&mut wire, &cluster.name("g"), &topic);
    let (generation, id) = (member.generation, member.id.to_string());

    assert_eq!(member.commit(generation, &id, 1), code::NONE);
    assert_eq!(member.commit(generation + 5, &id, 2), code::ILLEGAL_GENERATION);
    assert_eq!(member.commit(generation - 1, &id, 2), code::ILLEGAL_GENERATION);
    assert_eq!(member.commit(generation, "nobody", 2), code::UNKNOWN_MEMBER_ID);
    assert_eq!(member.commit(-1, "", 2), code::UNKNOWN_MEMBER_ID);
    assert_eq!(member.stable_offset(), (code::NONE, 1), "none of the refused offsets was stored");
}
