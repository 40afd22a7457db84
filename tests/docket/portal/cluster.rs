//! The section Webhooks on a cluster: the portal writes Webhook objects as an account of its own, which a policy holds to them. On a
//! real kube-apiserver with the operator, PostgreSQL and Redis.

use docket_rig::redis::RedisServer;
use docket_tests::apiserver::{Gate, KubectlOutput, cluster};
use docket_tests::operator::{Release, SOON};
use docket_tests::people::ALEX;
use docket_tests::server::{Home, PASSWORD, Reply, Server, eventually, tenant_yaml};
use serde_json::{Value, json};

use super::rig::{Browser, hidden, is_protected, page_of, send, shown};

const FAST: &str = "--roles api,portal,worker --base-domain localhost --poll-interval 200ms --sweep-interval 1s --shutdown-delay 0s";
/// What the chart gives to the portal's account; its own suite compares.
const POLICY: &str = include_str!("../../../dataplane/portal-policy.yaml");

fn apply(object: &Value) {
    cluster().kubectl(&["apply", "-f", "-"], &object.to_string()).expect("the administrator may");
}

/// Binds rules to an account of the release: in a namespace, or in the cluster.
fn bind(release: &Release, account: &str, namespace: Option<&str>, rules: &Value) {
    let name = format!("{}-{account}", release.namespace);
    let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
    let (group, meta) = ("rbac.authorization.k8s.io", json!({"name": name, "namespace": namespace}));
    let api = format!("{group}/v1");
    let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": release.namespace}]);
    apply(&json!({"apiVersion": api, "kind": kind, "metadata": meta, "rules": rules}));
    apply(
        &json!({"apiVersion": api, "kind": format!("{kind}Binding"), "metadata": meta, "subjects": subjects,
        "roleRef": {"apiGroup": group, "kind": kind, "name": name}}),
    );
}

fn hold_to_the_policy(release: &Release) {
    let user = format!("system:serviceaccount:{}:docket-portal", release.namespace);
    let spec = serde_saphyr::from_str::<Value>(&POLICY.replace("$PORTAL", &user)).expect("YAML");
    let (api, name) = ("admissionregistration.k8s.io/v1", format!("{}-portal", release.namespace));
    let meta = json!({"name": name});
    apply(&json!({"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": meta, "spec": spec}));
    apply(&json!({"apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": meta,
        "spec": {"policyName": name, "validationActions": ["Deny"]}}));
}

/// A process of the API and the portal, by the kubeconfig of its home.
async fn serve(release: &Release, home: &Home) -> Server {
    let mut arguments = vec!["serve".to_owned()];
    for (flag, value) in [
        ("--config-namespace", release.namespace.clone()),
        ("--portal-account", format!("{}/docket-portal", release.namespace)),
        ("--redis-url-file", home.log("redis-url").display().to_string()),
    ] {
        arguments.extend([flag.to_owned(), value]);
    }
    arguments.extend(FAST.split_whitespace().map(str::to_owned));
    let environment = [("KUBECONFIG".to_owned(), home.log("kubeconfig").display().to_string())];
    Server::spawn_server(home, &arguments, &environment).ready(home).await
}

/// The tenant `desk` with an administrator, and the API's and the portal's accounts with their rights, but no policy yet. The gate
/// is on the server's way to the cluster.
async fn start(release: &Release, redis: &RedisServer) -> (Home, Server, Gate) {
    release.apply(&tenant_yaml("desk", 'a'));
    let home = Home::new();
    std::fs::write(home.log("redis-url"), redis.url()).expect("writable");
    cluster().service_account(&release.namespace, "docket-portal");
    let api = cluster().service_account(&release.namespace, "docket-api");
    bind(
        release,
        "docket-api",
        Some(&release.namespace),
        &json!([
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["docket-portal"], "verbs": ["impersonate"]}
        ]),
    );
    let webhooks = json!([{"apiGroups": ["docket.dev"], "resources": ["webhooks"], "verbs": ["get", "create", "update", "delete"]}]);
    bind(release, "docket-portal", None, &webhooks);
    eventually("the tenant is compiled", SOON, async || release.runtime("desk").is_some()).await;
    let (gate, kubeconfig) = Gate::new(cluster(), &api).await;
    std::fs::write(home.log("kubeconfig"), kubeconfig.to_string()).expect("writable");
    let server = serve(release, &home).await;
    let admin = cluster().admin().display().to_string();
    for words in [
        &["customer", "add", "--code", "C-1", "--name", "A customer"][..],
        &["employee", "add", "--user", ALEX, "--name", "Alex Admin", "--administrator"],
    ] {
        let place = ["--tenant", "DESK", "--config-namespace", &release.namespace];
        let more = [("KUBECONFIG", admin.as_str())];
        let (done, text) = home.command_in(&[words, &place].concat(), &format!("{PASSWORD}\n"), &more);
        assert!(done, "{text}");
    }
    (home, server, gate)
}

const FORM: [(&str, &str); 5] = [
    ("displayName", "Orders"),
    ("customerCode", "C-1"),
    ("targetUrl", "https://hooks.example/desk"),
    ("order.created", "yes"),
    ("active", "yes"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn administrator_declares_webhooks_as_objects_that_the_policy_holds_to_the_portals_own() {
    let mut release = Release::new("portal");
    release.with_postgres().await;
    let redis = release.with_redis();
    let _operator = release.start().await;
    let (home, server, gate) = start(&release, &redis).await;
    let browser = Browser::signed_in(&server, "desk", ALEX).await;
    let new = "/portal/webhooks/new";

    // Without its policy the account could write any Webhook, so the portal writes none.
    let list = browser.get("/portal/webhooks").await;
    assert!(
        !list.text().contains("Add a webhook")
            && list.text().contains("The portal only shows webhooks here."),
        "{list:?}"
    );
    assert_eq!(browser.get(new).await.status, 409);
    let log = || std::fs::read_to_string(home.log("err")).expect("its log");
    eventually("the log says why", SOON, async || log().contains("the policy is not in force")).await;
    hold_to_the_policy(&release);
    eventually("the portal declares webhooks", SOON, async || browser.get(new).await.status == 200).await;

    let made = send(&browser, new, new, &FORM).await;
    is_protected(&made);
    assert_eq!(made.status, 200, "{made:?}");
    let (first, page) = (shown(&made), page_of(&made));
    let name = page.rsplit('/').next().expect("a name").to_owned();
    assert_eq!(page, format!("/portal/webhooks/{}/{name}", release.tenants));
    let secret = |key: &str| release.secret(&format!("{name}.signing-secret"), key);
    assert_eq!(secret("secret"), Some(first.clone()));
    let object = || release.object("webhook", &name);
    assert_eq!(object()["metadata"]["labels"]["app.kubernetes.io/managed-by"], "docket-portal");
    assert_eq!(object()["spec"]["displayName"], "Orders");
    let detail = browser.get(&page).await;
    assert!(detail.text().contains("Make a new secret") && !detail.text().contains(&first), "{detail:?}");

    // The secret is rotated with overlap. A next secret that was dropped does not become the next secret again.
    let next = shown(&send(&browser, &page, &format!("{page}/rotate"), &[]).await);
    assert_eq!((secret("secret"), secret("next")), (Some(first), Some(next.clone())));
    let stale = browser.get(&page).await;
    assert_eq!(send(&browser, &page, &format!("{page}/promote"), &[]).await.status, 303);
    assert_eq!((secret("secret"), secret("next")), (Some(next.clone()), None));
    let dropped = shown(&send(&browser, &page, &format!("{page}/rotate"), &[]).await);
    assert_eq!(send(&browser, &page, &format!("{page}/withdraw"), &[]).await.status, 303);
    let another = shown(&send(&browser, &page, &format!("{page}/rotate"), &[]).await);
    assert!(another != dropped && another != next);

    // A form from before a change changes nothing. The operator's writes of the status do not count as a change.
    let (csrf, version) = (hidden(&stale, "csrf"), hidden(&stale, "version"));
    let again = [("csrf", csrf.as_str()), ("version", version.as_str())];
    assert_eq!(browser.post(&format!("{page}/remove"), &again).await.status, 409);
    let status = json!({"status": {"observedGeneration": 0}}).to_string();
    release.kubectl(&["patch", "webhook", &name, "--subresource=status", "--type=merge", "-p", &status]);
    let renamed =
        [("displayName", "Renamed"), ("targetUrl", "https://hooks.example/other"), ("note.created", "yes")];
    assert_eq!(send(&browser, &page, &page, &renamed).await.status, 303);
    let spec = object()["spec"].clone();
    assert_eq!((&spec["displayName"], &spec["active"]), (&json!("Renamed"), &json!(true)), "{spec}");
    assert_eq!(spec["targetURL"], "https://hooks.example/other");
    for (action, active) in [("deactivate", false), ("activate", true)] {
        assert_eq!(send(&browser, &page, &format!("{page}/{action}"), &[]).await.status, 303);
        assert_eq!(object()["spec"]["active"], active);
    }

    others_objects_are_only_shown(&release, &browser).await;
    the_policy_refuses_the_rest(&release, &name);
    webhook_is_added_though_the_answer_was_lost(&gate, &browser).await;
    form_sent_to_two_processes_adds_one_webhook(&release, &home, &gate, &browser).await;

    assert_eq!(send(&browser, &page, &format!("{page}/remove"), &[]).await.status, 303);
    eventually("it is removed", SOON, async || object().is_null()).await;
    assert_eq!(browser.get(&page).await.status, 404);
    let path = format!("/portal/activity?webhook={}/{name}&person={ALEX}", release.tenants);
    let activity = async || browser.get(&path).await;
    let last_name = "Renamed (removed)</span>";
    eventually("its last name stays", SOON, async || activity().await.text().contains(last_name)).await;
    let activity = activity().await;
    let changed = ">displayName, events (-order.created +note.created), targetURL</div>";
    assert!(activity.text().contains(changed), "{activity:?}");
    let printed = log();
    for secret in [&next, &another] {
        assert!(!printed.contains(secret.as_str()));
    }
}

async fn others_objects_are_only_shown(release: &Release, browser: &Browser<'_>) {
    release.apply(
        "apiVersion: docket.dev/v1alpha1\nkind: Webhook\nmetadata: {name: given, labels: {team: desk}, annotations: \
         {example.com/note: stays}}\nspec:\n  tenantRef: {name: desk}\n  customerCode: C-1\n  \
         targetURL: https://hooks.example/given\n  events: [order.created]\n",
    );
    let page = format!("/portal/webhooks/{}/given", release.tenants);
    eventually("it is served", SOON, async || browser.get(&page).await.status == 200).await;
    let detail = browser.get(&page).await;
    let text = detail.text();
    let place = format!("the Webhook object given in namespace {}, which kubectl keeps", release.tenants);
    assert!(
        text.contains(&place) && text.contains("targetURL: &quot;https://hooks.example/given&quot;"),
        "{text}"
    );
    // What the page shows may be applied again, and nothing is lost.
    let kept = ["team: &quot;desk&quot;", "example.com/note: &quot;stays&quot;"];
    assert!(kept.iter().all(|line| text.contains(line)) && !text.contains("last-applied"), "{text}");
    let sign_out = text.matches("action=\"/portal/sign-out\"").count();
    assert_eq!(
        text.matches("<form").count(),
        sign_out + 2,
        "to ask, to sign out, and to send a test event: {text}"
    );
    let csrf = hidden(&detail, "csrf");
    for action in ["remove", "rotate", "deactivate"] {
        let fields = [("csrf", csrf.as_str()), ("version", "0")];
        assert_eq!(browser.post(&format!("{page}/{action}"), &fields).await.status, 409, "{action}");
    }
}

async fn webhook_is_added_though_the_answer_was_lost(gate: &Gate, browser: &Browser<'_>) {
    let new = "/portal/webhooks/new";
    let page = browser.get(new).await;
    let [csrf, form] = ["csrf", "form"].map(|name| hidden(&page, name));
    let mut fields = [&[("csrf", csrf.as_str()), ("form", form.as_str())][..], &FORM].concat();
    fields[2].1 = "Unheard";
    let count = async || browser.get("/portal/webhooks").await.text().matches(">Unheard<").count();
    gate.lose_responses();
    let silent = browser.post(new, &fields).await;
    assert!(silent.status == 503 && silent.text().contains("the change may have been made"), "{silent:?}");
    gate.allow_all();
    eventually("it was made", SOON, async || count().await == 1).await;
    // The form is sent again: the portal finds the webhook that the form added, and shows its secret, which no user has seen.
    let again = browser.post(new, &fields).await;
    assert!(again.status == 200 && !shown(&again).is_empty(), "{again:?}");
    assert_eq!(count().await, 1);
    let name = page_of(&again)["/portal/webhooks/".len()..].to_owned();
    let recorded = async || browser.get("/portal/activity?event=WebhookAdded").await.text().contains(&name);
    eventually("the change is recorded", SOON, recorded).await;
}

/// A double click sends a form twice: each process finds no webhook yet, and adds it.
async fn form_sent_to_two_processes_adds_one_webhook(
    release: &Release,
    home: &Home,
    gate: &Gate,
    browser: &Browser<'_>,
) {
    let server = serve(release, home).await;
    let mut other = Browser::new(&server, "desk");
    other.cookie.clone_from(&browser.cookie);
    let new = "/portal/webhooks/new";
    eventually("it declares webhooks, too", SOON, async || other.get(new).await.status == 200).await;
    for name in ["Twice", "Thrice"] {
        let page = browser.get(new).await;
        let [csrf, form] = ["csrf", "form"].map(|name| hidden(&page, name));
        let mut fields = [&[("csrf", csrf.as_str()), ("form", form.as_str())][..], &FORM].concat();
        fields[2].1 = name;
        gate.hold_writes_after(Some(0));
        let release = async {
            let is_new = |write: &&String| write.starts_with("POST ") && write.ends_with("/webhooks");
            let held = || gate.pending_writes().iter().filter(is_new).count();
            eventually("both add it", SOON, async || held() == 2).await;
            gate.hold_writes_after(None);
        };
        let (one, two, ()) = tokio::join!(browser.post(new, &fields), other.post(new, &fields), release);
        let replies = [one, two];
        assert!(replies.iter().all(|reply| reply.status == 200), "{replies:?}");
        let is_shown = |reply: &&Reply| reply.text().contains("It is shown this once.");
        assert_eq!(replies.iter().filter(is_shown).count(), 1, "{replies:?}");
        assert_eq!(browser.get("/portal/webhooks").await.text().matches(&format!(">{name}<")).count(), 1);
    }
}

/// What the account could not do with the portal's code, it can't do with any other.
fn the_policy_refuses_the_rest(release: &Release, own: &str) {
    let account = cluster().service_account(&release.namespace, "docket-portal");
    let at = |arguments: &[&str], input: &str| -> KubectlOutput {
        cluster().kubectl_as(&account, &[&["--namespace", &release.tenants], arguments].concat(), input)
    };
    let webhook = |change: &dyn Fn(&mut Value)| {
        let mut object = json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Webhook",
            "metadata": {"name": "tried", "labels": {"app.kubernetes.io/managed-by": "docket-portal"}},
            "spec": {"tenantRef": {"name": "desk"}, "customerCode": "C-1", "targetURL": "https://h.example/",
                "events": ["order.created"]}
        });
        change(&mut object);
        object.to_string()
    };
    let create = ["create", "--dry-run=server", "-f", "-"];
    at(&create, &webhook(&|_| {})).expect("its own is taken");
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}]);
    for (what, change, words) in [
        (
            "no label",
            (&|o: &mut Value| o["metadata"]["labels"] = json!({})) as &dyn Fn(&mut Value),
            "with its label",
        ),
        ("a Secret", &|o| o["spec"]["secretRef"] = json!({"name": "s"}), "refers to a Secret"),
        (
            "a CA",
            &|o| o["spec"]["caBundleRef"] = json!({"kind": "Secret", "name": "s"}),
            "refers to a Secret",
        ),
        (
            "another namespace",
            &|o| o["spec"]["tenantRef"]["namespace"] = json!("default"),
            "namespace of their Tenant",
        ),
        ("a finalizer", &|o| o["metadata"]["finalizers"] = json!(["a.example/b"]), "no finalizers"),
        ("an owner", &|o| o["metadata"]["ownerReferences"] = owner.clone(), "no owners"),
    ] {
        let refused = at(&create, &webhook(change));
        assert!(!refused.ok && refused.err.contains(words), "{what}: {}", refused.err);
    }
    let delete = at(&["delete", "webhook", "given", "--dry-run=server"], "");
    assert!(!delete.ok && delete.err.contains("with its label"), "{}", delete.err);
    for change in [
        (&|o: &mut Value| o["metadata"]["labels"] = json!({})) as &dyn Fn(&mut Value),
        &|o| o["metadata"]["finalizers"] = json!(["a.example/b"]),
        &|o| o["spec"]["secretRef"] = json!({"name": "s"}),
    ] {
        let mut object = release.object("webhook", own);
        object["spec"].as_object_mut().expect("a spec").remove("generateSecret");
        change(&mut object);
        let refused = at(&["replace", "--dry-run=server", "-f", "-"], &object.to_string());
        assert!(!refused.ok && refused.err.contains("the portal "), "{}", refused.err);
    }
    for other in [
        &["get", "secret", "given"][..],
        &["get", "tenant", "desk"],
        &["patch", "webhook", own, "--type=merge", "-p", "{}"],
        &["patch", "webhook", own, "--subresource=status", "--type=merge", "-p", "{}"],
    ] {
        let refused = at(other, "");
        assert!(!refused.ok && refused.err.contains("Forbidden"), "{other:?}: {}", refused.err);
    }
}
