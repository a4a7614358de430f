//! Fills a topic, drains it exactly once, checks every output record, and prints how fast that was and what it took.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use benches::cli;
use benches::e2e::{Measured, Options, Result, Workload, check, drain, fill};
use flow_kafka::embedded::EmbeddedBroker;
use serde::Serialize;

const HELP: &str = "\
Fills a topic with 100-byte records, drains it exactly once with one worker, checks every output record.

Usage: e2e --workload passthrough|count|raw-count [OPTIONS]

Options:
  --workload W         passthrough: from topic to topic; count: count by key; raw-count: the same by hand on rdkafka
  --records N          records to drain (default 1000000)
  --commit-ms MS       milliseconds between commits (default 100)
  --brokers HOST:PORT  use this Kafka (default: a broker inside this process, whose speed is then measured as well)
  --json               end with one line of JSON
  --help               print this
";

struct Asked {
    workload: Option<Workload>,
    records: u64,
    commit_ms: u64,
    brokers: Option<String>,
    json: bool,
    /// Set for the process that drains: the run that it belongs to.
    child_of: Option<String>,
}

#[derive(Serialize)]
struct Line<'a> {
    workload: &'a str,
    records: u64,
    outputs: u64,
    seconds: f64,
    records_per_second: u64,
    cpu_us_per_record: Option<f64>,
    peak_rss_kib: Option<u64>,
    startup_seconds: f64,
    commits: u64,
    exact: bool,
}

fn main() -> ExitCode {
    cli::main("e2e", HELP, parse, |asked| run(&asked))
}

/// What was asked; `None`: print the help.
fn parse(mut arguments: impl Iterator<Item = String>) -> std::result::Result<Option<Asked>, String> {
    let mut asked =
        Asked { workload: None, records: 1_000_000, commit_ms: 100, brokers: None, json: false, child_of: None };
    while let Some(flag) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{flag} needs a value after it"));
        let number = |text: String| match text.parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("{flag} needs a number of at least 1, not `{text}`")),
        };
        match flag.as_str() {
            "--workload" => asked.workload = Some(value()?.parse()?),
            "--records" => asked.records = number(value()?)?,
            "--commit-ms" => asked.commit_ms = number(value()?)?,
            "--brokers" => asked.brokers = Some(value()?),
            "--child-of" => asked.child_of = Some(value()?),
            "--json" => asked.json = true,
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("unknown argument `{flag}`")),
        }
    }
    if asked.workload.is_none() {
        return Err("--workload is missing: passthrough, count or raw-count".into());
    }
    Ok(Some(asked))
}

fn run(asked: &Asked) -> Result<ExitCode> {
    let embedded = if asked.brokers.is_none() { Some(EmbeddedBroker::start("127.0.0.1:0")?) } else { None };
    let brokers = asked.brokers.clone().or(embedded.as_ref().map(EmbeddedBroker::bootstrap)).ok_or("no broker")?;
    let run = asked.child_of.clone().unwrap_or_else(|| format!("e2e-{:x}-{:x}", millis(), std::process::id()));
    let (workload, commit) = (asked.workload.ok_or("no workload")?, Duration::from_millis(asked.commit_ms));
    let options = Options { workload, brokers, records: asked.records, commit, run };
    if asked.child_of.is_some() {
        println!("{}", serde_json::to_string(&drain::drain(&options)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let name = workload.name();
    eprintln!("e2e: writing {} records", options.records);
    fill::create(&options)?;
    fill::fill(&options)?;
    eprintln!("e2e: draining them ({name}, a commit every {} ms)", asked.commit_ms);
    let measured = in_a_process(&options, asked)?;
    eprintln!("e2e: checking the output");
    let checked = check::check(&options)?;
    let exact = checked.wrong == 0 && checked.outputs == options.records;
    report(&options, &measured, &checked, exact, asked.json)?;
    if exact && asked.brokers.is_some() {
        fill::delete(&options)?;
    }
    Ok(if exact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the drain in a process of its own.
fn in_a_process(options: &Options, asked: &Asked) -> Result<Measured> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--workload", options.workload.name(), "--brokers", &options.brokers, "--child-of", &options.run]);
    command.args(["--records", &options.records.to_string(), "--commit-ms", &asked.commit_ms.to_string()]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the drain ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn report(options: &Options, measured: &Measured, checked: &check::Checked, exact: bool, json: bool) -> Result<()> {
    let rate = (measured.records as f64 / measured.seconds.max(1e-9)) as u64;
    let cpu = measured.cpu_seconds.map(|seconds| seconds * 1e6 / measured.records.max(1) as f64);
    let show = |value: Option<String>| value.unwrap_or_else(|| "unknown".into());
    let name = options.workload.name();
    println!("{name}: {} records, first commit to last", options.records);
    println!("  records/s          {rate}");
    println!("  CPU us a record    {}", show(cpu.map(|cpu| format!("{cpu:.2}"))));
    println!("  peak memory MiB    {}", show(measured.peak_rss_kib.map(|kib| (kib / 1024).to_string())));
    println!("  first commit after {:.2} s", measured.startup_seconds);
    println!("  commits            {}", measured.commits);
    match exact {
        true => println!("  output             exact: {} records, each as it must be", checked.outputs),
        false => println!("  output             WRONG: {} records, {} of them wrong", checked.outputs, checked.wrong),
    }
    if json {
        let line = Line {
            workload: name,
            records: options.records,
            outputs: checked.outputs,
            seconds: measured.seconds,
            records_per_second: rate,
            cpu_us_per_record: cpu,
            peak_rss_kib: measured.peak_rss_kib,
            startup_seconds: measured.startup_seconds,
            commits: measured.commits,
            exact,
        };
        println!("{}", serde_json::to_string(&line)?);
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "names a run, which must differ from those before it")]
fn millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis())
}
