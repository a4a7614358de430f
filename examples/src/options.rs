//! What the user asked for on the command line. Eight flags do not pay for a parser crate: this is the whole of it.

use std::fmt;

/// What an example was asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Records of input to make.
    pub records: u64,
    /// Different keys among them.
    pub keys: u64,
    /// Partitions of every topic.
    pub partitions: i32,
    /// Seed of the input: the same seed gives the same records.
    pub seed: u64,
    /// Worker threads, in each process.
    pub workers: usize,
    /// Processes that run the workers; `None`: they run in this one.
    pub processes: Option<usize>,
    /// After this many records a process with an open transaction is killed and started again; once for each number.
    pub kill_after: Vec<u64>,
    /// Brokers of a real Kafka; `None`: a broker inside this process.
    pub brokers: Option<String>,
    /// Milliseconds between commits.
    pub commit_ms: u64,
    /// Ends with one line of JSON.
    pub json: bool,
    /// Shows what the library logs.
    pub verbose: bool,
    /// Set by a parent for the processes it starts: the run that they belong to.
    pub child_of: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            records: 200_000,
            keys: 1_000,
            partitions: 4,
            seed: 1,
            workers: 2,
            processes: None,
            kill_after: Vec::new(),
            brokers: None,
            commit_ms: 100,
            json: false,
            verbose: false,
            child_of: None,
        }
    }
}

/// What to do with the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Run.
    Run(Options),
    /// Print the help and stop.
    Help,
}

/// A command line that means nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The flags, for `--help`.
pub(crate) const HELP: &str = "\
Options:
  --records N          records of input to make (default 200000)
  --keys K             different keys among them (default 1000)
  --partitions N       partitions of each topic (default 4)
  --seed S             seed of the input; the same seed makes the same records (default 1)
  --workers W          worker threads, in each process (default 2)
  --processes P        run the workers in P processes of their own; this one keeps the broker and the check
  --kill-after N       after N records, kill (SIGKILL) one of the processes while it has a transaction open, and start it
                       again; may be given several times; needs --processes
  --brokers HOST:PORT  use this Kafka (default: a broker inside this process); topics of this run get names of their own,
                       which are deleted again if the result was exact
  --commit-ms MS       milliseconds between commits (default 100)
  --json               end with one line of JSON
  --verbose            show what the library logs
  --help               print this
";

impl Options {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    ///
    /// An unknown flag, a missing or malformed value, or flags that contradict each other.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Asked, Usage> {
        let mut options = Options::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let (flag, mut inline) = match argument.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None => (argument, None),
            };
            let mut value = |what: &str| match inline.take().or_else(|| arguments.next()) {
                Some(value) => Ok(value),
                None => Err(Usage(format!("{flag} needs {what} after it"))),
            };
            match flag.as_str() {
                "--records" => options.records = number(&flag, &value("a number")?, 1, u64::MAX)?,
                "--keys" => options.keys = number(&flag, &value("a number")?, 1, 100_000_000)?,
                "--partitions" => options.partitions = number(&flag, &value("a number")?, 1, 1_000)? as i32,
                "--seed" => options.seed = number(&flag, &value("a number")?, 0, u64::MAX)?,
                "--workers" => options.workers = number(&flag, &value("a number")?, 1, 256)? as usize,
                "--processes" => options.processes = Some(number(&flag, &value("a number")?, 1, 64)? as usize),
                "--kill-after" => options.kill_after.push(number(&flag, &value("a number of records")?, 1, u64::MAX)?),
                "--brokers" => options.brokers = Some(value("HOST:PORT")?),
                "--commit-ms" => options.commit_ms = number(&flag, &value("a number")?, 1, 4_000)?,
                "--child-of" => options.child_of = Some(value("a run")?),
                "--json" => options.json = true,
                "--verbose" => options.verbose = true,
                "--help" | "-h" => return Ok(Asked::Help),
                _ => return Err(Usage(format!("unknown argument `{flag}`"))),
            }
            if let Some(value) = inline {
                return Err(Usage(format!("{flag} takes no value, but got `{value}`")));
            }
        }
        options.check()?;
        Ok(Asked::Run(options))
    }

    fn check(&mut self) -> Result<(), Usage> {
        self.kill_after.sort_unstable();
        if self.brokers.as_ref().is_some_and(|brokers| !brokers.contains(':')) {
            return Err(Usage("--brokers needs HOST:PORT, as in 127.0.0.1:9092".into()));
        }
        if !self.kill_after.is_empty() && self.processes.is_none() {
            return Err(Usage("--kill-after needs --processes: it kills one of them".into()));
        }
        if self.kill_after.last().is_some_and(|&last| last >= self.records) {
            return Err(Usage(format!("--kill-after must be less than --records ({})", self.records)));
        }
        Ok(())
    }

    /// The arguments that start a process of the run `run` on `brokers`.
    pub(crate) fn for_child(&self, run: &str, brokers: &str) -> Vec<String> {
        let pairs = [
            ("--child-of", run.to_owned()),
            ("--brokers", brokers.to_owned()),
            ("--workers", self.workers.to_string()),
            ("--partitions", self.partitions.to_string()),
            ("--commit-ms", self.commit_ms.to_string()),
        ];
        let pairs = pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
        pairs.chain(self.verbose.then(|| "--verbose".to_owned())).collect()
    }
}

fn number(flag: &str, text: &str, least: u64, most: u64) -> Result<u64, Usage> {
    let digits: String = text.chars().filter(|&c| c != '_').collect();
    match digits.parse::<u64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        Ok(_) if most == u64::MAX => Err(Usage(format!("{flag} must be at least {least}, not {text}"))),
        Ok(_) => Err(Usage(format!("{flag} must be between {least} and {most}, not {text}"))),
        Err(_) => Err(Usage(format!("{flag} needs a number, not `{text}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        match Options::parse(line.split_whitespace().map(str::to_owned)) {
            Ok(Asked::Run(options)) => Ok(options),
            Ok(Asked::Help) => Err("help".into()),
            Err(usage) => Err(usage.to_string()),
        }
    }

    #[test]
    fn flags_are_read_with_a_space_or_an_equals_sign() {
        let options = parse("--records 5_000 --workers=3 --json --processes 2 --kill-after 9 --kill-after 7").unwrap();
        assert_eq!((options.records, options.workers, options.json), (5_000, 3, true));
        assert_eq!((options.processes, options.kill_after), (Some(2), vec![7, 9]));
    }

    #[test]
    fn what_means_nothing_is_refused_with_its_name() {
        assert_eq!(parse("--recrods 5").unwrap_err(), "unknown argument `--recrods`");
        assert_eq!(parse("--records").unwrap_err(), "--records needs a number after it");
        assert_eq!(parse("--records many").unwrap_err(), "--records needs a number, not `many`");
        assert_eq!(parse("--records 0").unwrap_err(), "--records must be at least 1, not 0");
        assert_eq!(parse("--workers 0").unwrap_err(), "--workers must be between 1 and 256, not 0");
        assert_eq!(parse("--json=yes").unwrap_err(), "--json takes no value, but got `yes`");
        assert_eq!(parse("--brokers kafka").unwrap_err(), "--brokers needs HOST:PORT, as in 127.0.0.1:9092");
        assert_eq!(parse("--kill-after 5").unwrap_err(), "--kill-after needs --processes: it kills one of them");
        assert_eq!(
            parse("--processes 2 --records 10 --kill-after 10").unwrap_err(),
            "--kill-after must be less than --records (10)"
        );
    }
}
