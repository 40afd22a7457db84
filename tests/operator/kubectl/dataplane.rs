//! The commands that ask the data plane: `docket serve --platform` on a real PostgreSQL and Redis, and the rights that a real API
//! server reviews.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use docket_crds::AUDIENCE;
use docket_egress::Trust;
use docket_rig::postgres;
use docket_rig::redis::RedisServer;
use docket_rig::scratch::Folder;
use docket_tests::apiserver::{Gate, cluster};
use docket_tests::operator::SOON;
use docket_tests::receiver::{Receiver, Response, ca_yaml};
use docket_tests::server::{Home, JSON, PASSWORD, Reply, Server, api_key, eventually, request, tenant_yaml};
use serde_json::{Value, json};

use super::{docket, documented, parsed, rules};

/// Scaled time.
const FAST: &str = "--roles api,worker --backoff-base 50ms --poll-interval 200ms --attempt-timeout 3s --allow-egress 127.0.0.1/32 \
                    --sweep-interval 1s --shutdown-delay 0s";
pub(super) const USER: &str = "zq-ada@canary.example";
/// What no answer may have: an order's content, a receiver's response.
pub(super) const CAPTION: &str = "Zqcaption v. Zqother";
pub(super) const ANSWER: &str = "zq-receiver-answer";

/// A tenant `acme` in the namespace `default` of the folder, whose receiver fails until it is repaired.
pub(super) struct Stage {
    pub(super) home: Home,
    pub(super) server: Server,
    pub(super) database: String,
    repaired: Arc<AtomicBool>,
    _receiver: Receiver,
    _redis: RedisServer,
    /// The namespace of this test's accounts.
    pub(super) namespace: String,
}

impl Stage {
    pub(super) async fn new(more: &str) -> Self {
        cluster().install_crds();
        let namespace = cluster().namespace("support");
        let reviewer = reviewer(&namespace);
        Self::reviewed_by(namespace, reviewer, more).await
    }

    /// A stage whose data plane uses this kubeconfig.
    pub(super) async fn reviewed_by(namespace: String, reviewer: PathBuf, more: &str) -> Self {
        let repaired = Arc::new(AtomicBool::new(false));
        let is_repaired = Arc::clone(&repaired);
        let receiver = Receiver::verifying(move |_| match is_repaired.load(Ordering::Relaxed) {
            true => Response::Status(200),
            false => {
                let length = ANSWER.len();
                let text = format!("HTTP/1.1 503 Away\r\ncontent-length: {length}\r\n\r\n{ANSWER}");
                Response::Raw(text.into_bytes())
            }
        })
        .await;
        let redis = RedisServer::start(&[]);
        let database = postgres::database().await;
        let tenant = tenant_yaml("acme", 'a').replace(
            "managed: {name: tenant_acme}",
            "external: {secretKeyRef: {name: acme-database, key: url}}",
        );
        let secret = format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: acme-database}}\nstringData: {{url: \"{database}\"}}\n"
        );
        let webhook = receiver.webhook_yaml("acme", "orders", "C-1", "/orders");
        let home = Home::with(&format!("{tenant}{secret}{}{webhook}", ca_yaml()));
        std::fs::write(home.log("redis-url"), redis.url()).expect("writable");
        let person = ["--tenant", "ACME", "--postgresql"];
        let customer = [&["customer", "add", "--code", "C-1", "--name", "A customer"], &person[..]].concat();
        let contact = ["contact", "add", "--customer", "C-1", "--email", USER, "--name", "Zqname"];
        for (words, input) in [(customer, ""), ([&contact[..], &person].concat(), PASSWORD)] {
            let (done, text) = home.command(&words, input);
            assert!(done, "{text}");
        }
        let path = |path: PathBuf| path.display().to_string();
        let mut arguments = vec!["serve".to_owned()];
        for (flag, value) in [
            ("--config-dir", path(home.config())),
            ("--data-dir", path(home.data())),
            ("--redis-url-file", path(home.log("redis-url"))),
        ] {
            arguments.extend([flag.to_owned(), value]);
        }
        arguments.extend(FAST.split_whitespace().chain(more.split_whitespace()).map(str::to_owned));
        let server = Server::spawn_server(&home, &arguments, &[("KUBECONFIG".to_owned(), path(reviewer))]);
        let server = server.ready(&home).await;
        Self { home, server, database, repaired, _receiver: receiver, _redis: redis, namespace }
    }

    /// An account with these verbs on deliveries in the namespace of the tenant, or in another one.
    pub(super) fn account(&self, name: &str, verbs: &[&str], namespace: &str) -> PathBuf {
        let kubeconfig = cluster().service_account(&self.namespace, name);
        let rules = json!([{"apiGroups": ["docket.dev"], "resources": ["tenants/deliveries", "webhooks/deliveries"], "verbs": verbs}]);
        if !verbs.is_empty() {
            bind(&self.namespace, name, Some(namespace), &rules);
        }
        kubeconfig
    }

    /// The plugin in the tenant's namespace, at this data plane.
    pub(super) fn asks(&self, kubeconfig: &Path, arguments: &[&str]) -> (i32, String, String) {
        let port = self.server.management.port().to_string();
        docket(kubeconfig, &[arguments, &["--namespace", "default", "--local-port", &port]].concat())
    }

    /// Saves an order; returns its id.
    pub(super) async fn save(&self) -> String {
        let client = self.server.sign_in(&api_key('a'), USER).await;
        let order = json!({"orderType": "Court", "case": {"caption": CAPTION}});
        let reply = client.post("/Orders/Save", &order).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["webOrderId"].as_str().expect("an id").to_owned()
    }

    /// GET of a route for the platform in the tenant's namespace.
    async fn get(&self, token: &str, path: &str) -> Reply {
        self.ask("GET", token, path, "").await
    }

    async fn ask(&self, method: &str, token: &str, path: &str, body: &str) -> Reply {
        let bearer = format!("Bearer {token}");
        let path = format!("/platform/namespaces/default/{path}");
        let headers = [("authorization", bearer.as_str()), JSON];
        request(self.server.management, method, &path, &headers, body).await.expect("an answer")
    }

    /// Waits until the tenant has `count` dead letters.
    pub(super) async fn dead(&self, count: i64) {
        let client = postgres::client(&self.database).await;
        let sql = "SELECT count(*) FROM delivery_history WHERE status = 'DeadLetter'";
        eventually("dead letters", SOON, async || {
            client.query_one(sql, &[]).await.expect("a count").get::<_, i64>(0) == count
        })
        .await;
    }
}

/// An account that may ask the API server who a user is and what it may do.
fn reviewer(namespace: &str) -> PathBuf {
    let reviewer = cluster().service_account(namespace, "docket-api");
    bind(
        namespace,
        "docket-api",
        None,
        &json!([
            {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
        ]),
    );
    reviewer
}

/// Binds rules to an account: in a namespace, or in the cluster.
pub(super) fn bind(of: &str, account: &str, namespace: Option<&str>, rules: &Value) {
    let name = format!("{of}-{account}");
    let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
    let api = "rbac.authorization.k8s.io/v1";
    let meta = json!({"name": name, "namespace": namespace});
    for object in [
        json!({"apiVersion": api, "kind": kind, "metadata": meta, "rules": rules}),
        json!({"apiVersion": api, "kind": format!("{kind}Binding"), "metadata": meta,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": of}]}),
    ] {
        cluster().kubectl(&["apply", "-f", "-"], &object.to_string()).expect("the administrator binds roles");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_of_a_webhook_that_is_not_served_are_listed_and_set_aside() {
    let stage = Stage::new("--platform").await;
    let support = stage.account("support", &["list", "resend"], "default");
    stage.save().await;
    stage.dead(1).await;
    let held = "apiVersion: docket.dev/v1alpha1\nkind: Webhook\nmetadata: {name: held}\nspec: {tenantRef: {name: acme}, \
                customerCode: C-1, targetURL: 'https://h.example/', events: [note.created], \
                secretRef: {name: none}}\n";
    stage.home.write("held.yaml", held);
    let sql = "UPDATE delivery_history SET webhook = 'default/held/C-1', webhook_name = 'default/held'";
    postgres::client(&stage.database).await.batch_execute(sql).await.expect("an update");
    eventually("it is declared", SOON, async || stage.asks(&support, &["deliveries", "held"]).0 == 0).await;
    let (_, out, err) = stage.asks(&support, &["deliveries", "held", "--dead-letter", "open"]);
    assert!(out.contains("  DeadLetter"), "{out}{err}");
    let (code, out, err) = stage.asks(&support, &["set-aside", "held", "--yes"]);
    assert_eq!((code, out.as_str()), (0, "1 dead letter of held set aside: it counts no longer.\n"), "{err}");
    let (_, out, err) = stage.asks(&support, &["deliveries", "held", "--dead-letter", "set-aside"]);
    assert!(out.contains("  DeadLetter"), "{out}{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_found_traced_and_resent_without_what_they_say() {
    let stage = Stage::new("--platform").await;
    let support = stage.account("support", &["list", "get", "resend", "test"], "default");
    let order = stage.save().await;
    stage.dead(1).await;
    let mut said = String::new();
    let mut at = |arguments: &[&str], expected: i32| {
        let (code, out, err) = stage.asks(&support, arguments);
        assert_eq!(code, expected, "{arguments:?}: {out}{err}");
        said += &format!("{out}{err}");
        (out, err)
    };

    let (out, _) = at(&["deliveries", "orders", "--dead", "--since", "1h", "-o", "json"], 0);
    let found = parsed(&out)["deliveries"].clone();
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
    let one = &found[0];
    assert_eq!(
        [&one["webOrderId"], &one["webhook"], &one["status"], &one["failureClass"], &one["httpStatus"]],
        [&json!(order), &json!("default/orders"), &json!("DeadLetter"), &json!("ServerError"), &json!(503)]
    );
    let id = one["deliveryId"].as_str().expect("an id").to_owned();
    let (out, _) =
        at(&["deliveries", "-t", "acme", "--event", "order.created", "--order", &order, "-o", "wide"], 0);
    assert!(out.contains(&id) && out.contains("ServerError 503") && out.contains("default/orders"), "{out}");
    let (lower, event) = (order.to_lowercase(), one["eventId"].as_str().expect("an id"));
    for filter in [
        ["--find", lower.as_str()],
        ["--about", event],
        ["--delivery-id", &id],
        ["--customer", "C-1"],
        ["--kind", "first"],
    ] {
        let (out, _) = at(&[&["deliveries", "-t", "acme"][..], &filter, &["-o", "json"]].concat(), 0);
        assert_eq!(parsed(&out)["deliveries"][0]["deliveryId"], json!(id), "{filter:?}: {out}");
    }
    let (out, _) = at(&["trace", "event", event, "-t", "acme", "-o", "json"], 0);
    assert_eq!(parsed(&out)["deliveries"][0]["deliveryId"], json!(id), "{out}");
    let other = "0".repeat(32);
    for none in [
        ["--find", "none"],
        ["--kind", "resend"],
        ["--customer", "C-2"],
        ["--resend-id", other.as_str()],
        ["--status", "Succeeded"],
        ["--dead-letter", "set-aside"],
        ["--class", "Dns"],
        ["--invoice", "1"],
        ["--event", "note.created"],
        ["--http-status", "404"],
        ["--event-id", "evt_0"],
        ["--order", "none"],
        ["--work-order", "none"],
        ["--from", "2999-01-01"],
        ["--to", "2020-01-01"],
    ] {
        assert_eq!(at(&[&["deliveries", "orders"], &none[..]].concat(), 0).0, "No delivery matches.\n");
    }
    let (_, err) = at(&["deliveries", "list", "orders", "--status", "Lost"], 2);
    assert!(err.contains("[possible values: Pending, "), "{err}");
    let (_, err) = at(&["trace", "order", "none", "-t", "acme"], 1);
    assert!(err.contains("There is no web order, work order or invoice of this number"), "{err}");

    let (out, _) = at(&["trace", "order", &order, "-t", "acme"], 0);
    assert!(out.contains("Draft") && out.contains("  saved\n") && out.contains(&id), "{out}");
    assert_eq!(out.matches("Failed ServerError 503").count(), 5, "{out}");
    // Who may look at one webhook learns nothing of orders whose deliveries went elsewhere.
    let quiet = "apiVersion: docket.dev/v1alpha1\nkind: Webhook\nmetadata: {name: quiet}\nspec: {tenantRef: {name: acme}, \
                 customerCode: C-1, targetURL: 'https://h.example/', events: [note.created]}\n";
    stage.home.write("quiet.yaml", quiet);
    let token = cluster().token(&stage.namespace, "support", AUDIENCE);
    let trace = async |webhook: &str, number: &str| {
        stage.get(&token, &format!("webhooks/{webhook}/trace?number={number}")).await
    };
    eventually("it is served", SOON, async || trace("quiet", "none").await.status == 404).await;
    assert_eq!(trace("No_Name", "none").await.status, 400, "no role could name it");
    // The choice of dead letters, and of the time at which the user has seen them.
    let counted = async |route: &str, body: Value| {
        let reply = stage.ask("POST", &token, &format!("webhooks/orders/{route}"), &body.to_string()).await;
        assert_eq!(reply.status, 200, "{route}: {reply:?}");
        reply.json()["count"].as_i64()
    };
    for route in ["preview", "set-aside/preview"] {
        for (body, count) in [
            (json!({}), 1),
            (json!({"from": "2020-01-01", "to": "2999-01-01", "limit": 1}), 1),
            (json!({"to": "2020-01-01"}), 0),
            (json!({"from": "2999-01-01"}), 0),
            (json!({"event": "note.created"}), 0),
        ] {
            assert_eq!(counted(route, body.clone()).await, Some(count), "{route} {body}");
        }
    }
    assert_eq!(counted("set-aside/preview", json!({"endedBefore": "2020-01-01"})).await, Some(0));
    let (none, others) = (trace("quiet", "none").await, trace("quiet", &order).await);
    assert_eq!((others.status, &others.json()["detail"]), (404, &none.json()["detail"]), "{others:?}");
    let own = trace("orders", &order).await.json();
    assert_eq!(
        (&own["order"]["webOrderId"], &own["events"]),
        (&json!(order), &json!([])),
        "no other webhook"
    );

    let (out, _) = at(&["trace", "delivery", &id, "-t", "acme", "-o", "json"], 0);
    let trace = parsed(&out);
    assert_eq!(trace["order"]["webOrderId"], order, "{out}");
    let attempts = trace["deliveries"][0]["attempts"].as_array().expect("a list");
    assert!(
        attempts.len() == 5 && attempts.iter().all(|attempt| attempt.get("responseBody").is_none()),
        "{out}"
    );

    let resend = ["resend", "orders", "--dead", "--since", "1h", "--rate", "100/s"];
    let (out, _) = at(&resend, 0);
    assert!(
        out.starts_with("1 dead letter of orders, created from 20") && out.contains("add --yes"),
        "{out}"
    );
    let (out, _) = at(&["deliveries", "orders", "-o", "json"], 0);
    assert_eq!(
        parsed(&out)["deliveries"].as_array().map(Vec::len),
        Some(1),
        "a preview writes nothing: {out}"
    );
    let (out, err) = at(&["test", "orders", "--event", "order.exported"], 1);
    assert!(out.starts_with("Test event order.exported to default/orders: ServerError 503 in "), "{out}");
    assert!(err.contains("the first attempt failed: "), "{err}");
    stage.dead(2).await;
    let (_, err) = at(&[&resend[..], &["--yes", "--probe"]].concat(), 1);
    assert!(err.contains("the first was not taken, so nothing else was resent"), "{err}");
    stage.dead(3).await;
    let aside = ["set-aside", "orders", "--event", "order.created", "--since", "1h"];
    let (out, _) = at(&aside, 0);
    assert!(
        out.starts_with("1 dead letter of orders, created from 20") && out.contains("add --yes"),
        "{out}"
    );
    assert_eq!(
        at(&["set-aside", "orders", "--event", "note.created", "--yes"], 0).0,
        "No dead letter of orders to set aside.\n"
    );
    let (out, _) = at(&[&aside[..], &["--yes", "-o", "json"]].concat(), 0);
    assert_eq!(
        (&parsed(&out)["changed"], &parsed(&out)["preview"]["count"]),
        (&json!(1), &json!(1)),
        "{out}"
    );
    assert_eq!(at(&resend, 0).0, "No dead letters of orders to resend.\n");
    let (out, _) = at(&["set-aside", "orders", "--undo", "--yes"], 0);
    assert_eq!(out, "1 dead letter of orders counts again.\n");
    stage.repaired.store(true, Ordering::Relaxed);
    let (out, _) = at(&["test", "orders", "-o", "json"], 0);
    let tested = parsed(&out)["delivery"].clone();
    assert_eq!(
        [&tested["isTest"], &tested["event"], &tested["status"], &tested["attempts"][0]["httpStatus"]],
        [&json!(true), &json!("order.created"), &json!("Succeeded"), &json!(200)]
    );
    let (_, err) = at(&["test", "orders", "--event", "note.created"], 1);
    assert!(err.contains("is not subscribed to this event"), "{err}");
    let (_, err) = at(&[&resend[..], &["--yes", "--probe"]].concat(), 0);
    assert!(err.contains("1 of 1 delivered, 0 failed"), "{err}");
    let user = format!("cluster user system:serviceaccount:{}:support", stage.namespace);
    let (out, _) = at(&["deliveries", "orders", "--status", "Succeeded", "-o", "json"], 0);
    let found = &parsed(&out)["deliveries"];
    assert_eq!(found[0]["requestedBy"], json!(user), "{found}");
    assert!(found[0]["resendOf"].is_string() && found[0]["resendOf"] != json!(id), "of the probe: {found}");
    assert_eq!(at(&[&resend[..], &["--yes"]].concat(), 0).0, "No dead letters of orders to resend.\n");
    let sql = "SELECT actor, count, request_id FROM audit WHERE event = 'ResendStarted'";
    let rows = postgres::client(&stage.database).await.query(sql, &[]).await.expect("the audit");
    assert_eq!((rows.len(), rows[0].get::<_, String>(0), rows[0].get::<_, i64>(1)), (2, user, 1));
    assert!(rows[0].get::<_, Option<String>>(2).is_some(), "the id of the request");

    for secret in [CAPTION, ANSWER, USER, PASSWORD, "Zqname", &api_key('a')] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resend_is_stopped_by_who_may_resend_to_the_webhook() {
    let stage = Stage::new("--platform").await;
    let support = stage.account("support", &["list", "resend"], "default");
    let reader = stage.account("reader", &["list"], "default");
    for _ in 0..9 {
        stage.save().await;
    }
    stage.dead(9).await;
    for command in ["resend", "set-aside"] {
        let (_, out, err) = stage.asks(&support, &[command, "orders", "--limit", "2", "-o", "json"]);
        let preview = &parsed(&out)["preview"];
        assert_eq!((&preview["count"], &preview["total"]), (&json!(2), &json!(9)), "{command}: {out}{err}");
    }
    let other = "apiVersion: docket.dev/v1alpha1\nkind: Webhook\nmetadata: {name: other}\nspec: {tenantRef: {name: acme}, \
                 customerCode: C-1, targetURL: 'https://h.example/', events: [note.created]}\n";
    stage.home.write("other.yaml", other);
    let token = cluster().token(&stage.namespace, "support", AUDIENCE);
    eventually("it is served", SOON, async || {
        stage.get(&token, "webhooks/other/deliveries").await.status == 200
    })
    .await;
    // The last of them is due after eight seconds.
    let reply = stage.ask("POST", &token, "webhooks/orders/resend", r#"{"perSecond": 1}"#).await;
    let id = reply.json()["resendId"].as_str().expect("an id").to_owned();
    let stop = |account: &Path, webhook: &str| {
        stage.asks(account, &["resend", webhook, "--stop", &id, "-o", "json"])
    };
    let (code, _, err) = stop(&reader, "orders");
    assert!(code == 3 && err.contains("the data plane refuses: You may not "), "{err}");
    let (code, _, err) = stop(&support, "other");
    assert!(code == 1 && err.contains("The webhook has no such resend"), "{err}");
    let (code, out, err) = stop(&support, "orders");
    let stopped = serde_json::from_str::<Value>(&out).expect(&err)["stopped"].take();
    let [back, gone] = ["takenBack", "gone"].map(|name| stopped[name].as_i64().expect("a number"));
    assert!(code == 0 && back > 0 && back + gone == 9, "{out}");
    let (_, out, _) = stage.asks(&support, &["resend", "orders", "--stop", &id]);
    assert!(out.contains(&format!("Resend {id} stopped; withdrawn: 0,")), "{out}");
    let (code, _, err) = stage.asks(&support, &["resend", "orders", "--stop", &id, "--rate", "1/s"]);
    assert!(code == 2 && err.contains("cannot be used with"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_command_needs_its_verb_in_the_namespace_and_a_token() {
    let stage = Stage::new("--platform").await;
    let (list, get, resend) = (
        &["deliveries", "orders"][..],
        &["trace", "order", "none", "-t", "acme"][..],
        &["resend", "orders", "--dead", "--yes"][..],
    );
    let elsewhere = cluster().namespace("elsewhere");
    stage.save().await;
    stage.dead(1).await;
    for (name, verbs, namespace, allowed) in [
        ("no-right", &[][..], "default", [false, false, false]),
        ("lists", &["list"][..], "default", [true, false, false]),
        ("gets", &["get"][..], "default", [false, true, false]),
        ("resends", &["list", "resend"][..], "default", [true, false, true]),
        ("elsewhere", &["list", "get", "resend"][..], elsewhere.as_str(), [false, false, false]),
    ] {
        let account = stage.account(name, verbs, namespace);
        for ((verb, command), allowed) in
            [("list", list), ("get", get), ("resend", resend)].into_iter().zip(allowed)
        {
            assert_eq!(can(&account, verb, "webhooks/deliveries", "default"), allowed, "{name} {verb}");
            let (code, out, err) = stage.asks(&account, command);
            assert_eq!(code != 3, allowed, "{name} {verb}: {out}{err}");
            assert!(allowed || err.contains("the data plane refuses: You may not "), "{err}");
        }
    }

    // Only users who may see a webhook learn whether it exists.
    let lists = cluster().service_account(&stage.namespace, "lists");
    let (code, _, err) = stage.asks(&lists, &["deliveries", "gone"]);
    assert_eq!((code, err.contains("The Webhook is not served")), (1, true), "{err}");
    let without = cluster().service_account(&stage.namespace, "no-right");
    let (code, _, err) = stage.asks(&without, &["deliveries", "gone"]);
    assert_eq!((code, err.contains("You may not list webhooks/deliveries")), (3, true), "{err}");

    // A login by certificate asks with a ServiceAccount's token.
    let view = ["config", "view", "--minify", "--raw", "--flatten", "--output=json"];
    let mut without = parsed(&cluster().kubectl(&view, "").expect("a kubeconfig can be shown"));
    let token = without["users"][0]["user"]["token"].clone();
    for login in [json!({}), json!({"token": token, "as": "someone"})] {
        without["users"][0]["user"] = login;
        let path = stage.home.log("kubeconfig");
        std::fs::write(&path, without.to_string()).expect("writable");
        let (code, _, err) = stage.asks(&path, list);
        assert_eq!((code, err.contains("--account NAMESPACE/NAME")), (3, true), "{err}");
    }
    let account = format!("{}/lists", stage.namespace);
    let (code, out, err) = stage.asks(cluster().admin(), &["deliveries", "orders", "--account", &account]);
    assert_eq!((code, out.contains("DeadLetter")), (0, true), "{out}{err}");

    // A request without a token, and a request whose token the API server does not know.
    let path = "/platform/namespaces/default/webhooks/orders/deliveries";
    for token in [None, Some("Bearer zq-no-token"), Some("Basic eA==")] {
        let headers: Vec<(&str, &str)> = token.map(|token| ("authorization", token)).into_iter().collect();
        let management = stage.server.management;
        let reply = request(management, "GET", path, &headers, "").await.expect("an answer");
        assert_eq!((reply.status, reply.headers["www-authenticate"].as_str()), (401, "Bearer"));
    }
    let api = stage.server.send("GET", path, &[], "").await;
    assert_eq!(api.status, 404, "the port of the API does not serve it");
    let log = std::fs::read_to_string(stage.home.log("err")).unwrap_or_default();
    assert!(!log.contains("zq-no-token"), "{log}");
}

/// The right to deliveries shows neither the audit nor people, and the right to the audit shows no people.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_and_people_need_rights_of_their_own() {
    let stage = Stage::new("--platform").await;
    stage.save().await;
    let account = |name: &str, resource: &str| {
        let kubeconfig = cluster().service_account(&stage.namespace, name);
        let rules = json!([{"apiGroups": ["docket.dev"], "resources": [resource], "verbs": ["list"]}]);
        bind(&stage.namespace, name, Some("default"), &rules);
        kubeconfig
    };
    let support = stage.account("support", &["list", "get", "resend", "test"], "default");
    let (auditor, registrar) = (account("auditor", "tenants/audit"), account("registrar", "tenants/people"));
    let (audit, contacts, employees) = (
        &["audit", "list", "-t", "acme"][..],
        &["people", "list", "contacts", "-t", "acme"][..],
        &["people", "employees", "-t", "acme"][..],
    );
    for (who, commands, allowed) in [
        (&support, [audit, contacts, employees], [false; 3]),
        (&auditor, [audit, contacts, employees], [true, false, false]),
        (&registrar, [audit, contacts, employees], [false, true, true]),
    ] {
        for (command, allowed) in commands.into_iter().zip(allowed) {
            let (code, out, err) = stage.asks(who, command);
            assert_eq!(code, if allowed { 0 } else { 3 }, "{command:?}: {out}{err}");
            assert!(allowed || err.contains("the data plane refuses: You may not list tenants/"), "{err}");
        }
    }

    let (_, out, err) = stage.asks(&registrar, &[contacts, &["--customer", "C-1", "-o", "json"]].concat());
    let listed = parsed(&out);
    let contact = &listed["contacts"][0];
    assert_eq!(
        [&contact["email"], &contact["name"], &contact["customerCode"], &listed["more"]],
        [&json!(USER), &json!("Zqname"), &json!("C-1"), &json!(false)],
        "{out}{err}"
    );
    let (_, out, _) = stage.asks(&registrar, &[contacts, &["--customer", "C-2", "-o", "json"]].concat());
    assert_eq!(parsed(&out), json!({"contacts": [], "more": false}));
    let (_, out, _) = stage.asks(&registrar, contacts);
    assert!(out.starts_with("E-MAIL ") && out.contains(USER), "{out}");

    // The entries are stored a second later.
    let reads = [audit, &["--event", "PeopleRead", "-o", "json"]].concat();
    let mut entries = json!(null);
    eventually("both lists are recorded", SOON, async || {
        let (code, out, err) = stage.asks(&auditor, &reads);
        assert_eq!(code, 0, "{err}");
        entries = parsed(&out)["entries"].clone();
        entries.as_array().map(Vec::len) == Some(2)
    })
    .await;
    let actor = format!("cluster user system:serviceaccount:{}:registrar", stage.namespace);
    for entry in entries.as_array().expect("a list") {
        assert_eq!([&entry["actor"], &entry["tenant"]], [&json!(actor), &json!("ACME")], "{entry}");
        assert!(entry["subject"] == "people contacts" || entry["subject"] == "people employees", "{entry}");
    }
    let (_, own, err) = stage.asks(&auditor, &[audit, &["--person", &actor, "-o", "json"]].concat());
    assert_eq!(parsed(&own)["entries"], entries, "{err}");
    let (_, none, err) = stage.asks(&auditor, &[audit, &["--webhook", "a/none", "-o", "json"]].concat());
    assert_eq!(parsed(&none)["entries"], json!([]), "{err}");
    for beyond in [["--from", "2999-01-01"], ["--to", "2020-01-01"]] {
        let (_, none, err) = stage.asks(&auditor, &[audit, &beyond, &["-o", "json"]].concat());
        assert_eq!(parsed(&none)["entries"], json!([]), "{beyond:?}: {err}");
    }
    let (_, all, _) = stage.asks(&auditor, &[audit, &["--limit", "1000", "-o", "json"]].concat());
    assert!(all.contains("ContactAdded"), "{all}");
    for secret in [USER, "Zqname", CAPTION, ANSWER, PASSWORD] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    let (code, out, err) = stage.asks(&auditor, &[audit, &["--limit", "1"]].concat());
    assert!(code == 0 && out.lines().count() == 2 && err.contains("There are more"), "{out}{err}");
    let token = cluster().token(&stage.namespace, "auditor", AUDIENCE);
    let wrong = stage.get(&token, "tenants/acme/audit?event=Read").await;
    assert!(wrong.status == 400 && wrong.text().contains("PayloadRead"), "{wrong:?}");
}

/// Whether an account may, by `kubectl auth can-i`.
pub(super) fn can(kubeconfig: &Path, verb: &str, resource: &str, namespace: &str) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let group = match resource {
        "pods" => "",
        "deployments" => ".apps",
        "events" => ".events.k8s.io",
        "customresourcedefinitions" => ".apiextensions.k8s.io",
        _ => ".docket.dev",
    };
    let ask = [
        "auth",
        "can-i",
        verb,
        &format!("{resource}{group}"),
        "--subresource",
        subresource,
        "--namespace",
        namespace,
    ];
    cluster().kubectl_as(kubeconfig, &ask, "").out.trim() == "yes"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_that_the_document_lists_are_enough_and_none_is_too_many() {
    let stage = Stage::new("--platform").await;
    let release = &stage.namespace;
    // A pod of the API, as far as the API server knows; nothing runs it.
    let _ = cluster().kubectl(&["--namespace", release, "create", "serviceaccount", "default"], "");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "api-0", "namespace": release, "labels":
        {"app.kubernetes.io/component": "api", "app.kubernetes.io/part-of": "docket"}},
        "spec": {"containers": [{"name": "api", "image": "none"}]}});
    cluster().kubectl(&["apply", "-f", "-"], &pod.to_string()).expect("a pod");
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}).to_string();
    let patch = [
        "--namespace",
        release,
        "patch",
        "pod",
        "api-0",
        "--subresource=status",
        "--type=merge",
        "-p",
        &ready,
    ];
    cluster().kubectl(&patch, "").expect("it is ready");

    let of = |name: &str| documented().into_iter().find(|(command, _)| command == name).expect("a row").1;
    for (name, commands) in [
        ("deliveries", &[&["deliveries", "orders"][..], &["deliveries", "-t", "acme"]][..]),
        ("trace", &[&["trace", "order", "none", "-t", "acme"]]),
        ("resend", &[&["resend", "orders", "--dead", "--yes"]]),
        ("test", &[&["test", "orders"]]),
        ("audit", &[&["audit", "-t", "acme"]]),
        ("people", &[&["people", "contacts", "-t", "acme"], &["people", "employees", "-t", "acme"]]),
    ] {
        let [_, in_release, in_tenants] = of(name);
        let kubeconfig = cluster().service_account(release, name);
        let forwarding = |command: &[&str]| {
            docket(
                &kubeconfig,
                &[command, &["--namespace", "default", "--release-namespace", release]].concat(),
            )
        };
        // The account gets each right of forwarding, one after the other. Kubernetes 1.35 and newer also ask for the last right.
        for (at, (verb, resource)) in in_release.iter().enumerate() {
            assert!(!can(&kubeconfig, verb, resource, release));
            let (code, _, err) = forwarding(commands[0]);
            let is_refused = code == 3 && err.contains("no access");
            assert!(is_refused || verb == "create", "{name} {verb}: {code} {err}");
            bind(release, name, Some(release), &rules(&in_release[..=at]));
            assert!(can(&kubeconfig, verb, resource, release), "{verb} {resource}");
        }
        let (_, _, err) = forwarding(commands[0]);
        assert!(!err.contains("no access"), "it fails for want of a node: {err}");
        for command in commands {
            assert_eq!(stage.asks(&kubeconfig, command).0, 3, "{command:?}");
        }
        let account = format!("{name}-tenants");
        let kubeconfig = cluster().service_account(release, &account);
        bind(release, &account, Some("default"), &rules(&in_tenants));
        for (verb, resource) in &in_tenants {
            assert!(can(&kubeconfig, verb, resource, "default"), "{verb} {resource}");
        }
        for command in commands {
            let (code, out, err) = stage.asks(&kubeconfig, command);
            assert_ne!(code, 3, "{command:?}: {out}{err}");
        }
        assert!(
            !can(&kubeconfig, "get", "secrets", "default")
                && !can(&kubeconfig, "create", "pods/exec", release)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_of_an_account_is_worth_nothing_at_the_api_server() {
    let stage = Stage::new("--platform").await;
    stage.account("support", &["list"], "default");
    let listed = async |audience: &str| {
        let token = cluster().token(&stage.namespace, "support", audience);
        (stage.get(&token, "webhooks/orders/deliveries").await.status, cluster().takes(&token))
    };
    assert_eq!(listed(AUDIENCE).await, (200, false));
    assert_eq!(listed("https://elsewhere.example").await, (401, false));
    assert_eq!(listed("").await, (200, true), "a login's own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_api_server_cannot_be_asked_no_user_learns_anything() {
    let namespace = cluster().namespace("support");
    // Its account may not review.
    let reviewer = cluster().service_account(&namespace, "docket-api");
    let stage = Stage::reviewed_by(namespace, reviewer, "--platform").await;
    let support = stage.account("support", &["list", "get", "resend"], "default");
    let (code, out, err) = stage.asks(&support, &["deliveries", "orders"]);
    assert_eq!((code, out.as_str()), (3, ""), "{err}");
    assert!(err.contains("can't be asked who you are"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_plane_that_does_not_serve_it_says_what_to_set() {
    let stage = Stage::new("").await;
    let support = stage.account("support", &["list"], "default");
    let (code, _, err) = stage.asks(&support, &["deliveries", "orders"]);
    assert_eq!((code, err.contains("set platform.enabled=true")), (1, true), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_the_platform_count_against_the_tenants_limit() {
    let stage = Stage::new("--platform").await;
    let support = stage.account("support", &["list"], "default");
    let token = cluster().token(&stage.namespace, "support", AUDIENCE);
    let declared = std::fs::read_to_string(stage.home.config().join("all.yaml")).expect("readable");
    let limits = "limits: {requestsPerSecond: 1, requestBurst: 1}";
    let limited = declared.replacen("  clientCode: ACME\n", &format!("  clientCode: ACME\n  {limits}\n"), 1);
    assert_ne!(limited, declared);
    stage.home.write("all.yaml", &limited);
    // Two requests in a row are one too many as soon as the limit is served.
    for path in ["webhooks/orders/deliveries", "tenants/acme/deliveries"] {
        eventually("the tenant is at its limit", SOON, async || {
            let reply = stage.get(&token, path).await;
            reply.status == 429 && reply.headers.contains_key("retry-after")
        })
        .await;
    }
    eventually("the plugin says so", SOON, async || {
        let (code, _, err) = stage.asks(&support, &["deliveries", "orders"]);
        code == 3 && err.contains("the data plane has too much to do")
    })
    .await;
}

/// The reviews of one pod's requests never end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_leaves_turns_to_others() {
    cluster().install_crds();
    let namespace = cluster().namespace("turns");
    let (gate, kubeconfig) = Gate::new(cluster(), &reviewer(&namespace)).await;
    let folder = Folder::new("turns");
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, kubeconfig.to_string()).expect("writable");
    // The API's proxies are trusted with the name of a client there, and not here.
    let stage = Stage::reviewed_by(namespace, file, "--platform --trusted-proxy 127.0.0.0/8").await;
    stage.account("support", &["list"], "default");
    let token = cluster().token(&stage.namespace, "support", AUDIENCE);
    let pod = reqwest::Client::builder()
        .tls_backend_preconfigured(Trust::public().tls())
        .local_address(IpAddr::from([127, 0, 0, 2]))
        .build()
        .expect("a client");
    gate.allow(0);
    for number in 0..20 {
        let url = format!(
            "http://{}/platform/namespaces/default/webhooks/orders/deliveries",
            stage.server.management
        );
        let request = pod.get(url).bearer_auth(number);
        tokio::spawn(request.header("x-forwarded-for", format!("192.0.2.{number}")).send());
    }
    eventually("half of the turns are taken", SOON, async || gate.waiting() == 4).await;
    gate.allow_all();
    assert_eq!(stage.get(&token, "webhooks/orders/deliveries").await.status, 200);
}
