//! Questions for a group's coordinator: what was committed, who is a member.
//!
//! librdkafka must never be the one that gives up such a question. It goes on to look for the coordinator after its own timeout,
//! and when it finds it, it touches what it has freed and ends the process (its issues 3663 and 4605): so whoever asks while the
//! broker is away would crash when it comes back. Here a question has no end in librdkafka (an hour, but see below). The caller
//! waits as long as it likes, and if it asks the same again, it waits on for the same answer.

use std::time::{Duration, Instant};

use rdkafka_sys as sys;

use super::client::Client;
use super::error::{Code, Failure};
use super::host;
use super::queue::{Event, Queue};
use super::request::{Options, checked};
use crate::broker::BrokerError;

/// The longest that librdkafka takes as a timeout.
const NO_END: Duration = Duration::from_secs(3600);
/// A client that has had no answer for so long is replaced: well before the hour is over, and a new one has new connections.
const GIVE_UP: Duration = Duration::from_secs(30);

/// The questions of one client. What is in here must be gone before the client.
#[derive(Default)]
pub(super) struct Questions {
    open: Option<Question>,
    /// Since when nothing was answered.
    unanswered: Option<Instant>,
}

struct Question {
    what: String,
    queue: Queue,
}

impl Questions {
    /// Waits for the answer to a question, which `send` asks if it is not open already. `what` says it as a whole.
    pub(super) fn ask(
        &mut self,
        client: &Client,
        what: &str,
        operation: sys::rd_kafka_admin_op_t,
        timeout: Duration,
        send: impl FnOnce(&Options, &Queue) -> Result<(), BrokerError>,
    ) -> Result<Event, BrokerError> {
        let question = match self.open.take().filter(|open| open.what == what) {
            Some(open) => open,
            None => {
                let question = Question { what: what.to_owned(), queue: Queue::new(client)? };
                send(&Options::new(client, operation, NO_END)?, &question.queue)?;
                question
            }
        };
        match question.queue.event(timeout) {
            Some(event) => {
                self.unanswered = None;
                checked(event, what)
            }
            None => {
                self.unanswered.get_or_insert_with(host::now);
                self.open = Some(question);
                Err(Failure::from(Code::TIMED_OUT).general(what))
            }
        }
    }

    /// True once the client has had no answer for so long that a new one has better chances.
    pub(super) fn are_hopeless(&self) -> bool {
        self.unanswered.is_some_and(|since| host::now().saturating_duration_since(since) >= GIVE_UP)
    }
}
