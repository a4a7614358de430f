//! The embedded broker alone, for other programs on this machine to talk to.

use std::process::ExitCode;

use flow_kafka::embedded::EmbeddedBroker;

const HELP: &str = "\
Serves the embedded broker on this machine until Ctrl-C. Everything is kept in memory; it is not a replacement for Kafka.

Usage: broker [--listen HOST:PORT]

Options:
  --listen HOST:PORT   a loopback address; port 0 takes a free one (default 127.0.0.1:9092)
  --help               print this
";

fn main() -> ExitCode {
    match listen(std::env::args().skip(1)) {
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Ok(Some(address)) => serve(&address).unwrap_or_else(|error| {
            eprintln!("broker: cannot serve {address}: {error}");
            ExitCode::FAILURE
        }),
        Err(usage) => {
            eprintln!("broker: {usage} (see broker --help)");
            ExitCode::from(2)
        }
    }
}

/// The address to listen on; `None`: print the help.
fn listen(mut arguments: impl Iterator<Item = String>) -> Result<Option<String>, String> {
    let mut address = "127.0.0.1:9092".to_owned();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--listen" => address = arguments.next().ok_or("--listen needs HOST:PORT after it")?,
            "--help" | "-h" => return Ok(None),
            other => match other.strip_prefix("--listen=") {
                Some(given) => given.clone_into(&mut address),
                None => return Err(format!("unknown argument `{other}`")),
            },
        }
    }
    if !address.contains(':') {
        return Err(format!("--listen needs HOST:PORT, as in 127.0.0.1:9092, not `{address}`"));
    }
    Ok(Some(address))
}

fn serve(address: &str) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let broker = EmbeddedBroker::start(address)?;
    println!("serving Kafka's protocol on {} until Ctrl-C", broker.bootstrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(tokio::signal::ctrl_c())?;
    println!("stopped");
    Ok(ExitCode::SUCCESS)
}
