//! `docket listen`, with which the author of a receiver tests it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use docket_crds::EventCode;
use docket_rig::ports::free_port;
use docket_tests::receiver::{Receiver, Response};
use docket_tests::server::{
    Client, Home, Options, SECRET, Server, api_key, binary, eventually, tenant_yaml, webhook_yaml,
};
use serde_json::json;

use crate::delivery::contract::assert_signed_with;
use crate::delivery::stage;

/// A running `docket listen`; killed when dropped.
struct Listen {
    child: Child,
    port: u16,
    out: PathBuf,
    ca: PathBuf,
}

impl Listen {
    /// Starts it with this secret and more flags; its files are in `home`.
    async fn start(home: &Home, secret: &str, flags: &[&str]) -> Self {
        Self::start_in(home, secret, flags, None).await
    }

    /// Like [`start`](Self::start), on a machine in this time zone.
    async fn start_in(home: &Home, secret: &str, flags: &[&str], zone: Option<&str>) -> Self {
        let port = free_port();
        let (out, secret_file, certificates) =
            (home.log("listen"), home.log("secret"), home.log("certificates"));
        std::fs::write(&secret_file, secret).expect("writable");
        let child = Command::new(binary())
            .args(["listen", "--listen", &format!("127.0.0.1:{port}"), "--secret-file"])
            .arg(&secret_file)
            .arg("--certificate-dir")
            .arg(&certificates)
            .args(flags)
            .envs(zone.map(|zone| ("TZ", zone)))
            .stdout(Stdio::from(std::fs::File::create(&out).expect("writable")))
            .stderr(Stdio::from(std::fs::File::create(home.log("listen-notice")).expect("writable")))
            .spawn()
            .expect("the binary starts");
        let listen = Self { child, port, out, ca: certificates.join("receiver-ca.pem") };
        let notice =
            || listen.printed() + &std::fs::read_to_string(home.log("listen-notice")).unwrap_or_default();
        eventually("listen listens", Duration::from_secs(10), async || {
            notice().contains("--allow-egress 127.0.0.1/32")
        })
        .await;
        // The certificate is where the text says.
        assert!(notice().contains(listen.ca.to_str().expect("a plain path")), "{}", notice());
        listen
    }

    fn printed(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// Lines about deliveries.
    fn lines(&self) -> Vec<String> {
        self.printed().lines().filter(|line| line.contains("delivery")).map(str::to_owned).collect()
    }

    /// The configuration of a tenant whose webhook points here, as what is printed says.
    fn yaml(&self) -> String {
        let ca = std::fs::read_to_string(&self.ca).expect("the CA is written");
        let ca: String = ca.lines().map(|line| format!("    {line}\n")).collect();
        let webhook = webhook_yaml("acme", "orders", "C-1", &format!("https://127.0.0.1:{}/hook", self.port));
        format!(
            "{}{webhook}  caBundleRef: {{kind: ConfigMap, name: listen-ca}}\n---\napiVersion: v1\nkind: ConfigMap\n\
             metadata: {{name: listen-ca}}\ndata:\n  ca.crt: |\n{ca}",
            tenant_yaml("acme", 'a')
        )
    }
}

impl Drop for Listen {
    fn drop(&mut self) {
        // The process has ended already if it could not start.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A tenant that delivers to it, with one order saved.
async fn delivering(home: &Home, listen: &Listen) -> (Server, Client) {
    home.write("all.yaml", &listen.yaml());
    home.add_contact("ACME", "C-1", "ann@example.com");
    let flags = "--allow-egress 127.0.0.1/32 --backoff-base 20ms --poll-interval 200ms";
    let server = Server::start(home, Options::flags(flags)).await;
    let client = server.sign_in(&api_key('a'), "ann@example.com").await;
    assert_eq!(client.post("/Orders/Save", &json!({"orderType": "Court"})).await.status, 200);
    (server, client)
}

fn deliveries(home: &Home, arguments: &[&str]) -> String {
    let (done, text) = home.command(&[&["deliveries"], arguments, &["--tenant", "ACME"]].concat(), "");
    assert!(done, "{text}");
    text
}

#[tokio::test]
async fn it_rehearses_failures_and_verifies() {
    let home = Home::new();
    let listen = Listen::start(&home, SECRET, &["--fail", "500:2"]).await;
    let (_server, client) = delivering(&home, &listen).await;
    eventually("the third attempt", Duration::from_secs(10), async || listen.lines().len() == 3).await;
    let lines = listen.lines();
    for (line, (attempt, answer)) in lines.iter().zip([(1, 500), (2, 500), (3, 200)]) {
        let expected = format!("attempt {attempt}  → {answer}  signature verified");
        assert!(line.contains("order.created") && line.contains(&expected), "{line}");
    }
    eventually("the log of it", Duration::from_secs(5), async || {
        let table = deliveries(&home, &["list"]);
        table.contains("Succeeded") && table.contains("3/5")
    })
    .await;

    // No payload is shown, and the next delivery is answered at once.
    assert_eq!(client.post("/Orders/Save", &json!({"orderType": "Process"})).await.status, 200);
    eventually("the next one", Duration::from_secs(5), async || listen.lines().len() == 4).await;
    assert!(listen.lines()[3].contains("attempt 1  → 200  signature verified"), "{:?}", listen.lines());
    assert!(!listen.printed().contains("webOrderId"), "{}", listen.printed());
}

#[tokio::test]
async fn it_waits_before_it_answers() {
    let home = Home::new();
    let listen = Listen::start(&home, SECRET, &["--delay", "600ms"]).await;
    let (_server, _) = delivering(&home, &listen).await;
    let begun = Instant::now();
    eventually("the answer", Duration::from_secs(10), async || {
        listen.lines().iter().any(|line| line.contains("→ 200  signature verified"))
    })
    .await;
    assert!(begun.elapsed() > Duration::from_millis(300), "{:?}", begun.elapsed());
    assert_eq!(listen.lines().len(), 1, "a late answer is an answer: {:?}", listen.lines());
}

#[tokio::test]
async fn it_names_the_likely_cause_of_a_wrong_signature() {
    let home = Home::new();
    // Editors replace a file in this way.
    let listen = Listen::start(&home, &format!("{SECRET}\n"), &[]).await;
    let (_server, _) = delivering(&home, &listen).await;
    eventually("the attempt", Duration::from_secs(10), async || !listen.lines().is_empty()).await;
    let line = listen.lines().swap_remove(0);
    assert!(line.contains("signature wrong: the secret ends in a newline on one side only"), "{line}");
    assert!(!line.contains("→ 200"), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_passes_deliveries_on_as_they_are_and_answers_as_the_receiver_does() {
    let home = Home::new();
    let mine = Receiver::scripted(|post| match post.path.as_str() {
        "/mine?a=b" => Response::whole(418, "X-Own: 1\r\n", b"a teapot"),
        _ => Response::Status(200),
    })
    .await;
    let to = format!("http://127.0.0.1:{}/mine?a=b", mine.plain);
    let listen = Listen::start(&home, SECRET, &["--forward-to", &to, "--fail", "503:1"]).await;
    let (_server, _) = delivering(&home, &listen).await;
    eventually("the second attempt", Duration::from_secs(10), async || listen.lines().len() >= 2).await;
    for (line, (attempt, answer, end)) in
        listen.lines().iter().zip([(1, 503, "verified"), (2, 418, "verified  seen before")])
    {
        let shown = format!("attempt {attempt}  → http://127.0.0.1:{}/mine [418] ", mine.plain);
        let answered = format!(" ms  → {answer}  signature {end}");
        assert!(line.contains(&shown) && line.ends_with(&answered), "{line}");
    }
    let posts = mine.posts();
    assert_eq!(posts[0].body, posts[1].body, "a simulated failure is a repetition to the receiver");
    for post in &posts {
        assert_eq!(post.path, "/mine?a=b");
        assert_signed_with(SECRET, post);
        assert_eq!(post.header("content-type"), Some("application/json; charset=utf-8"));
        assert!(post.header("user-agent").expect("Docket's").starts_with("Docket/"));
        assert_eq!(post.header("host"), Some(format!("127.0.0.1:{}", mine.plain).as_str()));
    }
    eventually("its answer in the log", Duration::from_secs(5), async || {
        stage::deliveries(&home).iter().any(|row| row.answer.as_deref() == Some("a teapot"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_why_the_receiver_did_not_answer() {
    let home = Home::new();
    // No label of a name has 64 characters, and no connection leads to a broadcast address.
    for (host, why) in [
        ("127.0.0.1", "no connection: nothing listens there, or it refused"),
        (&format!("{}.invalid", "a".repeat(64)), "no address: the name in --forward-to can't be resolved"),
        ("127.255.255.255", "no route: the address in --forward-to can't be reached from here"),
    ] {
        let to = format!("http://{host}:{}/", free_port());
        let listen = Listen::start(&home, SECRET, &["--forward-to", &to]).await;
        let at = format!("https://127.0.0.1:{}/", listen.port);
        let (secret, ca) = (home.log("secret"), listen.ca.clone());
        let (secret, ca) = (secret.to_str().expect("a plain path"), ca.to_str().expect("a plain path"));
        trigger(&home, &["order.created", "--to", &at, "--secret-file", secret, "--ca-file", ca]);
        eventually("the attempt", Duration::from_secs(10), async || !listen.lines().is_empty()).await;
        let line = listen.lines().swap_remove(0);
        assert!(line.contains(&format!("{to} [{why}] ")), "{line}");
        assert!(line.contains(" ms  → 502  signature verified"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_passes_on_over_https_and_names_what_is_wrong_with_tls() {
    let home = Home::new();
    let mine = Receiver::start().await;
    let ca = home.log("mine-ca");
    let ca_pem: String = docket_tests::receiver::ca_yaml()
        .lines()
        .skip_while(|line| !line.contains("BEGIN"))
        .map(|line| format!("{}\n", line.trim()))
        .collect();
    std::fs::write(&ca, ca_pem).expect("writable");
    let trusted = ["--forward-ca-file", ca.to_str().expect("a plain path")];
    let (tls, plain) = (mine.url("/mine"), format!("https://127.0.0.1:{}/", mine.plain));
    for (to, trusted, expected) in [
        (
            &tls,
            &[][..],
            "its certificate is from an unknown authority: name the authority's file with --forward-ca-file",
        ),
        (&plain, &trusted[..], "it listens, but does not speak TLS: use http:// in --forward-to"),
        (&tls, &trusted[..], "/mine [200] "),
    ] {
        let listen =
            Listen::start(&home, SECRET, &[&["--forward-to", to.as_str()][..], trusted].concat()).await;
        let at = format!("https://127.0.0.1:{}/", listen.port);
        let listen_ca = listen.ca.to_str().expect("a plain path").to_owned();
        trigger(&home, &["order.created", "--to", &at, "--ca-file", &listen_ca]);
        eventually("the attempt", Duration::from_secs(10), async || !listen.lines().is_empty()).await;
        let line = listen.lines().swap_remove(0);
        assert!(line.contains(expected), "{line}");
        let time = line.split(' ').next().expect("a time");
        assert!(time.len() == "10:02:31Z".len() && time.ends_with('Z'), "{line}");
    }
    assert_eq!(mine.count(), 1);
    assert_eq!(mine.posts()[0].header("accept"), Some("*/*"));
}

#[expect(clippy::disallowed_methods, reason = "the program prints the real time")]
#[tokio::test]
async fn its_times_are_utc_in_every_zone() {
    let home = Home::new();
    for zone in ["America/New_York", "Asia/Kolkata"] {
        let listen = Listen::start_in(&home, SECRET, &[], Some(zone)).await;
        let at = format!("https://127.0.0.1:{}/", listen.port);
        let before = jiff::Timestamp::now();
        trigger(
            &home,
            &["order.created", "--to", &at, "--ca-file", listen.ca.to_str().expect("a plain path")],
        );
        eventually("the attempt", Duration::from_secs(10), async || !listen.lines().is_empty()).await;
        let line = listen.lines().swap_remove(0);
        let seconds = before.as_second()..=jiff::Timestamp::now().as_second();
        let shown = |at| jiff::Timestamp::from_second(at).expect("now").strftime("%H:%M:%SZ  ").to_string();
        assert!(seconds.map(shown).any(|shown| line.starts_with(&shown)), "{zone}: {line}");
    }
}

/// `docket trigger`; whether it succeeded, and what it printed.
fn trigger(home: &Home, arguments: &[&str]) -> (bool, String) {
    home.command_alone(&[&["trigger"], arguments].concat())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_of_each_event_arrives_signed_and_marked_as_a_test() {
    let home = Home::new();
    let mine = Receiver::start().await;
    let to = format!("http://127.0.0.1:{}/", mine.plain);
    let listen = Listen::start(&home, SECRET, &["--forward-to", &to, "-o", "json"]).await;
    let (secret, ca) = (home.log("secret"), listen.ca.clone());
    let there = format!("https://127.0.0.1:{}/hook", listen.port);
    for event in EventCode::ALL {
        let (secret, ca) = (secret.to_str().expect("a plain path"), ca.to_str().expect("a plain path"));
        let arguments =
            [event.as_str(), "--to", &there, "--secret-file", secret, "--ca-file", ca, "--customer", "C-7"];
        let (done, text) = trigger(&home, &arguments);
        assert!(done && text.contains(&format!("→ {event}  evt_")) && text.contains("← 200 in "), "{text}");
        let post = mine.posts().pop().expect("it arrived");
        assert_signed_with(SECRET, &post);
        assert_eq!(post.header("x-service-test"), Some("true"));
        assert_eq!(post.header("x-service-event"), Some(event.as_str()));
        let envelope = post.envelope();
        assert_eq!((&envelope["event"], &envelope["customerCode"]), (&json!(event.as_str()), &json!("C-7")));
        let order =
            envelope["data"].get("webOrderId").or(envelope["data"].get("workOrder")).expect("an order");
        assert!(order.as_str().expect("a text").starts_with("TEST-"), "{envelope}");
    }
    eventually("a line for each", Duration::from_secs(5), async || listen.lines().len() == 6).await;
    for line in listen.lines() {
        let line: serde_json::Value = serde_json::from_str(&line).expect("nothing but JSON");
        assert_eq!((&line["signature"], &line["status"]), (&json!("verified"), &json!(200)), "{line}");
        assert_eq!(line["forwarded"]["status"], 200, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sample_goes_to_this_machine_without_tls_and_nowhere_else() {
    let (home, mine) = (Home::new(), Receiver::start().await);
    let secret = home.log("secret");
    std::fs::write(&secret, SECRET).expect("writable");
    let to = format!("http://localhost:{}/hook", mine.plain);
    let signed = ["order.created", "--to", &to, "--secret-file", secret.to_str().expect("a plain path")];
    let (done, text) = trigger(&home, &signed);
    assert!(done && text.contains("← 200 in "), "{text}");
    let post = mine.posts().pop().expect("it arrived");
    assert_signed_with(SECRET, &post);
    assert_eq!(post.header("x-service-test"), Some("true"));
    let (done, text) = trigger(&home, &["order.created", "--to", "http://receiver.example/"]);
    assert!(!done && text.contains("must be an https:// URL; http:// is for localhost"), "{text}");
    let (done, text) = trigger(&home, &[&signed[..], &["-o", "json"]].concat());
    let sent: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(done && sent["eventId"].as_str().is_some_and(|id| id.starts_with("evt_")), "{text}");
    assert_eq!(
        [&sent["event"], &sent["to"], &sent["httpStatus"], &sent["failure"]],
        [&json!("order.created"), &json!(to), &json!(200), &json!(null)]
    );
    let nowhere = format!("http://127.0.0.1:{}/", free_port());
    let (done, text) = trigger(&home, &["order.created", "--to", &nowhere]);
    assert!(!done && text.contains("the attempt failed: "), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_that_does_not_arrive_says_why() {
    let home = Home::new();
    let nowhere = format!("https://127.0.0.1:{}/", free_port());
    let (done, text) = trigger(&home, &["order.created", "--to", &nowhere]);
    assert!(
        !done && text.contains("the attempt failed: Refused. Nothing listens on the target's port"),
        "{text}"
    );
    let listen = Listen::start(&home, SECRET, &[]).await;
    let there = format!("https://127.0.0.1:{}/hook", listen.port);
    let (done, text) = trigger(&home, &["order.created", "--to", &there]);
    assert!(!done && text.contains("TlsUntrusted") && text.contains("--ca-file"), "{text}");
    let (done, text) = trigger(
        &home,
        &["order.created", "--to", &there, "--ca-file", listen.ca.to_str().expect("a plain path")],
    );
    assert!(
        !done && text.contains("← 401 in ") && text.contains("the signature is missing or wrong"),
        "{text}"
    );
}

#[test]
fn a_sample_is_printed_with_the_fields_that_were_set() {
    let home = Home::new();
    let (done, text) = trigger(
        &home,
        &[
            "order.status_changed",
            "--print",
            "--set",
            "data.milestoneCode=40",
            "--set",
            "data.milestone=Done",
        ],
    );
    assert!(done && !text.ends_with('\n'), "the very bytes: {text}");
    let envelope: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&envelope["data"]["milestoneCode"], &envelope["data"]["milestone"]),
        (&json!(40), &json!("Done"))
    );
    for (arguments, said) in [
        (&["order.changed", "--print"][..], "order.status_changed"),
        (&["order.created"], "--to"),
        (&["order.created", "--print", "--set", "orderType=Court"], "must be data.<field>=<value>"),
        (
            &["order.created", "--print", "--set", "data.size=1"],
            "no field data.size; it has finalize, orderType, webOrderId",
        ),
        (
            &["note.created", "--print", "--set", "data.lineItem=x"],
            "data.lineItem of note.created can't be `x`",
        ),
        (&["order.created", "--to", "http://r.example/"], "https"),
    ] {
        let (done, text) = trigger(&home, arguments);
        assert!(!done && text.contains(said), "{said}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirect_fails_as_at_an_attempt_and_a_long_answer_is_cut() {
    let home = Home::new();
    let mine = Receiver::scripted(|post| match post.path.as_str() {
        "/moved" => Response::whole(302, "Location: /hook\r\n", b""),
        _ => Response::whole(200, "", &[b'x'; 5_000]),
    })
    .await;
    let at = |path: &str| format!("http://localhost:{}{path}", mine.plain);
    let (done, text) = trigger(&home, &["order.created", "--to", &at("/moved")]);
    assert!(!done && text.contains("a delivery needs a status from 200 to 299, not 302"), "{text}");
    assert!(mine.posts_to("/hook").is_empty(), "redirects are not followed");
    let (done, text) = trigger(&home, &["order.created", "--to", &at("/hook"), "-o", "json"]);
    let sent: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((done, sent["response"].as_str().map(str::len)), (true, Some(2_000)));
}
