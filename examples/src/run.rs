//! One run of an example, from an empty topic to the verdict.

use std::process::ExitCode;

use flow_core::{Topic, Topology, TopologyError};
use flow_kafka::embedded::EmbeddedBroker;

use crate::drive::{Drive, Feed};
use crate::kafka::{Admin, Feeder, Reader};
use crate::killer::Killer;
use crate::logging;
use crate::options::{Asked, HELP};
use crate::outcome::Outcome;
use crate::progress::{Progress, grouped};
use crate::workers::{self, Workers};
use crate::{Error, Input, Options, Results, Times, Verdict, unix_millis};

/// What makes an example.
pub struct Example {
    /// Its name, which is its binary's.
    pub name: &'static str,
    /// What it does, for `--help`.
    pub about: &'static str,
    /// The topic that it reads.
    pub input_topic: &'static str,
    /// The topic that it writes.
    pub output_topic: &'static str,
    /// What its results are, as in "200 sessions closed".
    pub results: &'static str,
    /// The program: what the example is about.
    pub topology: fn(&Run) -> Result<Topology, TopologyError>,
    /// Makes the input: the same for the same options.
    pub input: fn(&Options) -> Input,
    /// Computes what must come out, without the library.
    pub expected: fn(Input) -> Results,
    /// Whether the results' timestamps follow from the input alone.
    pub times: Times,
}

/// One run: its name makes the names of everything that it has on a broker, so runs never meet.
pub struct Run {
    name: String,
}

impl Run {
    fn new(example: &str) -> Run {
        Run { name: format!("{example}-{:x}-{:x}", unix_millis(), std::process::id()) }
    }

    /// This run's own topic in place of `topic`. A program of yours would use its constants as they are.
    pub fn topic<K: ?Sized, V: ?Sized, KC, VC>(&self, topic: Topic<K, V, KC, VC>) -> Topic<K, V, KC, VC> {
        // A topic is a constant, so its name must live for ever: two short strings a process do.
        Topic::new(self.name_of(topic.name()).leak())
    }

    fn name_of(&self, topic: &str) -> String {
        format!("{}.{topic}", self.name)
    }
}

impl Example {
    /// The example's `main`: reads the command line, runs, prints, answers.
    pub fn main(&self) -> ExitCode {
        match Options::parse(std::env::args().skip(1)) {
            Ok(Asked::Help) => {
                println!("{}\n\nUsage: {} [OPTIONS]\n\n{HELP}", self.about, self.name);
                ExitCode::SUCCESS
            }
            Err(usage) => {
                eprintln!("{}: {usage} (see {} --help)", self.name, self.name);
                ExitCode::from(2)
            }
            Ok(Asked::Run(options)) => self.go(&options).unwrap_or_else(|error| {
                eprintln!("{}: {error}", self.name);
                ExitCode::FAILURE
            }),
        }
    }

    fn go(&self, options: &Options) -> Result<ExitCode, Error> {
        if options.verbose {
            logging::show();
        }
        if let (Some(run), Some(brokers)) = (&options.child_of, &options.brokers) {
            let topology = (self.topology)(&Run { name: run.clone() })?;
            return workers::child(options, run, brokers, topology);
        }
        let embedded = if options.brokers.is_none() { Some(EmbeddedBroker::start("127.0.0.1:0")?) } else { None };
        let brokers = match (&options.brokers, &embedded) {
            (Some(brokers), _) => brokers.clone(),
            (None, Some(broker)) => broker.bootstrap(),
            (None, None) => unreachable!("one of the two was just made"),
        };
        let outcome = self.run(options, &brokers)?;
        println!("{}", outcome.text(self.results));
        if options.json {
            println!("{}", outcome.json());
        }
        Ok(if outcome.verdict.exact() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn run(&self, options: &Options, brokers: &str) -> Result<Outcome, Error> {
        let run = Run::new(self.name);
        let (input, output) = (run.name_of(self.input_topic), run.name_of(self.output_topic));
        let topology = (self.topology)(&run)?;
        let mut progress = Progress::new();
        let admin = Admin::new(brokers)?;
        admin.create(&[&input, &output], options.partitions)?;

        progress.say(&format!("{}: computing what must come out of {} records", self.name, grouped(options.records)));
        let expected = (self.expected)((self.input)(options));
        let feed = Feed { feeder: Feeder::new(brokers, &input)?, rest: (self.input)(options), total: options.records };
        let killer = match &options.kill_after[..] {
            [] => None,
            after => Some(Killer::new(brokers, &run.name, &input, after)?),
        };
        let reader = Reader::new(brokers, &output, options.partitions)?;
        let first = options.kill_after.first().copied().unwrap_or(options.records);
        let mut drive = Drive { name: self.name, feed, reader, killer, progress, first };
        drive.fill()?;
        let (time, done) = drive.drain(Workers::start(options, &run.name, brokers, topology)?, expected.len())?;
        let (results, misplaced) = drive.finish()?;

        let verdict = Verdict { misplaced, ..expected.compare(&results, self.times) };
        if options.brokers.is_some() && verdict.exact() {
            admin.delete(&run.name)?;
        }
        let (records, outputs, seconds) = (options.records, results.len(), time.as_secs_f64());
        Ok(Outcome { example: self.name, records, outputs, seconds, done, kills: options.kill_after.len(), verdict })
    }
}
