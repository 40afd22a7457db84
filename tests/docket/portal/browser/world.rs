//! A tenant in which every state of every page is there, and the list of the pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use docket_orders::OrderType;
use docket_tests::mail::MailServer;
use docket_tests::people::{ADA, ALEX, MO, add_people};
use docket_tests::receiver::{Receiver, Response, ca_yaml};
use docket_tests::server::{Home, JSON, Options, Server, api_key, eventually, tenant_yaml};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::super::rig::{Browser, hidden, page_of, send, unserved_copy, with_look};
use crate::api::rig::{captioned, example, save, with};
use crate::delivery::stage::{Delivery, FAST, ONCE, SOON, deliveries, open};

/// An administrator whose code is the first word.
pub(super) const STRANGE: &str = "strange.admin";

/// A page of a tenant, and who opens it; `None`: no one has signed in.
pub(super) struct Page {
    pub(super) name: String,
    pub(super) tenant: &'static str,
    pub(super) path: String,
    pub(super) user: Option<&'static str>,
}

/// A `docket dev` whose tenants, webhooks, orders, notes and receivers say these words.
pub(super) struct World {
    pub(super) server: Server,
    pub(super) home: Home,
    /// The webhooks of the tenant `bolt`, which the portal declares.
    pub(super) own: Own,
    _receiver: Receiver,
    _mail: MailServer,
}

/// Webhooks that the portal declares.
pub(super) struct Own {
    /// The id of the form that added the first one.
    pub(super) form: String,
    /// The pages of a webhook with one secret, of a webhook with two, and of a webhook that is not served.
    pages: [String; 3],
}

/// The fields of [`Own`]'s first webhook.
pub(super) const OWN: [(&str, &str); 5] = [
    ("displayName", "Own"),
    ("customerCode", "C-1"),
    ("targetUrl", "https://hooks.example/own"),
    ("order.created", "yes"),
    ("active", "yes"),
];

/// A Webhook of C-1 as YAML; JSON is YAML as well.
fn webhook(name: &str, display_name: &str, url: &str, events: &[&str]) -> String {
    let webhook = json!({"apiVersion": "docket.dev/v1alpha1", "kind": "Webhook", "metadata": {"name": name},
        "spec": {"tenantRef": {"name": "acme"}, "displayName": display_name, "customerCode": "C-1",
            "targetURL": url, "secretRef": {"name": "acme-signing"}, "events": events,
            "caBundleRef": {"kind": "ConfigMap", "name": "receiver-ca"}}});
    format!("---\n{webhook}\n")
}

/// Responds to each POST with the next of the words, in the body and beside the status.
async fn receiver(words: &[&str]) -> Receiver {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let next = Arc::new(AtomicUsize::new(0));
    Receiver::scripted(move |post| match &*post.path {
        "/healthy" => Response::Status(200),
        _ => {
            let word = &words[next.fetch_add(1, Ordering::Relaxed) % words.len()];
            let reason: String = word.chars().filter(|one| !one.is_control()).collect();
            let head = format!(
                "HTTP/1.1 500 {reason}\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
                word.len()
            );
            Response::Raw([head.as_bytes(), word.as_bytes()].concat())
        }
    })
    .await
}

impl World {
    /// Seeds it: all seven types of orders, notes and invoices with these words; a healthy, a failing and a dead receiver;
    /// more webhooks with these names.
    pub(super) async fn of(tenant: &str, names: &[&str], words: &[&str]) -> Self {
        let receiver = receiver(words).await;
        let events = ["order.created", "note.created", "invoice.created"];
        let name = Value::from(tenant);
        let tenant = with_look(&tenant_yaml("acme", 'a'), "#ffd24a");
        let tenant = tenant.replacen("spec:", &format!("spec:\n  displayName: {name}"), 1);
        let others = [tenant_yaml("bolt", 'b'), tenant_yaml("cove", 'c')].join("---\n");
        let mut yaml = format!("{tenant}---\n{others}{}", ca_yaml());
        yaml += &webhook("healthy", "Orders", &receiver.url("/healthy"), &["order.created"]);
        yaml += &webhook("failing", "Billing", &receiver.url("/failing"), &events);
        yaml += &webhook("dead", "", "https://127.0.0.1:9/dead", &["order.exported"]);
        for (at, name) in names.iter().enumerate() {
            let mut url = url::Url::parse("https://127.0.0.1:9/").expect("a URL");
            let path = name.replace('%', "%25").replace('\\', "%5C");
            url.set_path(&path);
            url.set_query(Some(&path));
            yaml += &webhook(&format!("named-{at}"), name, url.as_str(), &["order.status_changed"]);
        }
        let home = Home::with(&yaml);
        for code in ["ACME", "BOLT"] {
            add_people(&home, code);
        }
        strange_administrator(&open(&home, "ACME"), words[0]);
        // A customer whose name contains the name of the first customer.
        let customer = "INSERT INTO customer (code, name, created_at_ms) VALUES ('C-9', 'One more', 0)";
        open(&home, "ACME").execute(customer, ()).expect("a customer");
        // The database of the last tenant is away.
        let database = home.database("COVE");
        std::fs::create_dir_all(database.parent().expect("a folder")).expect("writable");
        std::fs::write(database, b"this is no database ".repeat(1000)).expect("writable");
        let server = Server::start(&home, Options::flags(FAST)).await;
        seed(&home, &server, words).await;
        // What fails from now on is tried again in ten minutes.
        server.kill();
        let mail = MailServer::start();
        let flags = format!("{ONCE} {}", mail.flags(&home));
        let server = Server::start(&home, Options::flags(&flags)).await;
        wait(&home, &server).await;
        subscribe(&server).await;
        let own = declare(&home, &server, names[0]).await;
        Self { server, home, own, _receiver: receiver, _mail: mail }
    }

    /// The URL of a path of the tenant `acme`.
    pub(super) fn url(&self, path: &str) -> String {
        self.url_of("acme", path)
    }

    /// The URL of a path of a tenant.
    pub(super) fn url_of(&self, tenant: &str, path: &str) -> String {
        format!("http://{tenant}.localhost:{}{path}", self.server.api.port())
    }

    /// The id of the newest delivery to a webhook in this state.
    fn delivery(&self, webhook: &str, status: &str) -> String {
        let all = deliveries(&self.home);
        let found = all.iter().rev().find(|one| one.webhook == webhook && one.status == status);
        found.unwrap_or_else(|| panic!("no {status} of {webhook}: {all:#?}")).id.clone()
    }

    /// The page of a dead letter that counts no longer.
    fn marked(&self, condition: &str) -> String {
        let sql = format!("SELECT id FROM delivery WHERE {condition} LIMIT 1");
        let id: String = open(&self.home, "ACME").query_row(&sql, (), |row| row.get(0)).expect("a delivery");
        format!("/portal/logs/{id}")
    }

    /// The page of a link in a message, whose subscription is confirmed or not.
    fn link(&self, is_confirmed: bool) -> String {
        let token = if is_confirmed { "c0".repeat(32) } else { "c1".repeat(32) };
        let digest = docket::actions::subscriptions::token_digest(&token).expect("a token");
        let (which, at) =
            if is_confirmed { ("email NOT LIKE 'www%'", "1") } else { ("email LIKE 'www%'", "NULL") };
        let sql = format!(
            "UPDATE subscription SET confirmed_at_ms = {at} WHERE {which};
             INSERT OR REPLACE INTO mail_link (token_digest, subscription_id, user_kind, user_code, sent_at_ms)
               SELECT '{digest}', id, user_kind, user_code, created_at_ms FROM subscription WHERE {which}"
        );
        open(&self.home, "ACME").execute_batch(&sql).expect("a subscription");
        format!("/portal/mail/{token}")
    }

    /// Every page, in each of its states.
    pub(super) fn pages(&self) -> Vec<Page> {
        let delivery = |webhook, status| format!("/portal/logs/{}", self.delivery(webhook, status));
        let of = |user, name: &str, path: String| Page { name: name.to_owned(), tenant: "acme", path, user };
        let page = |name: &str, path: &str| of(Some(ALEX), name, path.to_owned());
        let own = |name: &str, path: &str| Page { tenant: "bolt", ..page(name, path) };
        let [one_secret, two_secrets, unserved] = &self.own.pages;
        vec![
            of(None, "sign-in", "/portal/sign-in".into()),
            of(None, "a-link-that-confirms", self.link(false)),
            of(None, "a-link-that-unsubscribes", self.link(true)),
            of(None, "a-link-of-nothing", format!("/portal/mail/{}", "0f".repeat(32))),
            page("overview", "/portal"),
            page("webhooks", "/portal/webhooks"),
            page("webhooks-filtered", "/portal/webhooks?state=attention&q=e&page=2"),
            page("webhooks-without-a-match", "/portal/webhooks?q=no+such+webhook&done=removed"),
            page("webhooks-refused", "/portal/webhooks?state=Broken"),
            page("a-new-webhook", "/portal/webhooks/new"),
            page(
                "a-webhook-with-its-dead-letters",
                "/portal/webhooks/default/failing?show=lost&range=week&done=saved",
            ),
            page("a-webhook-without-a-failure", "/portal/webhooks/default/healthy?show=retrying&range=hour"),
            page("a-webhook-of-a-file", "/portal/webhooks/default/failing?done=email-changed"),
            page("logs", "/portal/logs"),
            page("logs-filtered", "/portal/logs?status=DeadLetter&pageSize=3&webhook=default%2Ffailing"),
            page("logs-without-a-match", "/portal/logs?webOrderId=W1&status=Failed"),
            page("logs-refused", "/portal/logs?status=Broken&from=soon"),
            page("logs-found", "/portal/logs?find=w00000001&last=day&customerCode=C-1&kind=first"),
            page("logs-of-an-unknown-webhook", "/portal/logs?webhook=default%2Fdeda"),
            of(Some(ALEX), "a-delivery-that-succeeded", delivery("healthy", "Succeeded")),
            of(Some(ALEX), "a-dead-letter", delivery("failing", "DeadLetter")),
            of(Some(ALEX), "a-dead-letter-that-was-resent", self.marked("resent")),
            of(
                Some(ALEX),
                "a-dead-letter-that-is-set-aside",
                self.marked("set_aside_by IS NOT NULL") + "?done=set-aside",
            ),
            of(Some(ALEX), "a-delivery-that-failed", delivery("failing", "Failed")),
            page("resends", "/portal/resends"),
            page("resends-previewed", "/portal/resends?webhook=default%2Fdead"),
            page(
                "resends-after-setting-aside",
                "/portal/resends?webhook=default%2Fdead&done=set-aside&count=2",
            ),
            page("resends-refused", "/portal/resends?webhook=default%2Fdead&limit=0&from=soon"),
            page("resends-of-an-unknown-webhook", "/portal/resends?webhook=default%2Fdeda"),
            page("resends-stopped", "/portal/resends?done=stopped&count=1"),
            page(
                "resends-after-one-was-sent-first",
                &format!(
                    "/portal/resends?webhook=default%2Fdead&probe={}",
                    self.delivery("failing", "Failed")
                ),
            ),
            page("notifications", "/portal/notifications?done=email-waiting"),
            own("no-notification", "/portal/notifications"),
            page("activity", "/portal/activity"),
            page("activity-without-a-match", "/portal/activity?event=EmployeeAdded&from=2026-11-01"),
            page("activity-refused", "/portal/activity?event=Broken&from=soon"),
            page("event-catalogue", "/portal/events"),
            page("verify-a-signature", "/portal/verify"),
            page("trace-without-a-question", "/portal/trace"),
            page("trace-of-an-order", "/portal/trace?q=w00000001"),
            page("trace-of-another-order", "/portal/trace?q=W00000008"),
            page("trace-of-an-invoice-or-of-nothing", "/portal/trace?q=INV-20931"),
            of(
                Some(ALEX),
                "trace-of-a-delivery-that-failed",
                format!("/portal/trace?q={}", self.delivery("failing", "Failed")),
            ),
            page("trace-of-a-customer", "/portal/trace?q=c-1"),
            page("trace-of-a-customer-without-a-webhook", "/portal/trace?q=C-9"),
            page("trace-of-several-things", "/portal/trace?q=one"),
            page("trace-of-nothing", "/portal/trace?q=27"),
            page("trace-of-a-text-that-is-too-long", &format!("/portal/trace?q={}", "W".repeat(101))),
            page("api-keys", "/portal/keys"),
            page("people", "/portal/people"),
            page("people-searched", "/portal/people?q=ada"),
            page("people-without-a-match", "/portal/people?q=none&contactsAfter=z"),
            page("people-after-a-change", "/portal/people?done=deactivate&kind=contact&code=11"),
            page("no-such-page", "/portal/nothing"),
            of(Some(MO), "without-the-right", "/portal".into()),
            of(Some(STRANGE), "a-user-of-a-strange-code", "/portal".into()),
            own("a-webhook-of-the-portal", one_secret),
            own("a-webhook-with-a-next-secret", two_secrets),
            own("a-webhook-that-is-not-served", unserved),
            own("webhooks-with-a-notice", "/portal/webhooks"),
            own("overview-with-a-notice", "/portal"),
        ]
    }

    /// The page of each delivery that is kept.
    pub(super) fn deliveries(&self) -> Vec<String> {
        deliveries(&self.home).iter().map(|one| format!("/portal/logs/{}", one.id)).collect()
    }
}

/// Subscribes an administrator with two addresses.
async fn subscribe(server: &Server) {
    let browser = Browser::signed_in(server, "acme", ALEX).await;
    let path = "/portal/notifications";
    let long = format!("{}@{}.example", "w".repeat(64), "w".repeat(60));
    for (webhook, address) in [("", "alex@acme.example"), ("default/failing", long.as_str())] {
        let fields = [("webhook", webhook), ("Lost", "yes"), ("Works", "yes"), ("email", address)];
        let reply = send(&browser, path, path, &fields).await;
        assert_eq!(&*reply.headers["location"], "/portal/notifications?done=email-waiting", "{reply:?}");
    }
}

/// Declares webhooks in the portal. One of them is not served.
async fn declare(home: &Home, server: &Server, name: &str) -> Own {
    let browser = Browser::signed_in(server, "bolt", ALEX).await;
    let new = "/portal/webhooks/new";
    let page = browser.get(new).await;
    let [csrf, form] = ["csrf", "form"].map(|name| hidden(&page, name));
    let mut fields = vec![("csrf", csrf.as_str()), ("form", form.as_str())];
    fields.extend(OWN);
    let first = page_of(&browser.post(new, &fields).await);
    let mut named = OWN;
    named[0].1 = name;
    let second = page_of(&send(&browser, new, new, &named).await);
    assert_eq!(send(&browser, &second, &format!("{second}/rotate"), &[]).await.status, 200);
    let unserved = unserved_copy(home, &second, "unserved");
    eventually("it is held", SOON, async || {
        browser.get("/portal/webhooks").await.text().contains("1 webhook is declared and not served.")
    })
    .await;
    Own { form, pages: [first, second, unserved] }
}

/// An administrator with a strange name, as another program may store one.
fn strange_administrator(database: &Connection, code: &str) {
    let sql = "INSERT INTO employee (code, user_name, user_key, name, password_hash, administrator, active, created_at_ms) \
               SELECT ?1, ?2, ?2, ?1, password_hash, TRUE, TRUE, 0 FROM employee WHERE user_name = ?3";
    database.execute(sql, (code, STRANGE, ALEX)).expect("an employee");
}

async fn seed(home: &Home, server: &Server, words: &[&str]) {
    let ada = server.sign_in(&api_key('a'), ADA).await;
    let mut court = String::new();
    for kind in OrderType::ALL {
        let order = with(example(kind), json!({"export": true}));
        let reply = ada.post("/Orders/Save", &order).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        if kind == OrderType::Court {
            court = reply.json()["workOrderId"].as_str().expect("a work order").to_owned();
        }
    }
    for word in words {
        save(&ada, &captioned(word)).await;
        let note = json!({"workOrder": court, "workOrderType": "Court", "report": word});
        let reply = ada.post("/Notes/Add", &note).await;
        assert_eq!(reply.status, 200, "{word}: {reply:?}");
        let invoice = "INSERT INTO court_invoice (invoice_number, work_order, invoice_date, created_at_ms) \
                       VALUES (?1, ?2, '2026-11-21', unixepoch() * 1000)";
        let number: String = word.chars().take(64).collect();
        open(home, "ACME").execute(invoice, (number, &court)).expect("an invoice");
        let body = json!({"userId": word, "password": "wrong"}).to_string();
        let headers = [("x-api-key", &*api_key('a')), JSON];
        server.send("POST", "/Employee/SignIn", &headers, &body).await;
    }
    eventually("all deliveries end", SOON * 4, async || {
        let invoices = "SELECT count(*) FROM event WHERE code = 'invoice.created'";
        let invoices: u32 = open(home, "ACME").query_row(invoices, (), |row| row.get(0)).expect("a number");
        invoices as usize == words.len() && deliveries(home).iter().all(Delivery::is_final)
    })
    .await;
    let alex = server.sign_in_employee(&api_key('a'), ALEX).await;
    for webhook in ["default/dead", "default/failing"] {
        let body = json!({"webhook": webhook, "limit": 2, "perSecond": 1});
        assert_eq!(alex.post("/WebhookLogs/Resend", &body).await.status, 200);
    }
    let set_aside = alex.post("/WebhookLogs/SetAside", &json!({"webhook": "default/dead", "limit": 1})).await;
    assert_eq!(set_aside.json(), json!({"changed": 1}));
    let resends = alex.get("/WebhookLogs/Resends").await.json();
    let stopped: Value = resends["items"][0]["resendId"].clone();
    alex.post("/WebhookLogs/StopResend", &json!({"resendId": stopped})).await;
}

/// One delivery that succeeds, and one that is to be tried again.
async fn wait(home: &Home, server: &Server) {
    let ada = server.sign_in(&api_key('a'), ADA).await;
    save(&ada, &captioned("the last one")).await;
    eventually("it fails for now", SOON, async || {
        let all = deliveries(home);
        all.iter().any(|one| one.webhook == "failing" && one.status == "Failed")
    })
    .await;
}
