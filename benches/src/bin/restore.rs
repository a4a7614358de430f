//! Writes a state of many small keys, then starts a process that has to restore it, and prints how fast that was and what it took.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use benches::cli;
use benches::e2e::{PARTITIONS, PATIENCE, Result};
use benches::process::{cpu_time, peak_rss_kib, rss_kib};
use benches::send::Send;
use flow_core::{Topic, Topology, TopologyBuilder, TopologyError, partition_for};
use flow_kafka::embedded::EmbeddedBroker;
use flow_kafka::{App, KafkaConfig, State};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::BaseRecord;
use rdkafka::{Message, Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};

const HELP: &str = "\
Counts many small keys, stops, and starts a process that restores all counts: keys per second, and memory beside the bytes restored.

Usage: restore [OPTIONS]

Options:
  --keys N             keys (default 1000000)
  --brokers HOST:PORT  use this Kafka (default: a broker inside this process)
  --json               end with one line of JSON
  --help               print this
";

struct Asked {
    keys: u64,
    brokers: Option<String>,
    json: bool,
    /// Set for the process that restores: the run that it belongs to.
    child_of: Option<String>,
}

/// What the restoring process measured, from the assignment to the end of the last recovery.
#[derive(Serialize, Deserialize)]
struct Measured {
    restored: u64,
    seconds: f64,
    cpu_seconds: Option<f64>,
    /// Peak memory of the process beyond what it had before.
    rss_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Line {
    keys: u64,
    restored: u64,
    seconds: f64,
    keys_per_second: u64,
    keys_per_cpu_second: Option<u64>,
    log_bytes_per_key: f64,
    memory_bytes_per_key: Option<f64>,
    exact: bool,
}

fn main() -> ExitCode {
    cli::main("restore", HELP, parse, |asked| run(&asked))
}

/// What was asked; `None`: print the help.
fn parse(mut arguments: impl Iterator<Item = String>) -> std::result::Result<Option<Asked>, String> {
    let mut asked = Asked { keys: 1_000_000, brokers: None, json: false, child_of: None };
    while let Some(flag) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{flag} needs a value after it"));
        match flag.as_str() {
            "--keys" => {
                asked.keys = match value()?.parse() {
                    Ok(keys) if keys > 0 => keys,
                    _ => return Err("--keys needs a number of at least 1".into()),
                }
            }
            "--brokers" => asked.brokers = Some(value()?),
            "--child-of" => asked.child_of = Some(value()?),
            "--json" => asked.json = true,
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("unknown argument `{flag}`")),
        }
    }
    Ok(Some(asked))
}

fn run(asked: &Asked) -> Result<ExitCode> {
    let embedded = if asked.brokers.is_none() { Some(EmbeddedBroker::start("127.0.0.1:0")?) } else { None };
    let brokers = asked.brokers.clone().or(embedded.as_ref().map(EmbeddedBroker::bootstrap)).ok_or("no broker")?;
    if let Some(run) = &asked.child_of {
        println!("{}", serde_json::to_string(&restore(&brokers, run, asked.keys)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let run = format!("restore-{:x}-{:x}", now_millis(), std::process::id());
    eprintln!("restore: counting {} keys", asked.keys);
    create(&brokers, &run)?;
    fill(&brokers, &run, asked.keys)?;
    let app = start(&brokers, &run)?;
    until(&app, || app.counters().records >= asked.keys)?;
    runtime()?.block_on(app.shutdown())?;
    let log_bytes = log_bytes(&brokers, &format!("{run}-counts-changelog"))?;
    eprintln!("restore: restoring them in a process of its own");
    let measured = in_a_process(&brokers, &run, asked.keys)?;
    report(asked, &measured, log_bytes as f64 / asked.keys as f64)
}

/// Runs the restore in a process of its own.
fn in_a_process(brokers: &str, run: &str, keys: u64) -> Result<Measured> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--brokers", brokers, "--child-of", run, "--keys", &keys.to_string()]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the restoring process ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn restore(brokers: &str, run: &str, keys: u64) -> Result<Measured> {
    let app = start(brokers, run)?;
    until(&app, || app.state() != State::Starting)?;
    let (begin, cpu, rss) = (now(), cpu_time(), rss_kib());
    until(&app, || app.state() == State::Running)?;
    let seconds = (now() - begin).as_secs_f64();
    let cpu_seconds = cpu.zip(cpu_time()).map(|(before, after)| after.saturating_sub(before).as_secs_f64());
    let rss_bytes = rss.zip(peak_rss_kib()).map(|(before, peak)| peak.saturating_sub(before) * 1024);
    until(&app, || app.counters().restored >= keys)?;
    let restored = app.counters().restored;
    runtime()?.block_on(app.shutdown())?;
    Ok(Measured { restored, seconds, cpu_seconds, rss_bytes })
}

fn report(asked: &Asked, measured: &Measured, log_bytes_per_key: f64) -> Result<ExitCode> {
    let per = |seconds: f64| (asked.keys as f64 / seconds.max(1e-9)) as u64;
    let memory = measured.rss_bytes.map(|bytes| bytes as f64 / asked.keys as f64);
    let exact = measured.restored == asked.keys;
    let line = Line {
        keys: asked.keys,
        restored: measured.restored,
        seconds: measured.seconds,
        keys_per_second: per(measured.seconds),
        keys_per_cpu_second: measured.cpu_seconds.map(per),
        log_bytes_per_key,
        memory_bytes_per_key: memory,
        exact,
    };
    let show = |value: Option<String>| value.unwrap_or_else(|| "unknown".into());
    println!("{} keys restored, assignment to running", line.restored);
    println!("  keys/s             {}", line.keys_per_second);
    println!("  keys/s of CPU time {}", show(line.keys_per_cpu_second.map(|keys| keys.to_string())));
    println!("  log bytes a key    {log_bytes_per_key:.1}");
    println!("  memory bytes a key {}", show(memory.map(|bytes| format!("{bytes:.1}"))));
    if !exact {
        println!("  WRONG: {} keys were written", asked.keys);
    }
    if asked.json {
        println!("{}", serde_json::to_string(&line)?);
    }
    Ok(if exact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn start(brokers: &str, run: &str) -> Result<App> {
    Ok(flow_kafka::start(topology(run)?, KafkaConfig::new(brokers, run).workers(1))?)
}

fn topology(run: &str) -> std::result::Result<Topology, TopologyError> {
    let input: Topic<str, u64> = Topic::new(format!("{run}-input").leak());
    let topology = TopologyBuilder::new();
    topology.stream(input).count("counts");
    topology.build()
}

/// Waits, and fails if the run has ended instead.
fn until(app: &App, mut done: impl FnMut() -> bool) -> Result<()> {
    let begin = now();
    while !done() {
        if matches!(app.state(), State::Stopped | State::Failed) || now() - begin > PATIENCE * 10 {
            return Err("the run ended or stood still".into());
        }
        pause(Duration::from_millis(2));
    }
    Ok(())
}

fn client(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    config
}

fn create(brokers: &str, run: &str) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = client(brokers).create()?;
    let input = format!("{run}-input");
    let new = [NewTopic::new(&input, PARTITIONS, TopicReplication::Fixed(-1))];
    for made in
        runtime()?.block_on(admin.create_topics(&new, &AdminOptions::new().operation_timeout(Some(PATIENCE))))?
    {
        made.map_err(|(topic, code)| format!("topic `{topic}` could not be made: {code}"))?;
    }
    Ok(())
}

/// One record for each key.
fn fill(brokers: &str, run: &str, keys: u64) -> Result<()> {
    let mut sender = Send::new(client(brokers))?;
    let topic = format!("{run}-input");
    for number in 0..keys {
        let (key, value) = (format!("user-{number:07}"), b"1");
        let partition = partition_for(key.as_bytes(), PARTITIONS).0;
        sender.send(BaseRecord::to(&topic).key(key.as_bytes()).payload(&value[..]).partition(partition))?;
    }
    sender.end()
}

/// Bytes of keys and values in the changelog.
fn log_bytes(brokers: &str, topic: &str) -> Result<u64> {
    let mut config = client(brokers);
    config.set("group.id", "restore-bench").set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create()?;
    let mut bytes = 0;
    for partition in 0..PARTITIONS {
        let (low, high) = consumer.fetch_watermarks(topic, partition, PATIENCE)?;
        let mut all = TopicPartitionList::new();
        all.add_partition_offset(topic, partition, Offset::Offset(low))?;
        consumer.assign(&all)?;
        let mut next = low;
        // A transaction's marker ends the log, and is no record.
        while next < high - 1 {
            let message = consumer.poll(PATIENCE).ok_or("the changelog could not be read")??;
            bytes += (message.key_len() + message.payload_len()) as u64;
            next = message.offset() + 1;
        }
    }
    Ok(bytes)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

#[allow(clippy::disallowed_methods, reason = "a bench measures time")]
fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "names a run, which must differ from those before it")]
fn now_millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis())
}

#[allow(clippy::disallowed_methods, reason = "the bench's main thread has nothing else to do")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
