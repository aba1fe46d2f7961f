//! `fstrial agent`: this host as a place of a trial that runs elsewhere, or as one of many hosts that run a trial each.

mod trial;

use super::{Home, conduct};
use clap::Args;
use fstrial_run::{
    error::ExpectedError,
    interrupt::Interrupt,
    place::agent::{self, Prepared},
};

/// Serve as a place for a trial on another host. Started by the command of that place: `fstrial compare ext4@node
/// xfs@node --place node="ssh -o BatchMode=yes node fstrial agent"`.
///
/// Orders come on standard input and answers go to standard output, one JSON document a line; nothing else is exchanged.
/// Images and prepared filesystems lie in the home, and only devices that are made for the trial are used: never a disk or a
/// file that was here before. When the input ends, everything is taken down. With --trial it runs a whole trial here, and
/// its answer is the store of that.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fstrial compare ext4@node xfs@node --place node='ssh -o BatchMode=yes node fstrial agent'
  ssh -o BatchMode=yes node fstrial agent      as that --place starts it
  fstrial run trial.toml --on 'command ssh {host} fstrial agent --trial' --hosts a,b,c")]
pub(crate) struct AgentArgs {
    /// Run the trial that comes on standard input, and write its store to standard output after each round, as `fstrial run
    /// --on` asks.
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
