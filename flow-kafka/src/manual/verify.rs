//! The answer to a commit, compared with what was asked for.

use std::fmt;

use flow_core::Offset;

use crate::broker::{BrokerError, CommitAnswer, TopicPartition};

/// A commit that did not end as it was asked for. Nothing of it counts as committed.
#[derive(Debug)]
#[non_exhaustive]
pub struct CommitError {
    /// The group.
    pub group: String,
    /// What was asked for, and what is now known, of every partition.
    pub partitions: Vec<PartitionOutcome>,
    /// Why there is no answer for single partitions, if there is none.
    pub cause: Option<BrokerError>,
}

/// What became of one partition's offset.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PartitionOutcome {
    /// The partition.
    pub partition: TopicPartition,
    /// The offset to be committed.
    pub asked: Offset,
    /// What the answer says of it.
    pub known: Known,
}

/// What is known of a partition's offset after a commit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Known {
    /// It is what was asked for.
    Committed,
    /// The broker refused it; it is what it was before.
    Refused(BrokerError),
    /// The answer has another offset.
    Other(Offset),
    /// The answer does not name the partition: it may be committed or not.
    Missing,
    /// There was no answer: it may be committed or not.
    Unknown,
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Known::Committed => f.write_str("committed"),
            Known::Refused(error) => write!(f, "refused ({error})"),
            Known::Other(offset) => write!(f, "answered with offset {offset}"),
            Known::Missing => f.write_str("not in the answer: committed or not"),
            Known::Unknown => f.write_str("committed or not"),
        }
    }
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the commit of group {} failed, and none of it counts", self.group)?;
        if let Some(cause) = &self.cause {
            write!(f, ": {cause}")?;
        }
        for (at, PartitionOutcome { partition, asked, known }) in self.partitions.iter().enumerate() {
            write!(f, "{} {partition} to offset {asked}: {known}", if at == 0 { ";" } else { "," })?;
        }
        Ok(())
    }
}

impl std::error::Error for CommitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

/// Nothing but exactly what was asked for, of each partition, is good.
pub(super) fn verify(
    group: &str,
    asked: &[(TopicPartition, Offset)],
    answer: Result<Vec<CommitAnswer>, BrokerError>,
) -> Result<(), CommitError> {
    let (answers, cause) = match answer {
        Ok(answers) => (Some(answers), None),
        Err(cause) => (None, Some(cause)),
    };
    let known = |partition: &TopicPartition, offset: Offset| {
        let Some(answers) = &answers else { return Known::Unknown };
        // It should be there once. Where it is there twice, the worse answer counts.
        let own: Vec<&CommitAnswer> = answers.iter().filter(|answer| answer.partition == *partition).collect();
        if let Some(error) = own.iter().find_map(|answer| answer.error.clone()) {
            return Known::Refused(error);
        }
        match own.iter().find(|answer| answer.offset != offset) {
            Some(other) => Known::Other(other.offset),
            None if own.is_empty() => Known::Missing,
            None => Known::Committed,
        }
    };
    let partitions: Vec<PartitionOutcome> = asked
        .iter()
        .map(|(partition, offset)| PartitionOutcome {
            partition: partition.clone(),
            asked: *offset,
            known: known(partition, *offset),
        })
        .collect();
    if cause.is_none() && partitions.iter().all(|outcome| matches!(outcome.known, Known::Committed)) {
        return Ok(());
    }
    Err(CommitError { group: group.to_owned(), partitions, cause })
}
