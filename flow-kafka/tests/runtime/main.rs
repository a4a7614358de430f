//! The runtime on a real client: what bad input gets, and what a stale owner cannot do.
//!
//! Runs on the broker at `KAFKA_BOOTSTRAP`, or on an embedded one over TCP.

#![allow(clippy::disallowed_methods, reason = "a real client on a real broker lives in real time")]
#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod bad_input;
mod bad_topics;
mod dead_letters;
mod failover;
mod gaps;
mod gate;
mod kafka;
mod manual;
mod membership;
mod moving;
mod outage_log;
mod outages;
mod progress;
mod proxy;
mod purge;
mod several_inputs;
mod stale_owner;
mod threads;
