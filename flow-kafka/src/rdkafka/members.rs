//! Who is in a group (`DescribeGroups`).

use std::time::Duration;

use rdkafka_sys as sys;

use super::client::{Client, c_string};
use super::coordinator::Questions;
use super::error::{Failure, text};
use super::raw;
use super::request::array;
use crate::broker::{BrokerError, ErrorKind};

/// The ids of the members of a group that has some.
pub(super) fn members(
    client: &Client,
    questions: &mut Questions,
    group: &str,
    timeout: Duration,
) -> Result<Vec<String>, BrokerError> {
    let what = format!("describe the group {group}");
    let operation = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS;
    let event = questions.ask(client, &what, operation, timeout, |options, queue| {
        let name = c_string(group)?;
        let mut names = [name.as_ptr()];
        // SAFETY: client, name, options and queue live for the call; librdkafka copies the name.
        unsafe {
            let count = names.len();
            sys::rd_kafka_DescribeConsumerGroups(client.raw(), names.as_mut_ptr(), count, options.raw(), queue.raw());
        }
        Ok(())
    })?;
    let mut found = Vec::new();
    // SAFETY: the answer is of this request; groups and members in it live with the event.
    unsafe {
        let result = sys::rd_kafka_event_DescribeConsumerGroups_result(event.raw());
        let mut count = 0;
        let groups = sys::rd_kafka_DescribeConsumerGroups_result_groups(result, &raw mut count);
        for group in array(groups.cast_const(), count) {
            Failure::read(sys::rd_kafka_ConsumerGroupDescription_error(*group))
                .map_err(|failure| failure.general(&what))?;
            let state = raw::rd_kafka_ConsumerGroupDescription_state(*group);
            if !LIVES.contains(&state) {
                let message =
                    format!("{what}: it is in state {state} of librdkafka's, in which nobody is a member for sure");
                return Err(BrokerError::new(ErrorKind::Retriable, message));
            }
            let members = 0..sys::rd_kafka_ConsumerGroupDescription_member_count(*group);
            found.extend(members.map(|index| {
                let member = sys::rd_kafka_ConsumerGroupDescription_member(*group, index);
                text(sys::rd_kafka_MemberDescription_consumer_id(member)).to_owned()
            }));
        }
    }
    Ok(found)
}

/// States of a group that has members and knows them.
const LIVES: [i32; 3] = {
    use sys::rd_kafka_consumer_group_state_t as State;
    [
        State::RD_KAFKA_CONSUMER_GROUP_STATE_PREPARING_REBALANCE as i32,
        State::RD_KAFKA_CONSUMER_GROUP_STATE_COMPLETING_REBALANCE as i32,
        State::RD_KAFKA_CONSUMER_GROUP_STATE_STABLE as i32,
    ]
};
