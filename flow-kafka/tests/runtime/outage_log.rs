//! What an operator reads while the broker is away: what changes, and not what is tried in between.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow_core::{ByType, Topic, Topology, TopologyBuilder, Utf8};
use flow_kafka::start;
use futures::executor::block_on;

use crate::kafka::{Kafka, record, wait_for};
use crate::proxy::Proxy;

const CHILD: &str = "FLOW_OUTAGE_LOG_CHILD";

fn topology(kafka: &Kafka) -> Topology {
    let topology = TopologyBuilder::new();
    let events: Topic<str, str, ByType, Utf8> = Topic::new(kafka.topic("in"));
    topology.stream(events).count("counts").changes().to(Topic::<str, u64>::new(kafka.topic("out")));
    topology.build().unwrap()
}

/// Prints what the library logs, as a program would that shows its information.
struct Lines;

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        println!("LOG {} {}: {}", record.level(), record.target(), record.args());
    }

    fn flush(&self) {}
}

/// Not a test of its own: where this binary runs as the process whose log is read.
#[test]
fn logging_process() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let (bootstrap, app) = arguments.split_once(' ').unwrap();
    log::set_logger(&Lines).unwrap();
    log::set_max_level(log::LevelFilter::Info);
    let kafka = Kafka::of(bootstrap, app);
    // It ends by being killed.
    drop(block_on(start(topology(&kafka), kafka.config().workers(2)).unwrap().wait()));
}

struct Logging {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Logging {
    fn start(kafka: &Kafka) -> Logging {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "outage_log::logging_process", "--nocapture"])
            .env(CHILD, format!("{} {}", kafka.bootstrap, kafka.app))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (said, sink) = (BufReader::new(child.stdout.take().unwrap()).lines(), Arc::clone(&lines));
        std::thread::spawn(move || {
            let said = said.map_while(Result::ok).filter(|line| line.starts_with("LOG "));
            said.for_each(|line| sink.lock().unwrap().push(line));
        });
        Logging { child, lines }
    }

    fn count(&self, what: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|line| line.contains(what)).count()
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_outage_is_one_line_when_no_broker_answers_and_one_when_one_does_again() {
    let direct = Kafka::new("outage-log");
    direct.create("in", 2, &[]);
    direct.create("out", 1, &[]);
    let proxy = Proxy::to(&direct.bootstrap);
    let process = Logging::start(&Kafka::of(&proxy.bootstrap(), &direct.app));
    direct.send("in", &vec![record("k", "e"); 10]);
    wait_for("all is committed", || direct.committed("in") == Some(10));
    proxy.away();
    direct.send("in", &vec![record("k", "e"); 10]);
    // Longer than the session, so partitions are lost and won again.
    std::thread::sleep(Duration::from_secs(9));
    proxy.heal();
    wait_for("all is committed", || direct.committed("in") == Some(20));
    wait_for("the end is told", || process.count("answers again") > 0);
    let lines = process.lines.lock().unwrap().clone();
    let all = lines.join("\n");
    assert_eq!(process.count(&format!("no broker of {} answers for 2.", proxy.bootstrap())), 1, "{all}");
    assert_eq!(process.count(&format!("a broker of {} answers again, after ", proxy.bootstrap())), 1, "{all}");
    let grave: Vec<&String> =
        lines.iter().filter(|line| line.starts_with("LOG WARN") || line.starts_with("LOG ERROR")).collect();
    // Beside that line: the session that ended, and a commit that was under way in each of the two workers.
    assert!(grave.len() <= 4, "{all}");
    assert!(lines.iter().all(|line| !line.contains("FAIL")), "{all}");
}
