//! Kills or restarts processes of a running application, and prints how long its output paused.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use benches::availability::{Event, Options, Plan, Report, Result, child, run};
use benches::cli;
use flow_kafka::embedded::EmbeddedBroker;

const HELP: &str = "\
Counts by key in several processes at a steady rate, kills or restarts them, checks every count, and prints how long the output of a
partition paused: of those that lost their owner, and of all others.

Usage: availability --kills N | --rolling ROUNDS [OPTIONS]

Options:
  --kills N            kill a process (SIGKILL) N times, and replace it each time
  --rolling ROUNDS     restart every process, one after the other, with a graceful stop; so many rounds
  --processes P        processes, with one worker each (default 3)
  --partitions N       partitions (default 12)
  --keys N             keys, each with a snapshot to restore (default 100000)
  --rate N             records per second (default 4000)
  --session-ms MS      session timeout (default 10000)
  --commit-ms MS       milliseconds between commits (default 100)
  --seed N             which process is killed, and when (default 1)
  --brokers HOST:PORT  use this Kafka (default: a broker inside this process)
  --json               end with one line of JSON
  --help               print this
";

struct Asked {
    options: Options,
    brokers: Option<String>,
    json: bool,
    is_child: bool,
}

fn main() -> ExitCode {
    cli::main("availability", HELP, parse, work)
}

/// What was asked; `None`: print the help.
fn parse(mut arguments: impl Iterator<Item = String>) -> std::result::Result<Option<Asked>, String> {
    let options = Options {
        brokers: String::new(),
        run: format!("availability-{:x}-{:x}", millis(), std::process::id()),
        processes: 3,
        partitions: 12,
        keys: 100_000,
        rate: 4_000,
        session: Duration::from_secs(10),
        commit: Duration::from_millis(100),
        plan: Plan::Kills(0),
        seed: 1,
    };
    let mut asked = Asked { options, brokers: None, json: false, is_child: false };
    let mut planned = false;
    while let Some(flag) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{flag} needs a value after it"));
        let number = |text: String| match text.parse::<u32>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("{flag} needs a number of at least 1, not `{text}`")),
        };
        let options = &mut asked.options;
        match flag.as_str() {
            "--kills" => (options.plan, planned) = (Plan::Kills(number(value()?)?), true),
            "--rolling" => (options.plan, planned) = (Plan::Rolling(number(value()?)?), true),
            "--processes" => options.processes = number(value()?)? as usize,
            "--partitions" => options.partitions = number(value()?)?.min(1_000) as i32,
            "--keys" => options.keys = number(value()?)?,
            "--rate" => options.rate = number(value()?)?,
            "--session-ms" => options.session = Duration::from_millis(number(value()?)?.into()),
            "--commit-ms" => options.commit = Duration::from_millis(number(value()?)?.into()),
            "--seed" => options.seed = number(value()?)?.into(),
            "--brokers" => asked.brokers = Some(value()?),
            "--child-of" => (options.run, asked.is_child, planned) = (value()?, true, true),
            "--json" => asked.json = true,
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("unknown argument `{flag}`")),
        }
    }
    if planned { Ok(Some(asked)) } else { Err("--kills or --rolling is missing".into()) }
}

fn work(asked: Asked) -> Result<ExitCode> {
    let embedded = if asked.brokers.is_none() { Some(EmbeddedBroker::start("127.0.0.1:0")?) } else { None };
    let brokers = asked.brokers.or(embedded.as_ref().map(EmbeddedBroker::bootstrap)).ok_or("no broker")?;
    let options = Options { brokers, ..asked.options };
    if asked.is_child {
        return child(&options);
    }
    eprintln!(
        "availability: {} processes, {} partitions, {} keys, {} records/s, session timeout {} ms",
        options.processes,
        options.partitions,
        options.keys,
        options.rate,
        options.session.as_millis()
    );
    println!("{:<28} {:>10} {:>14} {:>12}", "event", "lost owner", "their pause ms", "others ms");
    let report = run(&options, &mut line)?;
    summary(&report);
    let exact = report.wrong == 0 && report.unfinished == 0;
    if asked.json {
        println!("{}", serde_json::json!({ "exact": exact, "report": report }));
    }
    Ok(if exact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn line(event: &Event) {
    let pauses = &event.pauses;
    println!("{:<28} {:>10} {:>14} {:>12}", event.what, pauses.affected, pauses.affected_ms, pauses.others_ms);
}

fn summary(report: &Report) {
    let sorted = |of: &dyn Fn(&Event) -> Option<u64>| {
        let mut all: Vec<u64> = report.events.iter().filter_map(of).collect();
        all.sort_unstable();
        all
    };
    let say = |what: &str, all: &[u64]| {
        if let (Some(median), Some(worst)) = (all.get(all.len() / 2), all.last()) {
            println!("{what}: median {median} ms, worst {worst} ms");
        }
    };
    say("partitions that lost their owner", &sorted(&|e| (e.pauses.affected > 0).then_some(e.pauses.affected_ms)));
    say("all other partitions", &sorted(&|e| Some(e.pauses.others_ms)));
    println!("{} records, {} wrong counts, {} keys unfinished", report.records, report.wrong, report.unfinished);
}

#[allow(clippy::disallowed_methods, reason = "names must differ between runs")]
fn millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis())
}
