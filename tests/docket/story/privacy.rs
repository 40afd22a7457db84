//! Nothing personal and no secret where it does not belong: every text field of all seven order types, every name,
//! password, key and token gets a value that stands nowhere else; the whole API is driven, well and badly; then none of
//! these values may be in what the program printed and logged, in its metrics, in problems, or in what webhooks got.
//!
//! The values are made from the schemas of /openapi.json, so a field that is added later is watched, too.
//! By contract: a failed sign-in's 404 repeats the userId, the legacy host's 403 repeats the clientCode; an unknown
//! field is named; Orders/Get returns the order and Orders/Search the fields that identify an order.

mod back_office;

use std::collections::BTreeSet;
use std::time::Duration;

use docket_tests::openapi;
use docket_tests::receiver::{Receiver, Response, ca_yaml};
use docket_tests::server::{
    Client, Home, JSON, Options, Reply, SECRET, Server, api_key, eventually, request, tenant_yaml,
    webhook_yaml,
};
use regex::Regex;
use serde_json::{Map, Value, json};

/// Domain facts, personal data: class A, then class B. `party` and its like hold their names.
const PERSONAL: [&str; 44] = [
    "dob",
    "ssnLast4",
    "driverLicenseLast4",
    "accountNumber",
    "accessNotes",
    "url",
    "photoUrl",
    "firstName",
    "middleName",
    "lastName",
    "alsoKnownAs",
    "agentForService",
    "fictitiousName",
    "name",
    "businessName",
    "street1",
    "street2",
    "city",
    "postalCode",
    "phone",
    "phones",
    "fax",
    "email",
    "emails",
    "notifyEmails",
    "age",
    "height",
    "weight",
    "hair",
    "eyes",
    "other",
    "employer",
    "relatives",
    "plate",
    "makeModel",
    "claimNumber",
    "insured",
    "bestTimes",
    "instructions",
    "notes",
    "request",
    "custodian",
    "provider",
    "specificRecords",
];

/// The fields that identify an order, which Orders/Search shows.
const KNOWN_BY: [&str; 5] = ["caseNumber", "caption", "plaintiff", "defendant", "clientMatterNumber"];

/// A unique value, and the field that has it.
struct Canary {
    value: String,
    field: String,
    found_by: Regex,
}

/// All canaries that were made.
#[derive(Default)]
struct Canaries {
    all: Vec<Canary>,
}

impl Canaries {
    fn watch(&mut self, field: &str, value: &str) {
        // Four digits stand in many numbers: only a number of four digits counts.
        let escaped = regex::escape(value);
        let short = value.len() <= 4;
        let pattern = if short {
            format!(r"(^|[^\w.:-]){escaped}($|[^\w.:-]|[.:-](\D|$))")
        } else {
            format!("(?i){escaped}")
        };
        let found_by = Regex::new(&pattern).expect("a pattern");
        self.all.push(Canary { value: value.to_owned(), field: field.to_owned(), found_by });
    }

    /// Makes a canary of plain text.
    fn text(&mut self, field: &str) -> String {
        let value = format!("Zq{:04}x", self.all.len());
        self.watch(field, &value);
        value
    }

    /// A value for a field of this schema; `None` where no text of ours fits.
    fn fitting(&mut self, field: &str, schema: &Value) -> Option<String> {
        let number = self.all.len();
        let form = |name| schema.get(name).and_then(Value::as_str);
        if let Some(format) = form("format").filter(|format| format.starts_with("date")) {
            let day = if field == "dob" {
                let day = format!("19{:02}-0{}-1{}", number % 100, number / 100 % 9 + 1, number / 900 % 10);
                self.watch(field, &day);
                day
            } else {
                "2031-05-06".to_owned()
            };
            return Some(if format == "date" { day } else { format!("{day}T12:00:00-08:00") });
        }
        let pattern = Regex::new(form("pattern").unwrap_or("")).expect("a pattern");
        let most = schema.get("maxLength").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let candidates = [
            format!("Zq{number:04}x"),
            format!("zq{number:04}x@canary.example"),
            format!("https://zq{number:04}x.example/zq"),
            format!("+1999{number:07}"),
            format!("9{number:04}-7{:03}", number % 1000),
            format!("{}", 7000 + number % 1000),
        ];
        // An address without a country is in the US, where a postal code has a form that the schema can't say.
        let candidates = if field == "postalCode" { &candidates[4..] } else { &candidates[..] };
        let fits = |text: &String| text.len() as u64 <= most && pattern.is_match(text);
        let value = candidates.iter().find(|text| fits(text))?.clone();
        self.watch(field, &value);
        Some(value)
    }

    /// The fields whose values are in the text, except `allowed` fields.
    fn found_in(&self, text: &str, allowed: &[&str]) -> Vec<String> {
        let watched = self.all.iter().filter(|canary| !allowed.contains(&canary.field.as_str()));
        watched
            .filter(|canary| canary.found_by.is_match(text))
            .map(|canary| format!("{} ({})", canary.field, canary.value))
            .collect()
    }

    fn assert_absent(&self, what: &str, text: &str, allowed: &[&str]) {
        let found = self.found_in(text, allowed);
        assert!(found.is_empty(), "{what} holds {found:?}:\n{text}");
    }
}

/// Makes orders from the schemas of the document.
struct Orders<'a> {
    document: &'a Value,
    canaries: &'a mut Canaries,
    fields: BTreeSet<String>,
}

impl Orders<'_> {
    /// A value for each field there is.
    fn fill(&mut self, field: &str, schema: &Value) -> Value {
        let schema = resolved(self.document, schema);
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            return words.iter().find(|word| word.is_string()).cloned().expect("a word");
        }
        match kind(schema) {
            "string" => {
                self.fields.insert(field.to_owned());
                let fixed = match field {
                    "countyFips" => Some("01001".to_owned()),
                    _ if schema["pattern"].as_str().is_some_and(|form| form.contains(":[0-5]")) => {
                        Some("13:57".into())
                    }
                    _ => self.canaries.fitting(field, schema),
                };
                fixed.unwrap_or_else(|| panic!("no value of this test fits {field}: {schema}")).into()
            }
            "array" => json!([self.fill(field, &schema["items"])]),
            "object" => {
                let properties = schema["properties"].as_object().expect("properties");
                let values = properties.iter().map(|(name, schema)| (name.clone(), self.fill(name, schema)));
                Value::Object(values.collect())
            }
            "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
            "boolean" => true.into(),
            other => panic!("{field}: {other}"),
        }
    }

    /// A copy of the value with each free text replaced by a canary.
    fn replace(&mut self, field: &str, schema: &Value, value: &Value) -> Value {
        let schema = resolved(self.document, schema);
        match value {
            Value::Object(object) => {
                let replaced = |(name, value): (&String, &Value)| {
                    (name.clone(), self.replace(name, &schema["properties"][name], value))
                };
                Value::Object(object.iter().map(replaced).collect())
            }
            Value::Array(items) => {
                items.iter().map(|item| self.replace(field, &schema["items"], item)).collect()
            }
            Value::String(_)
                if schema.get("enum").is_none()
                    && field != "state"
                    && (schema.get("format").is_none() || field == "dob") =>
            {
                self.canaries.fitting(field, schema).map_or_else(|| value.clone(), Value::from)
            }
            _ => value.clone(),
        }
    }
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return resolved(document, document.pointer(&reference[1..]).expect("it resolves"));
    }
    match schema.get("oneOf").and_then(Value::as_array) {
        Some(either) => resolved(document, either.iter().find(|one| one["type"] != "null").expect("one")),
        None => schema,
    }
}

fn kind(schema: &Value) -> &str {
    match &schema["type"] {
        Value::Array(some) => {
            some.iter().filter_map(Value::as_str).find(|name| *name != "null").expect("a type")
        }
        one => one.as_str().unwrap_or_else(|| panic!("no type: {schema}")),
    }
}

/// A copy of the value with each text made wrong by `change`; the order's type stays.
fn spoiled(value: &Value, change: &dyn Fn(&str) -> Value) -> Value {
    match value {
        Value::Object(object) => {
            let one = |(name, value): (&String, &Value)| match name.as_str() {
                "orderType" => (name.clone(), value.clone()),
                _ => (name.clone(), spoiled(value, change)),
            };
            Value::Object(object.iter().map(one).collect())
        }
        Value::Array(items) => items.iter().map(|item| spoiled(item, change)).collect(),
        Value::String(text) => change(text),
        other => other.clone(),
    }
}

/// A program under watch, and the receivers of its webhooks.
struct Watched {
    home: Home,
    server: Server,
    works: Receiver,
    fails: Receiver,
    canaries: Canaries,
}

const PASSWORD: &str = "ZqPasswordOfAnn1";
const EMAIL: &str = "zqann@canary.example";

impl Watched {
    async fn start(flags: &str) -> Self {
        let home = Home::new();
        let works = Receiver::verifying(|_| Response::Status(200)).await;
        let fails = Receiver::scripted(|_| Response::Status(500)).await;
        let mut canaries = Canaries::default();
        for (field, value) in [
            ("signing secret", SECRET),
            ("API key", &api_key('a')),
            ("password", PASSWORD),
            ("contact's name", "ZqAnn ZqSurname"),
            ("userId", EMAIL),
            ("employee's name", "ZqBob ZqOther"),
            ("check-in name", "zq.bob"),
            ("webhook's path", "zqhookpath"),
        ] {
            canaries.watch(field, value);
        }
        let unreachable =
            webhook_yaml("acme", "refused", "C-1", "https://127.0.0.1:1/zqhookpath?token=zqhookpath");
        let untrusted = webhook_yaml("acme", "untrusted", "C-1", &works.url("/zqhookpath"));
        let yaml = [
            tenant_yaml("acme", 'a'),
            works.webhook_yaml("acme", "works", "C-1", "/works"),
            fails.webhook_yaml("acme", "fails", "C-1", "/fails"),
            ca_yaml(),
            unreachable,
            untrusted,
        ]
        .concat()
        .replace("order.exported]", "order.exported, note.created, order.status_changed, invoice.created]");
        home.write("all.yaml", &yaml);
        let mut options = Options::flags(&format!(
            "--allow-egress 127.0.0.1/32 --backoff-base 10ms --poll-interval 100ms --legacy-host legacy.localhost {flags}"
        ));
        options.environment = vec![("RUST_BACKTRACE".into(), "1".into())];
        let server = Server::start(&home, options).await;
        Self { home, server, works, fails, canaries }
    }

    /// Runs a command as an operator does. Its output may have no private value except the ones that the operator typed.
    fn command(&self, arguments: &[&str], input: &str) {
        let (done, text) = self.home.command(arguments, input);
        assert!(done, "{text}");
        self.canaries.assert_absent(&arguments.join(" "), &text, &["userId", "check-in name"]);
    }

    async fn people(&self) {
        self.command(
            &["customer", "add", "--tenant", "ACME", "--code", "C-1", "--name", "ZqAnn ZqSurname"],
            "",
        );
        let (at, line) = (["--tenant", "ACME"], format!("{PASSWORD}\n"));
        let contact = ["contact", "add", "--customer", "C-1", "--email", EMAIL, "--name", "ZqAnn ZqSurname"];
        self.command(&[&contact[..], &at].concat(), &line);
        let employee = ["employee", "add", "--user", "zq.bob", "--name", "ZqBob ZqOther", "--administrator"];
        self.command(&[&employee[..], &at].concat(), &line);
        // The contact exists already, and the new password of the employee is not valid: no message contains the input.
        for (arguments, input) in [(&contact[..], &line[..]), (&employee[..], "Zq1\n")] {
            let (done, text) = self.home.command(&[arguments, &at].concat(), input);
            assert!(!done, "{text}");
            self.canaries.assert_absent("a refused command", &text, &["userId", "check-in name"]);
        }
    }

    /// Sends what must be refused, and looks at the whole answer.
    async fn refused(
        &self,
        client: &Client,
        (method, target): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
        allowed: &[&str],
    ) -> Reply {
        let bearer = format!("Bearer {}", client.token);
        let mut all = headers.to_vec();
        for (name, value) in [("x-api-key", client.key.as_str()), ("authorization", bearer.as_str()), JSON] {
            if !headers.iter().any(|(given, _)| *given == name) {
                all.push((name, value));
            }
        }
        let reply = self.server.send(method, target, &all, body).await;
        assert!(reply.status >= 400, "{method} {target} {body}: {reply:?}");
        self.canaries.assert_absent(&format!("{method} {target}"), &format!("{reply:?}"), allowed);
        reply
    }

    async fn sign_ins(&mut self) -> Client {
        let key = api_key('a');
        for field in ["unknown userId", "wrong password", "wrong code", "malformed", "a name"] {
            self.canaries.text(field);
        }
        let value = |field: &str| {
            let canary = self.canaries.all.iter().find(|canary| canary.field == field);
            canary.expect("just made").value.clone()
        };
        let (unknown, wrong, code) = (value("unknown userId"), value("wrong password"), value("wrong code"));
        let (malformed, name) = (value("malformed"), value("a name"));
        let stranger = Client { api: self.server.api, key: key.clone(), token: "ZqNoToken".to_owned() };
        let own = ["userId", "unknown userId", "check-in name"];
        for path in ["/Auth/Token", "/Session/Create", "/Employee/SignIn"] {
            let bodies = [
                (json!({"userId": EMAIL, "password": wrong}).to_string(), 404, &own[..]),
                (json!({"userId": unknown, "password": wrong}).to_string(), 404, &own),
                (json!({"clientCode": code, "userId": EMAIL, "password": PASSWORD}).to_string(), 404, &own),
                (format!("{{\"userId\": \"{malformed}\", \"password\": \"{malformed}"), 400, &[]),
                (format!("[\"{malformed}\"]"), 400, &[]),
                (malformed.clone(), 400, &[]),
                (json!({"userId": {malformed.clone(): 1}, "password": [malformed]}).to_string(), 400, &[]),
                (
                    json!({"userId": malformed.repeat(60), "password": malformed.repeat(60)}).to_string(),
                    400,
                    &[],
                ),
                (
                    json!({"userId": EMAIL, "password": PASSWORD, name.clone(): malformed}).to_string(),
                    400,
                    &["a name"],
                ),
            ];
            for (body, status, allowed) in bodies {
                // The older session shape ignores fields that it does not know.
                if path == "/Session/Create" && allowed == ["a name"] {
                    continue;
                }
                let reply = self.refused(&stranger, ("POST", path), &[], &body, allowed).await;
                assert_eq!(reply.status, status, "{path} {body}: {reply:?}");
            }
        }
        // On the legacy host a key is distinguished from a code, and repeated.
        let body = json!({"clientCode": key, "userId": EMAIL, "password": PASSWORD}).to_string();
        let legacy = [("host", "legacy.localhost")];
        let reply = self.refused(&stranger, ("POST", "/Session/Create"), &legacy, &body, &["API key"]).await;
        assert_eq!(reply.status, 403);

        let body = json!({"userId": "zq.bob", "password": PASSWORD}).to_string();
        let employee =
            self.server.send("POST", "/Employee/SignIn", &[("x-api-key", &key), JSON], &body).await;
        let body = json!({"userId": EMAIL, "password": PASSWORD}).to_string();
        let contact = self.server.send("POST", "/Auth/Token", &[("x-api-key", &key), JSON], &body).await;
        for (reply, field) in [(&employee, "employee"), (&contact, "contact")] {
            assert_eq!(reply.status, 200, "{reply:?}");
            self.canaries.assert_absent(field, reply.text(), &[&format!("{field}'s name")]);
            let token = reply.json()["token"].as_str().expect("a token").to_owned();
            for part in token.split('.').skip(1) {
                self.canaries.watch("token", part);
            }
        }
        let token = contact.json()["token"].as_str().expect("a token").to_owned();
        Client { api: self.server.api, key, token }
    }

    /// All seven types: whole drafts, exported ones, and wrong ones.
    async fn orders(&mut self, client: &Client) {
        let document = openapi::document(&self.server, openapi::API).await;
        let examples =
            &document["paths"]["/Orders/Save"]["post"]["requestBody"]["content"]["application/json"];
        let examples = examples["examples"].as_object().expect("examples");
        let mut fields = BTreeSet::new();
        for (name, example) in examples {
            let schema = resolved(&document, &document["components"]["schemas"][format!("{name}Order")]);
            let mut orders =
                Orders { document: &document, canaries: &mut self.canaries, fields: BTreeSet::new() };
            let mut draft = orders.fill("order", schema);
            let exported = orders.replace("order", schema, &example["value"]);
            fields.append(&mut orders.fields);
            for around in ["webOrderId", "version", "customerCode", "export", "finalize"] {
                draft.as_object_mut().expect("an object").remove(around);
            }
            self.order(client, name, &draft, &exported).await;
        }
        let missing: Vec<_> = PERSONAL.iter().filter(|name| !fields.contains(**name)).collect();
        assert!(missing.is_empty(), "no order type has {missing:?} any more");
    }

    async fn order(&self, client: &Client, name: &str, draft: &Value, exported: &Value) {
        let first = client.post("/Orders/Save", draft).await;
        assert_eq!(first.status, 200, "{name}: {}\n{draft:#}", first.text());
        let second = client.post("/Orders/Save", exported).await;
        assert_eq!(second.status, 200, "{name}: {}\n{exported:#}", second.text());
        let id = second.json()["webOrderId"].clone();
        let export = client.post("/Orders/Export", &json!({"webOrderId": id})).await;
        assert_eq!(export.status, 200, "{name}: {}\n{exported:#}", export.text());
        for reply in [&first, &second, &export] {
            self.canaries.assert_absent(name, &format!("{reply:?}"), &[]);
        }
        // The owner gets the whole order back, and only here.
        let id = first.json()["webOrderId"].clone();
        let whole = client.get(&format!("/Orders/Get?webOrderId={}", id.as_str().expect("an id"))).await;
        assert!(self.canaries.found_in(whole.text(), &[]).len() > 20, "{name}: {whole:?}");

        // A draft says at export what is missing and what does not fit, by the fields' names.
        let save = ("POST", "/Orders/Save");
        let late = client.post("/Orders/Export", &json!({"webOrderId": id})).await;
        self.canaries.assert_absent("a late export", &format!("{late:?}"), &[]);
        let wrong: [&dyn Fn(&str) -> Value; 4] = [
            &|text| format!("{text}{}\u{7}", "x".repeat(5000)).into(),
            &|text| json!({text: text}),
            &|text| json!([text, [text]]),
            &|text| format!("{text} 078-05-1120 {text}@").into(),
        ];
        for change in wrong {
            let body = spoiled(draft, change).to_string();
            let reply = self.refused(client, save, &[], &body, &[]).await;
            assert_eq!(reply.status, 400, "{reply:?}");
            assert!(!reply.text().contains("078-05"), "{reply:?}");
        }
        let cut = draft.to_string();
        let cut = &cut[..cut.len() - 3];
        for body in [cut, &cut.replace("Zq", "\\ud800Zq"), &format!("{draft}{draft}")] {
            assert_eq!(self.refused(client, save, &[], body, &[]).await.status, 400);
        }
    }

    /// Names in query strings, paths and headers.
    async fn queries(&mut self, client: &Client) {
        let named = self.canaries.text("a parameter's name");
        let text = self.canaries.text("a request's text");
        let surname = self.canaries.all.iter().find(|canary| canary.field == "lastName").expect("one");
        let page = client.get(&format!("/Orders/Search?text={}", surname.value)).await;
        let items = page.json()["items"].as_array().cloned().expect("items");
        assert!(!items.is_empty(), "{page:?}");
        for field in items.iter().flat_map(|item| item.as_object().map(Map::keys).into_iter().flatten()) {
            let known = "orderType webOrderId status version customerCode createdAt updatedAt exportedAt";
            let mut known = known.split(' ');
            assert!(known.any(|name| name == field) || KNOWN_BY.contains(&field.as_str()), "{field}");
        }
        self.canaries.assert_absent("a search", page.text(), &KNOWN_BY);

        let refused = [
            format!("/Orders/Get?webOrderId={text}"),
            format!("/Orders/Get?webOrderId={text}%ff"),
            format!(
                "/Orders/Search?from={text}&to={text}&status={text}&orderType={text}&cursor={text}&pageSize={text}"
            ),
            format!("/Orders/Search?text={}", text.repeat(40)),
            format!("/Orders/Search?text={text}&text={text}"),
            format!("/Orders/{text}?{text}={text}"),
            format!("/{text}/{text}"),
            format!("/swagger/{text}"),
        ];
        for target in refused {
            self.refused(client, ("GET", &target), &[], "", &[]).await;
        }
        let target = format!("/Orders/Search?{named}={text}");
        self.refused(client, ("GET", &target), &[], "", &["a parameter's name"]).await;
        self.refused(client, ("DELETE", &format!("/Orders/Search?{text}")), &[], &text, &[]).await;
        let (bearer, host) = (format!("Bearer {text}"), format!("{text}.localhost"));
        let headers = [
            ("authorization", bearer.as_str()),
            ("x-api-key", &text),
            ("content-type", &text),
            ("idempotency-key", &host.repeat(20)),
        ];
        for header in headers {
            let more = [header, ("user-agent", text.as_str()), ("x-request-id", &text), ("cookie", &text)];
            self.refused(client, ("POST", "/Orders/Save"), &more, "{\"orderType\":\"Court\"}", &[]).await;
        }
        // A subdomain that maps to no tenant.
        let reply = self.server.send("GET", "/Orders/Search", &[("host", &host)], "").await;
        assert_eq!(reply.status, 404, "{reply:?}");
        self.canaries.assert_absent("an unknown host", &format!("{reply:?}"), &[]);
        // The same key is used for two different requests.
        for body in ["{\"orderType\":\"Court\"}", "{\"orderType\":\"Process\"}"] {
            let reply = client
                .try_post("/Orders/Save", body, &[("idempotency-key", &text)])
                .await
                .expect("an answer");
            self.canaries.assert_absent("an idempotent save", &format!("{reply:?}"), &[]);
        }
    }

    /// Mistakes in the configuration are reported without the values.
    async fn configuration(&mut self) {
        let secret = self.canaries.text("a Secret's value");
        let before = self.log().len();
        self.home.write(
            "wrong.yaml",
            &format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {{name: wrong}}\ndata: {{secret: \"{secret}!\"}}\n---\n\
                 apiVersion: v1\nkind: Secret\nmetadata: {{name: odd}}\nstringData: {{secret: [{secret}]}}\n---\n\
                 apiVersion: v1\nkind: Secret\nmetadata: {{name: key}}\nstringData: {{key: {secret}}}\n---\n\
                 apiVersion: docket.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: other}}\nspec: {{clientCode: OTHER, \
                 apiKeys: [{{name: primary, secretKeyRef: {{name: key, key: key}}}}], database: {{managed: {{name: other}}}}}}\n"
            ),
        );
        eventually("the mistakes are reported", Duration::from_secs(10), async || {
            self.log()[before..].contains("wrong.yaml")
        })
        .await;
        self.home
            .write("wrong.yaml", &format!("kind: Secret\nstringData: {{secret: {secret}\n  {secret}: ]"));
        // The earlier problems name their objects, and this problem does not.
        eventually("that it is not YAML is reported", Duration::from_secs(10), async || {
            self.log().contains("wrong.yaml, document 1: ")
        })
        .await;
    }

    fn log(&self) -> String {
        ["out", "err"].map(|name| std::fs::read_to_string(self.home.log(name)).unwrap_or_default()).concat()
    }

    /// The webhooks got the contract's fields only.
    async fn webhooks(&self) {
        eventually("all is delivered, or dead", Duration::from_secs(30), async || {
            let (_, text) =
                self.home.command(&["deliveries", "list", "--tenant", "ACME", "--limit", "1000"], "");
            !text.contains("Pending") && !text.contains("Failed") && text.contains("DeadLetter")
        })
        .await;
        let received = [self.works.posts(), self.fails.posts()].concat();
        assert!(received.len() > 7 * 3 * 2, "{}", received.len());
        for one in &received {
            let body = String::from_utf8_lossy(&one.body);
            // A note leaves the system, by contract.
            let allowed: &[&str] = if body.contains("\"note.created\"") { &["report"] } else { &[] };
            self.canaries.assert_absent("a webhook's body", &body, allowed);
            self.canaries.assert_absent("a webhook's headers", &format!("{:?}", one.headers), &[]);
            let envelope = serde_json::from_slice::<Value>(&one.body).expect("JSON");
            let allowed = match envelope["event"].as_str().expect("a code") {
                "note.created" => "workOrder workOrderType report lineItem facilityLineItem",
                "order.status_changed" => {
                    "workOrder orderType facilityKey facilityLineItem milestoneCode milestone \
                     previousMilestoneCode previousMilestone"
                }
                "invoice.created" => {
                    "workOrder orderType invoiceNumber invoiceDate billToCustomerCode facilityLineItem amount"
                }
                _ => "orderType webOrderId finalize workOrderId courtWorkOrder processWorkOrders",
            };
            let data = envelope["data"].as_object().expect("data");
            assert!(data.keys().all(|name| allowed.split(' ').any(|allowed| allowed == name)), "{envelope}");
        }
        let (_, dead) = self.home.command(
            &["deliveries", "list", "--tenant", "ACME", "--status", "DeadLetter", "--limit", "1000"],
            "",
        );
        self.canaries.assert_absent("deliveries list", &dead, &[]);
        for id in dead.lines().skip(1).filter_map(|line| line.split_whitespace().last()) {
            self.command(&["deliveries", "show", "--tenant", "ACME", id], "");
        }
    }

    /// An administrator reads what was delivered: the log keeps ids, and what is wrong is not repeated.
    async fn webhook_logs(&mut self) {
        let text = self.canaries.text("a request's text");
        let key = api_key('a');
        let body = json!({"userId": "zq.bob", "password": PASSWORD}).to_string();
        let reply = self.server.send("POST", "/Employee/SignIn", &[("x-api-key", &key), JSON], &body).await;
        let token = reply.json()["token"].as_str().expect("a token").to_owned();
        let bob = Client { api: self.server.api, key, token };
        let found = bob.get("/WebhookLogs/Search?status=DeadLetter").await;
        self.canaries.assert_absent("/WebhookLogs/Search", found.text(), &[]);
        let id = found.json()["items"][0]["deliveryId"].as_str().expect("an id").to_owned();
        assert_eq!(bob.get(&format!("/WebhookLogs/Get?deliveryId={id}")).await.status, 200);
        assert_eq!(bob.post("/WebhookLogs/Resend", &json!({"deliveryId": id})).await.status, 200);
        for target in [
            format!(
                "/WebhookLogs/Search?status={text}&event={text}&failureClass={text}&from={text}&cursor={text}"
            ),
            format!("/WebhookLogs/Search?webhook={0}&workOrder={0}", text.repeat(40)),
            format!("/WebhookLogs/Search?webhook={text}"),
            format!("/WebhookLogs/Get?deliveryId={text}"),
            format!("/WebhookLogs/Resends?resendId={text}"),
        ] {
            self.refused(&bob, ("GET", &target), &[], "", &[]).await;
        }
        for body in [
            json!({"deliveryId": text}),
            json!({"webhook": text}),
            json!({"webhook": [text], "from": text, "limit": text, "preview": text}),
            json!({"resendId": text}),
        ] {
            for path in ["/WebhookLogs/Resend", "/WebhookLogs/StopResend", "/WebhookLogs/SetAside"] {
                self.refused(&bob, ("POST", path), &[], &body.to_string(), &[]).await;
            }
        }
        let found = bob.get(&format!("/WebhookLogs/Search?find={text}&customerCode={text}")).await;
        assert_eq!(found.status, 200, "{found:?}");
    }

    async fn nothing_leaked(&self) {
        let metrics = request(self.server.management, "GET", "/metrics", &[], "").await.expect("metrics");
        assert!(metrics.text().contains("docket_http_requests"), "{metrics:?}");
        self.canaries.assert_absent("/metrics", metrics.text(), &[]);
        // The banner shows the keys to the person who starts it; it goes to standard output only.
        let out = std::fs::read_to_string(self.home.log("out")).expect("readable");
        let shown = ["API key", "a Secret's value"];
        self.canaries.assert_absent("standard output", &out, &shown);
        let err = std::fs::read_to_string(self.home.log("err")).expect("readable");
        assert!(err.contains("/Orders/Save") && err.contains("/Auth/Token"), "requests are logged: {err}");
        let leaks: BTreeSet<&str> =
            err.lines().filter(|line| !self.canaries.found_in(line, &[]).is_empty()).take(20).collect();
        assert!(leaks.is_empty(), "the log holds {:?}:\n{leaks:#?}", self.canaries.found_in(&err, &[]));
    }
}

async fn everything(flags: &str) {
    let mut watched = Watched::start(flags).await;
    watched.people().await;
    let client = watched.sign_ins().await;
    watched.orders(&client).await;
    watched.back_office(&client).await;
    watched.queries(&client).await;
    watched.configuration().await;
    watched.webhooks().await;
    watched.webhook_logs().await;
    watched.nothing_leaked().await;
    let Watched { home, server, canaries, .. } = watched;
    assert!(server.terminate().await.success());
    let err = std::fs::read_to_string(home.log("err")).expect("readable");
    canaries.assert_absent(
        "the log of the end",
        err.get(err.len().saturating_sub(4096)..).unwrap_or(&err),
        &[],
    );
}

#[tokio::test]
async fn nothing_personal_in_text_logs_of_any_level() {
    everything("--log trace").await;
}

#[tokio::test]
async fn nothing_personal_in_json_logs() {
    everything("--log debug --log-format json").await;
}

#[test]
fn a_value_is_found_where_it_is() {
    let mut canaries = Canaries::default();
    canaries.watch("surname", "Zq0001x");
    canaries.watch("ssnLast4", "7001");
    for text in ["ends with zq0001x", "\"text\":\"ZQ0001X\"", "%22Zq0001x%22"] {
        assert_eq!(canaries.found_in(text, &[]), ["surname (Zq0001x)"], "{text}");
        assert!(canaries.found_in(text, &["surname"]).is_empty());
    }
    for text in ["is 7001.", "is 7001", "\"7001\"", "{7001}", "SSN=7001: no"] {
        assert_eq!(canaries.found_in(text, &[]), ["ssnLast4 (7001)"], "{text}");
    }
    // The digits are parts of other numbers.
    for text in ["duration_ms=0.7001", "id=a7001b", "127.0.0.1:7001", "07:70:01", "70010"] {
        assert!(canaries.found_in(text, &[]).is_empty(), "{text}");
    }
}
