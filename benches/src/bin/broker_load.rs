//! Writes much to an embedded broker and reads it at the same time, over TCP; then deletes it all. The broker is a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use benches::cli;
use benches::e2e::{PARTITIONS, PATIENCE, Result};
use benches::process::{cpu_time_of, rss_kib_of};
use benches::send::Send;
use flow_kafka::embedded::EmbeddedBroker;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::BaseRecord;
use rdkafka::{Offset, TopicPartitionList};
use serde::Serialize;

const HELP: &str = "\
Writes records to an embedded broker in a process of its own, reads them at the same time, compacts and deletes them: records per
second, the broker's CPU, and its memory.

Usage: broker_load [OPTIONS]

Options:
  --mib N    MiB of values to write (default 1024)
  --size N   bytes of a value (default 100)
  --json     end with one line of JSON
  --help     print this
";

struct Asked {
    mib: u64,
    size: usize,
    json: bool,
    serves: bool,
}

#[derive(Serialize)]
struct Line {
    records: u64,
    written_per_second: u64,
    read_per_second: u64,
    /// How far the reader was behind when the last record was acknowledged.
    behind: u64,
    records_per_broker_cpu_second: Option<u64>,
    rss_mib_before: Option<u64>,
    rss_mib_full: Option<u64>,
    rss_mib_compacted: Option<u64>,
    rss_mib_deleted: Option<u64>,
}

fn main() -> ExitCode {
    cli::main("broker_load", HELP, parse, |asked| {
        if asked.serves { serve() } else { load(&asked) }?;
        Ok(ExitCode::SUCCESS)
    })
}

/// What was asked; `None`: print the help.
fn parse(mut arguments: impl Iterator<Item = String>) -> std::result::Result<Option<Asked>, String> {
    let mut asked = Asked { mib: 1024, size: 100, json: false, serves: false };
    while let Some(flag) = arguments.next() {
        let mut number = || match arguments.next().and_then(|text| text.parse::<u64>().ok()) {
            Some(number) if number > 0 => Ok(number),
            _ => Err(format!("{flag} needs a number of at least 1 after it")),
        };
        match flag.as_str() {
            "--mib" => asked.mib = number()?,
            "--size" => asked.size = number()?.min(500_000) as usize,
            "--json" => asked.json = true,
            "--serve" => asked.serves = true,
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("unknown argument `{flag}`")),
        }
    }
    Ok(Some(asked))
}

/// The broker's process: says its address, and ends when its input does.
fn serve() -> Result<()> {
    let broker = EmbeddedBroker::start("127.0.0.1:0")?;
    println!("{}", broker.bootstrap());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    drop(broker);
    Ok(())
}

struct Broker {
    process: Child,
    address: String,
}

impl Broker {
    fn start() -> Result<Broker> {
        let mut command = Command::new(std::env::current_exe()?);
        // Else glibc keeps what is freed for the next batches, and its size would say nothing about what the broker has let go of.
        command.env("MALLOC_MMAP_THRESHOLD_", "65536");
        let mut process = command.arg("--serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        BufReader::new(process.stdout.take().ok_or("no output")?).read_line(&mut address)?;
        Ok(Broker { process, address: address.trim().to_owned() })
    }

    fn number(&self) -> String {
        self.process.id().to_string()
    }

    fn rss_mib(&self) -> Option<u64> {
        rss_kib_of(&self.number()).map(|kib| kib / 1024)
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address);
        config
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Its input ends with this.
        drop(self.process.stdin.take());
        if let Err(error) = self.process.wait() {
            eprintln!("broker_load: waiting for the broker's process: {error}");
        }
    }
}

fn load(asked: &Asked) -> Result<()> {
    let broker = Broker::start()?;
    let records = asked.mib * 1024 * 1024 / asked.size as u64;
    for (topic, policy) in [("load", "delete"), ("latest", "compact")] {
        create(&broker, topic, policy)?;
    }
    let before = (broker.rss_mib(), cpu_time_of(&broker.number()));
    eprintln!("broker_load: {records} records of {} bytes in and out", asked.size);
    let read = AtomicU64::new(0);
    let begin = now();
    let (written_in, behind, read_in) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| drain(&broker, "load", records, &read).map_err(|error| error.to_string()));
        let written = fill(&broker, "load", records, asked.size, None);
        let (written_in, behind) = (begin.elapsed(), records - read.load(Ordering::Relaxed));
        written?;
        reader.join().map_err(|_| "the reader panicked")??;
        Ok::<_, Box<dyn std::error::Error>>((written_in, behind, begin.elapsed()))
    })?;
    let cpu = before.1.zip(cpu_time_of(&broker.number())).map(|(before, after)| after.saturating_sub(before));
    let full = broker.rss_mib();
    delete_records(&broker, "load")?;
    let deleted = settled(&broker, full);
    // A quarter of it again, of a thousand keys.
    fill(&broker, "latest", records / 4, asked.size, Some(1_000))?;
    let compacted = settled(&broker, broker.rss_mib());
    let rate = |time: Duration| (records as f64 / time.as_secs_f64().max(1e-9)) as u64;
    let line = Line {
        records,
        written_per_second: rate(written_in),
        read_per_second: rate(read_in),
        behind,
        records_per_broker_cpu_second: cpu.map(rate),
        rss_mib_before: before.0,
        rss_mib_full: full,
        rss_mib_compacted: compacted,
        rss_mib_deleted: deleted,
    };
    let show = |value: Option<u64>| value.map_or("unknown".to_owned(), |value| value.to_string());
    println!("{records} records of {} bytes, written and read at the same time", asked.size);
    println!("  written/s                 {}", line.written_per_second);
    println!("  read/s                    {}", line.read_per_second);
    println!("  reader behind at the end  {behind}");
    println!("  records/s of broker's CPU {}", show(line.records_per_broker_cpu_second));
    println!("  memory MiB, empty         {}", show(line.rss_mib_before));
    println!("  memory MiB, all of it     {}", show(full));
    println!("  memory MiB, all deleted   {}", show(deleted));
    println!("  memory MiB, a quarter of it written again and compacted to 1000 keys  {}", show(compacted));
    if asked.json {
        println!("{}", serde_json::to_string(&line)?);
    }
    Ok(())
}

fn create(broker: &Broker, topic: &str, policy: &str) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = broker.client().create()?;
    let new = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1))
        .set("cleanup.policy", policy)
        .set("segment.bytes", "16777216");
    let made = runtime()?.block_on(admin.create_topics([&new], &AdminOptions::new()))?;
    made.into_iter().try_for_each(|made| made.map(drop)).map_err(|(topic, code)| format!("{topic}: {code}"))?;
    Ok(())
}

fn fill(broker: &Broker, topic: &str, records: u64, size: usize, keys: Option<u64>) -> Result<()> {
    let mut sender = Send::new(broker.client())?;
    let value = vec![b'x'; size];
    for number in 0..records {
        let key = keys.map(|keys| (number % keys).to_be_bytes());
        let mut record: BaseRecord<'_, [u8], [u8]> =
            BaseRecord::to(topic).payload(&value[..]).partition((number % PARTITIONS as u64) as i32);
        record.key = key.as_ref().map(|key| &key[..]);
        sender.send(record)?;
    }
    sender.end()
}

fn drain(broker: &Broker, topic: &str, records: u64, read: &AtomicU64) -> Result<()> {
    let mut config = broker.client();
    config.set("group.id", "load").set("enable.auto.commit", "false").set("fetch.queue.backoff.ms", "5");
    let consumer: BaseConsumer = config.create()?;
    consumer.assign(&all_partitions(topic, Offset::Beginning)?)?;
    for number in 1..=records {
        consumer.poll(PATIENCE).ok_or("nothing came for a minute")??;
        if number % 1_000 == 0 || number == records {
            read.store(number, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn delete_records(broker: &Broker, topic: &str) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = broker.client().create()?;
    let all = all_partitions(topic, Offset::End)?;
    runtime()?.block_on(admin.delete_records(&all, &AdminOptions::new()))?;
    Ok(())
}

fn all_partitions(topic: &str, at: Offset) -> Result<TopicPartitionList> {
    let mut all = TopicPartitionList::new();
    (0..PARTITIONS).try_for_each(|partition| all.add_partition_offset(topic, partition, at))?;
    Ok(all)
}

/// The broker's least memory within some intervals of its cleaner.
fn settled(broker: &Broker, from: Option<u64>) -> Option<u64> {
    let mut lowest = from;
    for _ in 0..40 {
        pause(Duration::from_secs(1));
        lowest = lowest.min(broker.rss_mib());
    }
    lowest
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

#[allow(clippy::disallowed_methods, reason = "a bench measures time")]
fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "the bench's main thread has nothing else to do")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
