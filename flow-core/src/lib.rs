//! flow-core: stateful stream processing as a function.
