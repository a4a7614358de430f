//! Why a run ended.

use std::any::Any;
use std::fmt;

use flow_core::TaskError;

use crate::broker::{Assignor, BrokerError, TopicPartition};

/// Why a topology did not start, or stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The configuration is wrong; all that is wrong with it.
    Config(Vec<String>),
    /// The topics on the broker do not fit the topology; all that does not fit.
    Topics(Vec<String>),
    /// The broker did not answer at start.
    BrokerAway {
        /// The address that was tried.
        bootstrap: String,
        /// For how long, in milliseconds.
        waited_ms: u64,
        /// What the client said last.
        cause: BrokerError,
    },
    /// A record could not be processed, and the policy is to stop. Its offset is not committed.
    Record(TaskError),
    /// A step panicked. The record's offset is not committed.
    Panic {
        /// The record's partition and offset, if a record was being processed.
        at: Option<(TopicPartition, i64)>,
        /// The step that panicked.
        step: String,
        /// The panic's message.
        message: String,
    },
    /// A task could not be recovered.
    Recovery {
        /// The task's first input partition.
        task: TopicPartition,
        /// What is wrong, and what to do.
        message: String,
    },
    /// A commit failed again and again.
    Commit {
        /// How often it was tried.
        attempts: u32,
        /// The last failure.
        cause: BrokerError,
    },
    /// Another process joined the group under the name of a static member that was this process's.
    InstanceTaken {
        /// The group: the application id.
        group: String,
        /// The member's name.
        instance: String,
        /// What the client said.
        cause: BrokerError,
    },
    /// One record took longer than the group waits for a poll (`max.poll.interval.ms`), twice, and each time the partition was given to
    /// another process before it could commit. They would take it from each other for ever.
    TooSlow {
        /// The record's partition.
        at: TopicPartition,
        /// Its offset.
        offset: i64,
        /// The last step that it went through.
        step: String,
        /// How long it took, in milliseconds.
        took_ms: u64,
        /// How long the group waits, in milliseconds.
        limit_ms: u64,
    },
    /// The members of the group assign partitions in another way than this topology does.
    Assignor {
        /// The group: the application id.
        group: String,
        /// How this topology has them assigned.
        ours: Assignor,
        /// What the client said.
        cause: BrokerError,
    },
    /// The client or the broker refused something for good.
    Broker {
        /// What was being done.
        doing: String,
        /// What the client said.
        cause: BrokerError,
    },
    /// A thread of the runtime panicked: a defect of this library.
    Internal(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Config(wrong) => list(f, "the configuration is wrong", wrong),
            RunError::Topics(wrong) => list(f, "the topics do not fit the topology", wrong),
            RunError::BrokerAway { bootstrap, waited_ms, cause } => {
                write!(
                    f,
                    "no broker answered at {bootstrap} within {waited_ms} ms ({cause}): is the address right, and is Kafka running?"
                )
            }
            RunError::Record(error) => write!(f, "{error}"),
            RunError::Panic { at: Some((partition, offset)), step, message } => {
                write!(
                    f,
                    "step `{step}` panicked at {partition} offset {offset}: {message}; the offset was not committed"
                )
            }
            RunError::Panic { at: None, step, message } => write!(f, "step `{step}` panicked in a timer: {message}"),
            RunError::Recovery { task, message } => write!(f, "the task of {task} cannot be recovered: {message}"),
            RunError::Commit { attempts, cause } => {
                write!(f, "the commit failed {attempts} times in a row, nothing of it is visible: {cause}")
            }
            RunError::InstanceTaken { group, instance, cause } => write!(
                f,
                "another process joined group `{group}` as the static member `{instance}`, which was this process, so this one ends: \
                 give each process an instance name of its own, and start one only when its predecessor of that name has ended \
                 ({cause})"
            ),
            RunError::TooSlow { at, offset, step, took_ms, limit_ms } => write!(
                f,
                "{at} offset {offset} took {took_ms} ms, twice and in vain: the group gives the partitions of a worker away that does \
                 not poll for max_poll_interval = {limit_ms} ms, so it may never get done (the last step that it went through is \
                 `{step}`). Make that step faster, or raise KafkaConfig::max_poll_interval"
            ),
            RunError::Assignor { group, ours, cause } => {
                let why = match ours {
                    Assignor::Range => "because one of its tasks has several inputs",
                    Assignor::CooperativeSticky => "because each of its tasks has one input",
                };
                write!(
                    f,
                    "group `{group}` has members that assign partitions in another way, and refuses this process, whose topology \
                     wants `{ours}` {why}: the two kinds cannot run side by side, so switching needs a full stop. Stop every process \
                     of this application, then start the new ones ({cause})"
                )
            }
            RunError::Broker { doing, cause } => write!(f, "{doing}: {cause}"),
            RunError::Internal(message) => write!(f, "a runtime thread failed, which is a defect of flow: {message}"),
        }
    }
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}

fn list(f: &mut fmt::Formatter<'_>, title: &str, wrong: &[String]) -> fmt::Result {
    if let [one] = wrong {
        return write!(f, "{title}: {one}");
    }
    write!(f, "{title}:")?;
    wrong.iter().try_for_each(|line| write!(f, "\n  - {line}"))
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RunError::Record(error) => Some(error),
            RunError::BrokerAway { cause, .. }
            | RunError::Commit { cause, .. }
            | RunError::InstanceTaken { cause, .. }
            | RunError::Assignor { cause, .. }
            | RunError::Broker { cause, .. } => Some(cause),
            _ => None,
        }
    }
}
