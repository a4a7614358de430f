//! The rdkafka side of the broker seam, each of its methods against a broker: the one that `KAFKA_BOOTSTRAP` names, or else the
//! embedded one, over TCP.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

mod admin;
mod consumer;
mod producer;
mod reader;
