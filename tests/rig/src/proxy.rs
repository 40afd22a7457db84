//! A way to a server that can be cut and mended.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Forwards connections, unless it is cut.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    is_cut: watch::Sender<bool>,
}

impl Proxy {
    /// A way to this server.
    #[expect(clippy::disallowed_methods, reason = "a test's own connection to its own server")]
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let is_cut = watch::Sender::new(false);
        let cut = is_cut.subscribe();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut cut = cut.clone();
                tokio::spawn(async move {
                    let forward = async {
                        let mut server = TcpStream::connect(server).await?;
                        copy_bidirectional(&mut client, &mut server).await
                    };
                    tokio::select! {
                        _ = forward => {}
                        _ = cut.wait_for(|cut| *cut) => {}
                    }
                });
            }
        });
        Self { address, is_cut }
    }

    /// Ends all connections, and new ones at once.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Forwards again.
    pub fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}
