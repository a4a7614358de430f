//! The processes that run the application.

use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use flow_kafka::State;

use super::{Options, Result, pause, thread};

/// One process. It stops when its standard input ends, so it never outlives its parent.
pub(super) struct Process {
    child: Child,
}

impl Process {
    pub(super) fn start(options: &Options) -> Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--child-of", &options.run, "--brokers", &options.brokers]);
        command.args(["--session-ms", &options.session.as_millis().to_string()]);
        command.args(["--commit-ms", &options.commit.as_millis().to_string()]);
        Ok(Process { child: command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()? })
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to stop, and waits until it has committed and left the group.
    pub(super) fn stop(&mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("a process that was asked to stop ended with {status}").into())
        }
    }

    /// An error if it has ended by itself.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("a process ended by itself, with {status}").into()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already where all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What such a process does: runs the application until its standard input ends.
pub fn child(options: &Options) -> Result<ExitCode> {
    let app = flow_kafka::start(options.topology()?, options.config())?;
    let parent = thread(|| {
        // Nothing is written to it: this returns when the parent closes it, or dies.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    });
    while !matches!(app.state(), State::Stopped | State::Failed) && !parent.is_finished() {
        pause(Duration::from_millis(20));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(app.shutdown())?;
    Ok(ExitCode::SUCCESS)
}
