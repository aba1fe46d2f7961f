//! `fstrial agent`: this host as a place of a trial that runs elsewhere, or as one of many hosts that run a trial each.

mod trial;

use super::{Home, conduct};
use clap::Args;
use fstrial_run::{
    error::ExpectedError,
    interrupt::Interrupt,
    place::agent::{self, Prepared},
};

/// Run arms on this host for a trial on another one, over standard input and output.
///
/// A trial starts it with the command of a place: `fstrial compare ext4@node xfs@node --place node="ssh -o BatchMode=yes node
/// fstrial agent"`. Requests and replies are JSON documents, one per line. Images and prepared filesystems are in the home;
/// only devices created for the trial are used, never an existing disk or file. The end of the input releases everything.
/// With --trial it runs a whole trial here and replies with its store.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial compare ext4@node xfs@node --place node='ssh -o BatchMode=yes node fstrial agent'
  ssh -o BatchMode=yes node fstrial agent      as that --place starts it
  fstrial run trial.toml --on 'command ssh {host} fstrial agent --trial' --hosts a,b,c")]
pub(crate) struct AgentArgs {
    /// Run the trial from standard input, and write its store to standard output after each round (for `fstrial run --on`).
    #[arg(long)]
    trial: bool,

    #[command(flatten)]
    home: Home,
}

pub(crate) fn exec(args: &AgentArgs) -> Result<u8, ExpectedError> {
    if args.trial {
        return trial::exec(&args.home);
    }
    let interrupt = Interrupt::at_signals()
        .map_err(|e| ExpectedError::Fault(format!("could not set signal handlers: {e}")))?
        .of_an_agent();
    let mut lock = None;
    let prepare = || {
        conduct::require_root()?;
        let (held, ledger) = args.home.ledger()?;
        lock = Some(held);
        let (ledger, folder) = (conduct::replay(ledger)?, args.home.make()?.path().to_owned());
        Ok(Prepared { ledger, folder })
    };
    agent::serve(prepare, &interrupt)
}
