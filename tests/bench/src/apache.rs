//! Apache with the MPM prefork, configured as by Debian's `libapache2-mod-php`: each process serves one connection
//! until the connection closes. Apache passes each request on to the receiver.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use docket_rig::scratch::Folder;

/// A running Apache. Dropping it ends Apache.
pub(crate) struct Apache {
    pub(crate) port: u16,
    program: Child,
    folder: Folder,
}

/// Debian's defaults, from its `mpm_prefork.conf` and `apache2.conf`.
const DEFAULTS: &str = "StartServers 5\nMinSpareServers 5\nMaxSpareServers 10\nMaxConnectionsPerChild 0\n\
                        Timeout 300\nKeepAlive On\nMaxKeepAliveRequests 100\nKeepAliveTimeout 5\n";

impl Apache {
    /// Starts Apache, which serves TLS with this certificate and key. `receiver`: the port to which it passes requests on.
    pub(crate) fn start(certificate_pem: &str, key_pem: &str, receiver: u16, workers: usize) -> Self {
        let folder = Folder::new("apache");
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = socket.local_addr().expect("it is bound").port();
        drop(socket);
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::write(path("certificate"), certificate_pem).expect("the folder is ours");
        fs::write(path("key"), key_pem).expect("the folder is ours");
        let modules = ["mpm_prefork", "authz_core", "ssl", "socache_shmcb", "proxy", "proxy_http"]
            .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"));
        let configuration = format!(
            "{}ServerRoot {root}\nServerName 127.0.0.1\nPidFile {}\nErrorLog {}\nMutex file:{root}\n\
             User www-data\nGroup www-data\n{DEFAULTS}MaxRequestWorkers {workers}\nServerLimit {limit}\n\
             Listen 127.0.0.1:{port}\nSSLEngine on\nSSLCertificateFile {}\nSSLCertificateKeyFile {}\n\
             SSLSessionCache shmcb:{}(512000)\nSSLProxyEngine on\nSSLProxyVerify none\nSSLProxyCheckPeerCN off\n\
             SSLProxyCheckPeerName off\nProxyPass / https://127.0.0.1:{receiver}/\n",
            modules.concat(),
            path("pid"),
            path("errors"),
            path("certificate"),
            path("key"),
            path("sessions"),
            root = folder.path().display(),
            limit = workers.max(10),
        );
        fs::write(path("configuration"), configuration).expect("the folder is ours");
        let mut command = Command::new("apache2");
        command.args(["-f", &path("configuration"), "-DFOREGROUND"]).stdin(Stdio::null());
        // Prefork sends SIGTERM to its process group when it ends, and must not end the benchmark with it.
        command.process_group(0);
        let program = command.spawn().expect("apache2 starts; tests/bench/run installs it");
        let apache = Self { port, program, folder };
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            let errors = || fs::read_to_string(apache.folder.path().join("errors")).unwrap_or_default();
            assert!(begun.elapsed() < Duration::from_secs(20), "apache2 does not listen: {}", errors());
            std::thread::sleep(Duration::from_millis(20));
        }
        apache
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        // SIGTERM lets Apache end its own processes.
        let _ = Command::new("kill").arg(self.program.id().to_string()).status();
        let _ = self.program.wait();
    }
}
