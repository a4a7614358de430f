//! What the benches share: records, the jobs on the engine, the same jobs written by hand, and the pipeline end to end.

pub mod availability;
pub mod cli;
pub mod data;
pub mod e2e;
pub mod engine;
pub mod hand;
pub mod process;
pub mod send;
