use std::fmt;

/// Every rule that a topology breaks, each with the lines of the program that break it.
#[derive(Debug, PartialEq, Eq)]
pub struct TopologyError {
    broken: Vec<String>,
}

impl TopologyError {
    pub(crate) fn new(broken: Vec<String>) -> Self {
        TopologyError { broken }
    }

    /// The broken rules, one text each.
    pub fn rules(&self) -> &[String] {
        &self.broken
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the topology cannot be built")?;
        self.broken.iter().try_for_each(|rule| write!(f, "\n- {rule}"))
    }
}

impl std::error::Error for TopologyError {}
