//! The same jobs on the engine: annotated flows, run as a task without Kafka.

use std::time::Duration;

use flow_core::{Context, Partition, Task, TaskOptions, Timer, Timestamp, Topic, TopologyBuilder, flow};

use crate::data::Click;

const CLICKS: Topic<str, Click> = Topic::new("clicks");
const COUNTS: Topic<str, u64> = Topic::new("counts");

#[flow(
    ClicksPerUser,
    name = "clicks-per-user",
    key = |click: &Click| -> String { click.user.clone() },
)]
fn count_click(count: Option<u64>, _click: &Click, cx: &mut Context<u64>) -> Option<u64> {
    let count = count.unwrap_or(0) + 1;
    cx.emit(count);
    Some(count)
}

/// Counts a user's clicks until they have not clicked for a while.
struct ActiveClicks {
    timeout: Duration,
}

#[flow(name = "active-clicks")]
impl ActiveClicks {
    const IDLE: Timer = Timer::event_time("idle");

    #[key]
    fn user(click: &Click) -> String {
        click.user.clone()
    }

    #[fold]
    fn click(&self, count: Option<u64>, click: &Click, cx: &mut Context<u64>) -> Option<u64> {
        cx.set_timer(Self::IDLE, Timestamp::from_millis(click.at) + self.timeout);
        let count = count.unwrap_or(0) + 1;
        cx.emit(count);
        Some(count)
    }

    #[timer(Self::IDLE)]
    fn forget(&self, _count: u64, _cx: &mut Context<u64>) -> Option<u64> {
        None
    }
}

/// A task that counts clicks by user.
pub fn count() -> Task {
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).flow(ClicksPerUser).to(COUNTS);
    task(topology)
}

/// A task that counts clicks by user, and re-arms a timer with each.
pub fn count_with_timer(timeout: Duration) -> Task {
    let topology = TopologyBuilder::new();
    topology.stream(CLICKS).flow(ActiveClicks { timeout }).to(COUNTS);
    task(topology)
}

fn task(topology: TopologyBuilder) -> Task {
    let topology = topology.build().expect("a valid topology");
    topology.sub_topologies()[0].task(Partition(0), &TaskOptions::default())
}

/// Prepares the commit and takes it as done; answers how many bytes would have been sent.
pub fn commit(task: &mut Task) -> usize {
    task.prepare_commit().expect("counts can be written");
    let size = task.effects().bytes();
    task.committed();
    size
}
