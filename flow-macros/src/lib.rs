//! flow-macros
