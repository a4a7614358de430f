//! The events, and what they did to the output.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use serde::Serialize;

use super::feed::{Feed, Random};
use super::fleet::Process;
use super::watch::Watch;
use super::{Options, PATIENCE, Pauses, Plan, Result, now, pause};

/// How long the group gets to settle after a process was started or stopped.
const SETTLE: Duration = Duration::from_secs(4);

/// What happened, and the pauses that followed it until the output was steady again.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// What happened.
    pub what: String,
    /// The pauses.
    pub pauses: Pauses,
}

/// The events of a run, and whether its results were right.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// In order.
    pub events: Vec<Event>,
    /// Records fed.
    pub records: u64,
    /// Counts that were not the next one of their key.
    pub wrong: u64,
    /// Keys whose last count is not the number of their records.
    pub unfinished: u64,
}

/// Runs the plan; `say` gets each event as it ends.
pub fn run(options: &Options, say: &mut dyn FnMut(&Event)) -> Result<Report> {
    create(options)?;
    let mut fleet = (0..options.processes).map(|_| Process::start(options)).collect::<Result<Vec<Process>>>()?;
    let (watch, feed) = (Watch::start(options)?, Feed::start(options)?);
    watch.await_records(u64::from(options.keys), PATIENCE * 3)?;
    let mut events = Vec::new();
    let mut note = |event: Event| {
        say(&event);
        events.push(event);
    };
    pause(SETTLE * 2);
    let mut random = Random(options.seed);
    match options.plan {
        Plan::Kills(kills) => {
            for _ in 0..kills {
                let victim = random.below(fleet.len() as u64) as usize;
                // At any moment between two commits.
                pause(Duration::from_millis(random.below(options.commit.as_millis() as u64 + 1)));
                note(event(options, &watch, format!("process {victim} is killed"), || fleet[victim].kill())?);
                note(event(options, &watch, format!("process {victim} is started"), || {
                    fleet[victim] = Process::start(options)?;
                    Ok(())
                })?);
                fleet.iter_mut().try_for_each(Process::check)?;
            }
        }
        Plan::Rolling(rounds) => {
            for at in (0..rounds).flat_map(|_| 0..options.processes) {
                note(event(options, &watch, format!("process {at} is restarted"), || {
                    fleet[at].stop()?;
                    fleet[at] = Process::start(options)?;
                    Ok(())
                })?);
                fleet.iter_mut().try_for_each(Process::check)?;
            }
        }
    }
    let sent = feed.end()?;
    let records = sent.iter().sum();
    watch.await_records(records, PATIENCE)?;
    fleet.iter_mut().try_for_each(Process::stop)?;
    let (_, wrong, counts) = watch.end()?;
    let unfinished = sent.iter().zip(&counts).filter(|(sent, counted)| sent != counted).count() as u64;
    Ok(Report { events, records, wrong, unfinished })
}

/// Does something and waits until every partition speaks again and the group has settled.
fn event(options: &Options, watch: &Watch, what: String, act: impl FnOnce() -> Result<()>) -> Result<Event> {
    let begin = now();
    act()?;
    pause(SETTLE);
    watch.await_all(now(), options.session * 2 + PATIENCE)?;
    pause(Duration::from_secs(1));
    // A partition whose owner is dead is silent for the session timeout; nothing else should come near it.
    Ok(Event { what, pauses: watch.pauses(begin, options.session * 2 / 3)? })
}

fn create(options: &Options) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = options.client().create()?;
    let (input, output) = (options.input(), options.output());
    let new = [&input, &output].map(|topic| NewTopic::new(topic, options.partitions, TopicReplication::Fixed(-1)));
    let wait = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for made in runtime.block_on(admin.create_topics(&new, &wait))? {
        made.map_err(|(topic, code)| format!("topic `{topic}` could not be made: {code}"))?;
    }
    Ok(())
}
