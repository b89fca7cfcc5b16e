//! Sockets that the page listens on: one port of loopback, over IPv4 and IPv6.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::Result;
use axum::Router;
use rustix::io::Errno;
use tokio::net::TcpListener;

use crate::exit::Failure;

/// Most free ports that are tried until one is free over IPv6 as well.
const MAX_TRIES: u32 = 16;

/// Sockets on one port.
#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) port: u16,
    v4: TcpListener,
    /// `None` where this machine has no IPv6.
    v6: Option<TcpListener>,
}

/// Listens on a port of loopback; 0 for a free one.
///
/// Browsers look for `localhost` over IPv6 first. If another user had that side of the port, that user would get the links
/// to jobs; so this process listens on both, or fails.
///
/// # Errors
/// The port is in use.
pub(super) async fn on(port: u16) -> Result<Listeners> {
    let mut tries = 0;
    loop {
        match both(port).await {
            Ok(listeners) => return Ok(listeners),
            Err(error)
                if port == 0 && error.kind() == io::ErrorKind::AddrInUse && tries < MAX_TRIES =>
            {
                tries += 1;
            }
            Err(error) => {
                let said = format!("cannot listen on port {port} of this machine: {error}");
                return Err(Failure::new(said).hint("leave --port out for a free one").into());
            }
        }
    }
}

async fn both(port: u16) -> io::Result<Listeners> {
    let v4 = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let port = v4.local_addr()?.port();
    let v6 = match TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await {
        Ok(listener) => Some(listener),
        // Without IPv6 no other user can listen there either.
        Err(error) if lacks_ipv6(&error) => None,
        Err(error) => return Err(error),
    };
    Ok(Listeners { port, v4, v6 })
}

fn lacks_ipv6(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error())
}

impl Listeners {
    /// Answers requests until an error.
    ///
    /// # Errors
    /// A socket fails.
    pub(super) async fn serve(self, router: Router) -> io::Result<()> {
        let first = axum::serve(self.v4, router.clone()).into_future();
        match self.v6 {
            Some(v6) => tokio::try_join!(first, axum::serve(v6, router).into_future()).map(|_| ()),
            None => first.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_of_which_another_process_has_one_side_is_not_used() {
        let Ok(other) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await else {
            return; // A machine without IPv6 has no other side.
        };
        let port = other.local_addr().unwrap().port();
        let refused = on(port).await.unwrap_err();
        assert!(refused.to_string().contains("cannot listen on port"), "{refused}");
        let free = on(0).await.unwrap();
        assert!(free.v6.is_some() && free.port != port);
    }
}
