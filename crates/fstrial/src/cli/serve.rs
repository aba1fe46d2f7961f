//! `fstrial serve`: the stored trials as pages for a browser.

mod answer;
mod guard;
mod pages;
mod server;

use super::{Home, results};
use clap::Args;
use fstrial_run::{error::ExpectedError, exit_code};
use guard::Names;
use server::{Server, SiteState};
use std::{io, net::SocketAddr};

const EXAMPLES: &str = "\
Examples:
  fstrial serve
  fstrial serve --listen 127.0.0.1:0                            any free port; the address is printed
  ssh -L 7070:localhost:7070 lab1 fstrial serve                 a lab's results, read from another machine
  fstrial serve --listen 0.0.0.0:7070 --anyone-on-the-network   anyone who reaches this machine may read them

Pages: / (list and search) · /trial/ID · /trial/ID/text · /compare?a=1&b=2 · /trend?arm=xfs&against=ext4
JSON:  /api/trials · /api/trials/ID · /api/trend?arm=xfs&against=ext4

Ctrl-C ends it, with exit code 0.";

/// Serve the stored trials as local web pages: search, reports, comparisons, trends.
///
/// The server is read-only and listens on this machine only. All users of the machine can read the names, command lines,
/// host names and devices of the trials. There is no authentication and no encryption.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Address and port; port 0 takes any free port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,

    /// Allow an address that other machines can reach, and read all results from.
    #[arg(long)]
    anyone_on_the_network: bool,

    /// Accept this Host header in addition to localhost and addresses (repeatable).
    #[arg(long, value_name = "NAME")]
    host_name: Vec<String>,

    #[command(flatten)]
    home: Home,
}

pub(crate) fn exec(args: &ServeArgs) -> Result<u8, ExpectedError> {
    let is_loopback = args.listen.ip().is_loopback();
    if !is_loopback && !args.anyone_on_the_network {
        return Err(ExpectedError::usage(
            format!("{} can be reached from other machines", args.listen.ip()),
            "leave --listen out; or, if anyone who reaches it may read all results (there is no password), add \
             --anyone-on-the-network",
        ));
    }
    // Reported now rather than to every visitor.
    drop(results::open(&args.home)?);
    let cannot = |error: io::Error| {
        ExpectedError::usage(
            format!("could not listen on {}: {error}", args.listen),
            "--listen 127.0.0.1:0 takes any free port",
        )
    };
    let server = Server::bind(args.listen).map_err(cannot)?;
    let address = server.address().map_err(cannot)?;
    super::print(&format!("http://{address}/\n"));
    super::say("Ctrl-C ends it\n");
    if !is_loopback {
        super::say("anyone who reaches this address can read all results; there is no password\n");
    }
    let mut others = args.host_name.clone();
    if !is_loopback {
        others.push(rustix::system::uname().nodename().to_string_lossy().into_owned());
    }
    let site = SiteState { store: results::existing(&args.home)?, names: Names { is_loopback, others } };
    server.serve(site).map_err(cannot)?;
    Ok(exit_code::VERDICT)
}
