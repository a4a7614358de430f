//! Counts clicks on the engine or by hand, for a program that counts instructions: see `scripts/instructions`.

use std::hint::black_box;
use std::process::ExitCode;

use benches::data::Data;
use benches::engine;
use benches::hand::Hand;

const HELP: &str = "\
Counts clicks by user: decode, fold, emit, encode, a snapshot of each changed key at every commit.

Usage: instructions engine|hand --records N

  --records N   how many records to count (a commit follows every 40000)
  --help        print this
";

/// As many records as there are between two commits at 400,000 a second and 100 ms.
const COMMIT: usize = 40_000;
const KEYS: u64 = 10_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (side, records) = match arguments[..] {
        ["--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        [side @ ("engine" | "hand"), "--records", records] => (side, records.parse::<usize>()),
        _ => {
            eprintln!("instructions: expected engine or hand, then --records N (see instructions --help)");
            return ExitCode::from(2);
        }
    };
    let Ok(records) = records else {
        eprintln!("instructions: --records needs a number (see instructions --help)");
        return ExitCode::from(2);
    };
    let data = Data::new(COMMIT, KEYS);
    let bytes = if side == "engine" { on_the_engine(&data, records) } else { by_hand(&data, records) };
    println!("{side}: {records} records, {bytes} bytes to send");
    ExitCode::SUCCESS
}

fn on_the_engine(data: &Data, records: usize) -> usize {
    let (mut task, mut bytes) = (engine::count(), 0);
    for at in 0..records {
        black_box(task.process(0, &data.record(at % COMMIT)).is_ok());
        if at % COMMIT == COMMIT - 1 {
            bytes += engine::commit(&mut task);
        }
    }
    bytes + engine::commit(&mut task)
}

fn by_hand(data: &Data, records: usize) -> usize {
    let (mut hand, mut bytes) = (Hand::default(), 0);
    for at in 0..records {
        hand.count(&data.record(at % COMMIT));
        black_box(&mut hand);
        if at % COMMIT == COMMIT - 1 {
            bytes += hand.commit();
        }
    }
    bytes + hand.commit()
}
