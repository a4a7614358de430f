//! What is noted beside each committed offset: the clocks, who committed, and the commit's number.
//!
//! The note travels as the offset's metadata, inside the transaction. The clocks make a record that was late before a crash
//! late after it (`build()` refuses a topology whose clocks would not fit the 4,096 bytes that a broker takes). The transactional id with the commit number tells, after an unknown outcome, whether a commit happened;
//! offsets alone cannot tell when only a timer fired. The member id lets a successor ask whether the owner still lives.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::Timestamp;
use serde::{Deserialize, Serialize};

/// The note beside one committed offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// Rises by one with each commit of the task.
    pub(crate) commit: u64,
    /// The producer that committed; unique for each incarnation of a worker.
    pub(crate) transactional_id: String,
    /// The group member that committed.
    pub(crate) member: String,
    /// The clock of each time-keeping store of the task.
    pub(crate) clocks: BTreeMap<String, Timestamp>,
    /// Stores that have ever written a snapshot: where the log of one is empty, its state is gone.
    pub(crate) written: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: u32,
    n: u64,
    tx: String,
    m: String,
    c: BTreeMap<String, Timestamp>,
    s: BTreeSet<String>,
}

impl Note {
    /// The text of the note.
    pub(crate) fn encode(&self) -> String {
        let wire = Wire {
            v: 1,
            n: self.commit,
            tx: self.transactional_id.clone(),
            m: self.member.clone(),
            c: self.clocks.clone(),
            s: self.written.clone(),
        };
        serde_json::to_string(&wire).expect("strings and numbers always encode")
    }

    /// Reads a note. An empty text is an offset that somebody else set (a reset by hand): no clocks, commit 0.
    pub(crate) fn decode(text: &str) -> Result<Note, String> {
        if text.is_empty() {
            return Ok(Note::default());
        }
        #[derive(Deserialize)]
        struct Version {
            v: u32,
        }
        let wrong = |e: serde_json::Error| format!("the offset's metadata is not ours ({e}): {text}");
        let version: Version = serde_json::from_str(text).map_err(wrong)?;
        if version.v != 1 {
            return Err(format!(
                "the offset's metadata has version {}, this release reads version 1: it was committed by a newer release",
                version.v
            ));
        }
        let wire: Wire = serde_json::from_str(text).map_err(wrong)?;
        Ok(Note { commit: wire.n, transactional_id: wire.tx, member: wire.m, clocks: wire.c, written: wire.s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_as_it_was_written() {
        let note = Note {
            commit: 7,
            transactional_id: "app-1".into(),
            member: "m-1".into(),
            clocks: BTreeMap::from([("sessions".to_owned(), Timestamp::from_millis(-5))]),
            written: BTreeSet::from(["sessions".to_owned()]),
        };
        let text = note.encode();
        assert_eq!(text, r#"{"v":1,"n":7,"tx":"app-1","m":"m-1","c":{"sessions":-5},"s":["sessions"]}"#);
        assert_eq!(Note::decode(&text), Ok(note));
    }

    #[test]
    fn an_offset_set_by_hand_has_no_clocks() {
        assert_eq!(Note::decode(""), Ok(Note::default()));
    }

    #[test]
    fn a_newer_or_foreign_note_is_refused_with_both_versions() {
        let error = Note::decode(r#"{"v":2,"x":1}"#).unwrap_err();
        assert!(error.contains("version 2") && error.contains("version 1"), "{error}");
        assert!(Note::decode("hello").unwrap_err().contains("not ours"));
    }
}
