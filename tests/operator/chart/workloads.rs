//! The four Deployments and what scales and guards them.

use docket_crds::{Limit, PlatformLimits};
use docket_rig::scratch::Folder;
use serde_json::{Value, json};

use super::helm::{Objects, documents, file, lint, render, render_with, text};

const COMPONENTS: [&str; 4] = ["docket-api", "docket-detector", "docket-operator", "docket-worker"];

#[test]
fn all_value_sets_are_fit_for_lint_and_install() {
    let mut sets: Vec<String> = std::fs::read_dir(super::helm::chart().join("ci"))
        .expect("ci/ is there")
        .map(|entry| format!("ci/{}", entry.expect("readable").file_name().to_string_lossy()))
        .collect();
    sets.extend(["quickstart.yaml".into(), "values-production.yaml".into()]);
    assert!(sets.len() >= 5, "{sets:?}");
    for set in sets {
        let values = file(&set);
        lint(&values).unwrap_or_else(|error| panic!("{set}: {error}"));
        let objects = render(&values);
        assert_eq!(objects.all("Deployment").len() - objects.all("PersistentVolumeClaim").len(), {
            if set == "quickstart.yaml" { 6 } else { 4 }
        });
        each_object_is_sound(&objects);
    }
}

#[test]
fn a_server_may_have_a_secret_of_keys_and_a_pooler() {
    let values = super::helm::MINIMAL.replace(
        "databaseServers: [{name: main,",
        "databaseServers: [{name: eu, secretRef: {name: eu-superuser}, certificateSecretRef: {name: eu-ca}, \
         host: eu-rw.databases.svc, port: 5433, dbname: docket, sslMode: verify-full, pooler: {host: eu-pooler}}, \
         {name: main,",
    );
    let objects = render(&format!("{values}\nnetworkPolicy: {{postgresql: {{ports: [5432, 5433]}}}}\n"));
    let operator = objects.arguments("docket-operator");
    let expected = "--database-server=eu=/etc/docket/database-servers/eu;dbname=docket;host=eu-rw.databases.svc;\
                    port=5433;sslmode=verify-full;pooler=eu-pooler:5432";
    assert!(operator.contains(&expected), "{operator:?}");
    let volumes = objects.pod("docket-operator")["volumes"].as_array().expect("a list");
    let of = |name: &str| volumes.iter().find(|volume| volume["name"] == name).expect(name);
    let items = json!([{"key": "tls.crt", "path": "tls.crt"}, {"key": "tls.key", "path": "tls.key"},
        {"key": "ca.crt", "path": "ca.crt"}]);
    assert_eq!(
        of("database-eu")["projected"]["sources"],
        json!([{"secret": {"name": "eu-superuser"}},
            {"secret": {"name": "eu-ca", "optional": true, "items": items}}])
    );
    assert_eq!(of("database-main")["secret"]["items"], json!([{"key": "url", "path": "url"}]));
    for other in ["docket-api", "docket-detector", "docket-worker"] {
        assert!(!objects.pod(other).to_string().contains("eu-superuser"), "{other}");
    }
}

/// What holds for every object of every value set.
fn each_object_is_sound(objects: &Objects) {
    let mut seen = Vec::new();
    for object in &objects.0 {
        let name = text(&object["metadata"]["name"]);
        let cluster =
            text(&object["kind"]).starts_with("Cluster") || object["kind"] == "CustomResourceDefinition";
        let id = format!("{} {}/{name}", object["kind"], object["metadata"]["namespace"]);
        assert!(name.len() <= 253 && (cluster || name.len() <= 63), "{id}: too long");
        assert!(!seen.contains(&id), "{id} is there twice");
        seen.push(id);
    }
}

#[test]
fn pods_are_restricted() {
    for objects in [render_with(""), render(&file("quickstart.yaml")), render(&file("ci/full-values.yaml"))] {
        let deployments =
            objects.all("Deployment").into_iter().map(|object| &object["spec"]["template"]["spec"]);
        let tests = objects.all("Pod").into_iter().map(|object| &object["spec"]);
        for pod in deployments.chain(tests) {
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            assert_eq!(pod["enableServiceLinks"], false, "no variables about other Services");
            assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
            for container in pod["containers"].as_array().expect("a list") {
                let context = &container["securityContext"];
                assert_eq!(context["allowPrivilegeEscalation"], false);
                assert_eq!(context["readOnlyRootFilesystem"], true);
                assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
            }
        }
    }
}

#[test]
fn tokens_of_the_api_server_are_mounted_only_where_they_are_needed() {
    let objects = render(&file("quickstart.yaml"));
    for deployment in objects.all("Deployment") {
        let name = text(&deployment["metadata"]["name"]);
        let mounted = &deployment["spec"]["template"]["spec"]["automountServiceAccountToken"];
        assert_eq!(*mounted, json!(COMPONENTS.contains(&name)), "{name}");
    }
    assert_eq!(objects.one("Pod", "docket-test")["spec"]["automountServiceAccountToken"], false);
    for account in objects.all("ServiceAccount") {
        assert_eq!(account["automountServiceAccountToken"], false);
    }
}

#[test]
fn operator_gets_the_limits_of_tenants_and_rolls_with_them() {
    let of = |values: &str| {
        let objects = render_with(values);
        let name = "docket-limits";
        let content = text(&objects.one("ConfigMap", name)["data"]["limits.yaml"]).to_owned();
        let argument = "--tenant-limits=/etc/docket/limits/limits.yaml";
        assert!(objects.arguments("docket-operator").contains(&argument));
        let template = &objects.one("Deployment", "docket-operator")["spec"]["template"];
        let volumes = template["spec"]["volumes"].as_array().expect("a list");
        assert!(volumes.contains(&json!({"name": "limits", "configMap": {"name": name}})), "{volumes:?}");
        let mounts = objects.container("docket-operator")["volumeMounts"].as_array().expect("a list").clone();
        let mount = json!({"name": "limits", "mountPath": "/etc/docket/limits", "readOnly": true});
        assert!(mounts.contains(&mount), "{mounts:?}");
        (content, template["metadata"]["annotations"]["checksum/limits"].clone())
    };
    let (content, first) = of("limits: {defaults: {bodyBytes: 1000000}, maxima: {requestBurst: 1000000}}");
    let limits: PlatformLimits = content.parse().expect("the operator reads it");
    let limits = (limits.defaults.body_bytes, limits.maxima.request_burst, limits.maxima.webhooks);
    assert_eq!(limits, (Some(1_000_000), Some(1_000_000), None));
    assert_ne!(of("limits: {maxima: {webhooks: 0}}").1, first);
    let fields = documents(&file("values.schema.json")).remove(0);
    let fields = fields["$defs"]["limits"]["patternProperties"].clone();
    let crd = &documents(&file("templates/crds/tenants.yaml").replace("{{", "#").replace("}}", "")).remove(0);
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    for limit in Limit::WORDS {
        for bound in ["minimum", "maximum"] {
            let declared = &spec["limits"]["properties"][limit][bound];
            assert_eq!(fields[format!("^{limit}$")][bound].as_f64(), declared.as_f64(), "{limit}");
            assert!(declared.is_number(), "{limit}");
        }
    }
    assert_eq!(fields.as_object().expect("an object").len(), Limit::ALL.len());
}

#[test]
fn only_the_apis_pods_serve_the_portal_and_only_if_it_is_enabled() {
    for (values, roles) in [("", "--roles=api"), ("portal: {enabled: true}", "--roles=api,portal")] {
        let objects = render_with(values);
        assert_eq!(objects.arguments("docket-api")[1], roles);
        assert_eq!(objects.arguments("docket-worker")[1], "--roles=worker");
        assert_eq!(objects.arguments("docket-detector")[1], "--roles=detector");
    }
}

#[test]
fn each_component_gets_its_settings() {
    let objects = render_with(
        "
legacyHost: old.example.com
disabledEvents: [note.created]
externalDatabases: {allow: [db.example.com, '*.eu.example.com', 10.3.0.0/16]}
watch: {namespaces: [a, b]}
api: {trustedProxies: [10.244.0.0/16, 10.1.0.0/24], proxyProtocol: true, docs: false}
networkPolicy: {clusterCIDRs: [203.0.112.0/22, '2a00:1::/32']}
worker: {allowEgress: [10.1.0.0/16, 10.2.0.0/16], sweepInterval: 10s, deliveryRetention: 7d, webhookGrace: 2h, auditRetention: 8d, extraArgs: [--x=1]}
",
    );
    assert_eq!(
        objects.arguments("docket-operator"),
        [
            "run",
            "--release-namespace=docket-runtime",
            "--watch-namespace=a",
            "--watch-namespace=b",
            "--database-server=main=/etc/docket/database-servers/main/url",
            "--allow-external-database=db.example.com",
            "--allow-external-database=*.eu.example.com",
            "--allow-external-database=10.3.0.0/16",
            "--redis-url-file=/etc/docket/redis/url",
            "--disabled-event=note.created",
            "--tenant-limits=/etc/docket/limits/limits.yaml",
            "--concurrency=8",
            "--migrations-at-once=4",
            "--webhook-grace=2h",
            "--lease-duration=15s",
            "--lease-renewal=5s",
            "--listen=[::]:9090",
            "--log=info",
            "--log-format=json",
        ]
    );
    assert_eq!(
        objects.arguments("docket-api"),
        [
            "serve",
            "--roles=api",
            "--database-connections=30",
            "--database-connections-per-tenant=4",
            "--allow-egress=10.1.0.0/16",
            "--allow-egress=10.2.0.0/16",
            "--deny-egress=203.0.112.0/22",
            "--deny-egress=2a00:1::/32",
            "--listen=[::]:8080",
            "--base-domain=api.example.com",
            "--legacy-host=old.example.com",
            "--trusted-proxy=10.244.0.0/16",
            "--trusted-proxy=10.1.0.0/24",
            "--forwarded-header=X-Forwarded-For",
            "--proxy-protocol",
            "--docs=off",
            "--audit-log=-",
            "--shutdown-delay=5s",
            "--management=[::]:9090",
            "--log=info",
            "--log-format=json",
        ]
    );
    assert_eq!(
        objects.arguments("docket-worker"),
        [
            "serve",
            "--roles=worker",
            "--database-connections=30",
            "--database-connections-per-tenant=4",
            "--allow-egress=10.1.0.0/16",
            "--allow-egress=10.2.0.0/16",
            "--deny-egress=203.0.112.0/22",
            "--deny-egress=2a00:1::/32",
            "--delivery-retention=7d",
            "--webhook-grace=2h",
            "--audit-retention=8d",
            "--sweep-interval=10s",
            "--management=[::]:9090",
            "--log=info",
            "--log-format=json",
            "--x=1",
        ]
    );
    assert_eq!(
        objects.arguments("docket-detector"),
        [
            "serve",
            "--roles=detector",
            "--database-connections=10",
            "--database-connections-per-tenant=2",
            "--allow-egress=10.1.0.0/16",
            "--allow-egress=10.2.0.0/16",
            "--deny-egress=203.0.112.0/22",
            "--deny-egress=2a00:1::/32",
            "--invoice-scan-interval=30s",
            "--invoice-max-age=30d",
            "--management=[::]:9090",
            "--log=info",
            "--log-format=json",
        ]
    );
    for component in COMPONENTS {
        let program = if component == "docket-operator" { "docket-operator" } else { "docket" };
        assert_eq!(objects.container(component)["command"], json!([program]));
    }
    // The settings are environment variables, so that they also hold for commands in the pod.
    let source = json!([
        {"name": "DOCKET_CONFIG_NAMESPACE", "value": "docket-runtime"},
        {"name": "DOCKET_ALLOW_EXTERNAL_DATABASE", "value": "db.example.com,*.eu.example.com,10.3.0.0/16"},
        {"name": "DOCKET_REDIS_URL_FILE", "value": "/etc/docket/redis/url"},
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]);
    for component in ["docket-api", "docket-worker", "docket-detector"] {
        assert_eq!(objects.container(component)["env"], source);
    }
    let without_stream = render_with("api: {auditLog: false}");
    assert!(without_stream.arguments("docket-api").iter().all(|argument| !argument.contains("audit")));
}

#[test]
fn urls_are_mounted_as_whole_folders_and_only_the_operator_has_those_of_administrators() {
    let objects = render(&file("ci/full-values.yaml"));
    let redis = |key: &str| json!({"name": "redis", "secret": {"secretName": "docket-redis", "items": [{"key": key, "path": "url"}]}});
    for component in COMPONENTS {
        let volumes = objects.pod(component)["volumes"].as_array().expect("a list");
        let key = match component {
            "docket-operator" => "operator-url",
            "docket-worker" => "worker-url",
            _ => "redis-url",
        };
        assert!(volumes.contains(&redis(key)), "{component}");
        let databases =
            volumes.iter().filter(|volume| text(&volume["name"]).starts_with("database-")).count();
        assert_eq!(databases, if component == "docket-operator" { 2 } else { 0 }, "{component}");
        let mounts = objects.container(component)["volumeMounts"].as_array().expect("a list");
        assert!(mounts.iter().all(|mount| mount["subPath"].is_null()), "{component}");
        assert!(
            mounts.contains(&json!({"name": "redis", "mountPath": "/etc/docket/redis", "readOnly": true}))
        );
    }
    let second = &objects.pod("docket-operator")["volumes"][2];
    assert_eq!(
        *second,
        json!({"name": "database-second", "secret": {
            "secretName": "docket-postgresql-second", "items": [{"key": "admin.url", "path": "url"}]}})
    );
    let mounts = objects.container("docket-operator")["volumeMounts"].as_array().expect("a list");
    let path = "/etc/docket/database-servers/second";
    assert!(mounts.contains(&json!({"name": "database-second", "mountPath": path, "readOnly": true})));
    assert!(objects.arguments("docket-operator").join(" ").contains(&format!("=second={path}/url")));
}

#[test]
fn only_workers_have_the_url_of_the_smtp_server_and_the_portal_knows_the_sender() {
    let objects = render(&file("ci/full-values.yaml"));
    let smtp = json!({"name": "smtp", "secret": {
        "secretName": "docket-smtp", "items": [{"key": "smtp-url", "path": "url"}]}});
    let from = "--mail-from=Docket <docket@example.com>";
    for component in COMPONENTS {
        let volumes = objects.pod(component)["volumes"].as_array().expect("a list");
        assert_eq!(volumes.contains(&smtp), component == "docket-worker", "{component}");
        let mounts = objects.container(component)["volumeMounts"].as_array().expect("a list");
        let mount = json!({"name": "smtp", "mountPath": "/etc/docket/smtp", "readOnly": true});
        assert_eq!(mounts.contains(&mount), component == "docket-worker", "{component}");
        let arguments = objects.arguments(component);
        let has = |argument: &str| arguments.contains(&argument);
        assert_eq!(has(from), ["docket-api", "docket-worker"].contains(&component), "{component}");
        let of_worker = [
            "--smtp-url-file=/etc/docket/smtp/url",
            "--smtp-ca-file=/etc/docket/ca/smtp.crt",
            "--portal-url=https://{subdomain}.portal.example.com",
        ];
        assert!(of_worker.into_iter().all(|argument| has(argument) == (component == "docket-worker")));
    }
    let mail = "mail: {from: a@b.example, secretRef: {name: docket-smtp}}\nportal: {enabled: true}";
    let arguments = render_with(mail).arguments("docket-worker").join(" ");
    assert!(arguments.contains("--portal-url=https://{subdomain}.api.example.com"), "{arguments}");
    assert!(!render_with("").arguments("docket-worker").join(" ").contains("mail"));
}

#[test]
fn a_private_authority_is_in_every_pod() {
    let objects = render(&file("ci/full-values.yaml"));
    for component in COMPONENTS {
        let volumes = objects.pod(component)["volumes"].as_array().expect("a list");
        assert!(volumes.contains(&json!({"name": "ca", "configMap": {"name": "company-ca"}})));
        let container = objects.container(component);
        let mounts = container["volumeMounts"].as_array().expect("a list");
        assert!(mounts.contains(&json!({"name": "ca", "mountPath": "/etc/docket/ca", "readOnly": true})));
        let variables = container["env"].as_array().expect("a list");
        assert!(
            variables.contains(&json!({"name": "DOCKET_REDIS_CA_FILE", "value": "/etc/docket/ca/redis.crt"}))
        );
        assert!(variables.contains(&json!({"name": "DOCKET_REDIS_RELEASE", "value": "blue"})));
    }
    assert!(render_with("").container("docket-operator").get("env").is_none());
}

#[test]
fn probes_ask_the_management_port() {
    let objects = render_with("worker: {readinessProbe: {failureThreshold: 9}}");
    for component in COMPONENTS {
        let container = objects.container(component);
        assert_eq!(container["startupProbe"]["httpGet"], json!({"path": "/healthz", "port": "management"}));
        assert_eq!(container["livenessProbe"]["httpGet"], json!({"path": "/healthz", "port": "management"}));
        assert_eq!(container["readinessProbe"]["httpGet"], json!({"path": "/readyz", "port": "management"}));
        let ports = container["ports"].as_array().expect("a list");
        assert!(ports.contains(&json!({"name": "management", "containerPort": 9090})));
        assert_eq!(ports.len(), if component == "docket-api" { 2 } else { 1 });
    }
    let readiness = |component| objects.container(component)["readinessProbe"]["failureThreshold"].clone();
    assert_eq!(readiness("docket-worker"), 9);
    assert_eq!(readiness("docket-api"), 2);
}

#[test]
fn pods_have_time_to_finish() {
    let objects = render_with("");
    let grace = |component| objects.pod(component)["terminationGracePeriodSeconds"].clone();
    assert_eq!(COMPONENTS.map(grace), [45, 30, 30, 60].map(|seconds: u32| json!(seconds)));
}

#[test]
fn replicas_are_the_autoscalers_business_where_there_is_one() {
    let objects = render_with("worker: {autoscaling: {enabled: true}, replicas: 7}\noperator: {replicas: 2}");
    assert_eq!(objects.names("HorizontalPodAutoscaler"), ["docket-worker"]);
    assert!(objects.one("Deployment", "docket-worker")["spec"].get("replicas").is_none());
    assert_eq!(objects.one("Deployment", "docket-operator")["spec"]["replicas"], 2);
    let scaler = &objects.one("HorizontalPodAutoscaler", "docket-worker")["spec"];
    assert_eq!(
        scaler["scaleTargetRef"],
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "docket-worker"})
    );
    assert_eq!((scaler["minReplicas"].clone(), scaler["maxReplicas"].clone()), (json!(2), json!(4)));
    let cpu = |percent: u32| {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    };
    assert_eq!(scaler["metrics"], json!([cpu(70)]));
    assert!(scaler.get("behavior").is_none());
    let pods = json!({"type": "Pods", "pods": {"metric": {"name": "x"}, "target": {"type": "AverageValue", "averageValue": "1"}}});
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 60}});
    let own = render_with(&format!(
        "api: {{autoscaling: {{enabled: true, targetCPUUtilizationPercentage: 50, metrics: [{pods}], behavior: {behavior}}}}}"
    ));
    let scaler = &own.one("HorizontalPodAutoscaler", "docket-api")["spec"];
    assert_eq!((&scaler["metrics"], &scaler["behavior"]), (&json!([cpu(50), pods]), &behavior));
    // Another autoscaler's, which the chart does not create.
    let objects = render_with("worker: {autoscaling: {external: true}, replicas: 0}");
    assert_eq!(objects.names("HorizontalPodAutoscaler"), [""; 0]);
    assert!(objects.one("Deployment", "docket-worker")["spec"].get("replicas").is_none());
    assert_eq!(objects.one("Deployment", "docket-api")["spec"]["replicas"], 2);
    // Scaled down to none.
    let objects = render_with("api: {replicas: 0}\nworker: {replicas: 0}\ndetector: {replicas: 0}");
    assert_eq!(objects.one("Deployment", "docket-api")["spec"]["replicas"], 0);
}

#[test]
fn an_upgrade_takes_no_pod_away_before_the_next_one_is_ready() {
    let objects = render_with("");
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    for component in COMPONENTS {
        let spec = &objects.one("Deployment", component)["spec"];
        assert_eq!((&spec["strategy"], &spec["revisionHistoryLimit"]), (&rolling, &json!(3)), "{component}");
        let resources = &objects.container(component)["resources"];
        assert!(resources["requests"]["cpu"].is_string() && resources["limits"]["memory"].is_string());
    }
    let other =
        render_with("operator: {strategy: {type: Recreate, rollingUpdate: null}}\nrevisionHistoryLimit: 0");
    let spec = &other.one("Deployment", "docket-operator")["spec"];
    assert_eq!((&spec["strategy"], &spec["revisionHistoryLimit"]), (&json!({"type": "Recreate"}), &json!(0)));
}

#[test]
fn budgets_never_keep_a_node_from_being_drained() {
    let objects = render_with("");
    assert_eq!(objects.names("PodDisruptionBudget"), ["docket-api", "docket-worker"]);
    let objects = render(&file("ci/full-values.yaml"));
    assert_eq!(objects.names("PodDisruptionBudget"), ["docket-api", "docket-operator", "docket-worker"]);
    for budget in objects.all("PodDisruptionBudget") {
        assert_eq!(budget["spec"]["maxUnavailable"], 1);
        assert!(budget["spec"].get("minAvailable").is_none());
        assert_eq!(budget["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow");
        let deployment = objects.one("Deployment", text(&budget["metadata"]["name"]));
        assert_eq!(budget["spec"]["selector"], deployment["spec"]["selector"], "the pods of its component");
    }
    assert!(
        render_with(
            "api: {podDisruptionBudget: {enabled: false}}\nworker: {podDisruptionBudget: {enabled: false}}"
        )
        .all("PodDisruptionBudget")
        .is_empty()
    );
}

#[test]
fn selectors_are_the_same_whatever_else_changes_and_match_one_component() {
    let plain = render_with("");
    let busy = render_with("commonLabels: {team: a}\nimage: {tag: 9.9.9}\napi: {podLabels: {tier: front}}");
    for component in COMPONENTS {
        let selector = |objects: &Objects| {
            objects.one("Deployment", component)["spec"]["selector"]["matchLabels"].clone()
        };
        assert_eq!(selector(&plain), selector(&busy));
        let matched = |other: &&&str| {
            let labels = &busy.one("Deployment", other)["spec"]["template"]["metadata"]["labels"];
            selector(&busy).as_object().expect("labels").iter().all(|(key, value)| labels[key] == *value)
        };
        assert_eq!(COMPONENTS.iter().filter(matched).collect::<Vec<_>>(), [&component]);
    }
}

#[test]
fn pods_are_spread_with_their_own_kind() {
    let objects = render(&file("ci/full-values.yaml"));
    let spread = objects.pod("docket-worker")["topologySpreadConstraints"].as_array().expect("a list");
    let selector = |at: usize| spread[at]["labelSelector"]["matchLabels"].clone();
    assert_eq!(selector(0)["app.kubernetes.io/component"], "worker");
    assert_eq!(selector(1), json!({"team": "platform"}));
    let default = render_with("");
    for component in ["docket-operator", "docket-api", "docket-worker"] {
        let spread = default.pod(component)["topologySpreadConstraints"].as_array().expect("a list");
        let keys: Vec<&str> = spread.iter().map(|constraint| text(&constraint["topologyKey"])).collect();
        assert_eq!(keys, ["topology.kubernetes.io/zone", "kubernetes.io/hostname"], "{component}");
        assert!(spread.iter().all(|constraint| constraint["whenUnsatisfiable"] == "ScheduleAnyway"));
    }
}

#[test]
fn what_pods_may_be_given_reaches_them() {
    let objects = render(&file("ci/full-values.yaml"));
    let pod = objects.pod("docket-api");
    assert_eq!(pod["priorityClassName"], "high");
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    assert_eq!(pod["tolerations"][0]["key"], "dedicated");
    assert!(pod["affinity"]["podAntiAffinity"].is_object());
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "registry"}]));
    assert_eq!(pod["volumes"][2], json!({"name": "scratch", "emptyDir": {}}));
    assert_eq!(pod["dnsPolicy"], "None");
    assert_eq!(pod["dnsConfig"]["nameservers"], json!(["10.96.0.10"]));
    assert_eq!(pod["hostAliases"], json!([{"ip": "10.1.2.3", "hostnames": ["pg.example.com"]}]));
    assert_eq!((text(&pod["runtimeClassName"]), text(&pod["schedulerName"])), ("gvisor", "bin-packing"));
    let container = objects.container("docket-api");
    assert_eq!(container["image"], "registry.example.com/docket:0.1.0-rc.1");
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(container["env"][5], json!({"name": "TZ", "value": "UTC"}));
    assert!(objects.arguments("docket-api").contains(&"--attempt-timeout=20s"));
    assert!(objects.arguments("docket-api").contains(&"--listen=0.0.0.0:8080"));
    let template = &objects.one("Deployment", "docket-api")["spec"]["template"]["metadata"];
    assert_eq!(template["labels"]["example.com/tier"], "front");
    assert_eq!(template["annotations"]["example.com/note"], "yes");
    for object in objects.0.iter().filter(|object| object["metadata"]["labels"]["helm.sh/chart"].is_string())
    {
        let metadata = &object["metadata"];
        assert_eq!(metadata["labels"]["team"], "platform", "{metadata}");
        assert_eq!(metadata["annotations"]["example.com/owner"], "platform@example.com", "{metadata}");
    }
}

#[test]
fn the_image_is_the_charts_version_or_a_digest() {
    let image = |more: &str| text(&render_with(more).container("docket-worker")["image"]).to_owned();
    assert_eq!(image(""), "localhost/docket:0.1.0");
    let digest = format!("sha256:{}", "ab".repeat(32));
    assert_eq!(
        image(&format!("image: {{tag: x, digest: '{digest}'}}")),
        format!("localhost/docket@{digest}")
    );
    let version = env!("CARGO_PKG_VERSION");
    assert!(file("Chart.yaml").contains(&format!("\nversion: {version}\nappVersion: {version}\n")));
}

#[test]
fn containers_run_before_and_beside_each_programs_own() {
    let container = |name: &str| json!({"name": name, "image": "busybox:1"});
    let values = json!({"initContainers": [container("first")], "extraContainers": [container("beside")]});
    let values = ["operator", "api", "worker", "detector"].map(|component| format!("{component}: {values}"));
    let objects = render_with(&values.join("\n"));
    for component in COMPONENTS {
        let pod = objects.pod(component);
        assert_eq!(pod["initContainers"], json!([container("first")]), "{component}");
        let containers = pod["containers"].as_array().expect("a list");
        let own = component.trim_start_matches("docket-");
        assert_eq!((containers.len(), text(&containers[0]["name"])), (2, own));
        assert_eq!(containers[1], container("beside"));
    }
    for field in
        ["initContainers", "dnsPolicy", "dnsConfig", "hostAliases", "runtimeClassName", "schedulerName"]
    {
        assert!(render_with("").pod("docket-api").get(field).is_none(), "{field} is not set");
    }
}

#[test]
fn leader_election_is_set_by_values() {
    let lease = |objects: &Objects| {
        let arguments = objects.arguments("docket-operator");
        let lease = arguments.into_iter().filter(|argument| argument.starts_with("--lease"));
        lease.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lease(&render_with("")), ["--lease-duration=15s", "--lease-renewal=5s"]);
    let full = render(&file("ci/full-values.yaml"));
    assert_eq!(lease(&full), ["--lease-duration=30s", "--lease-renewal=10s"]);
}

#[test]
fn migrations_begin_when_the_values_say() {
    let of_migrations = |objects: &Objects| {
        let arguments = objects.arguments("docket-operator").into_iter();
        let arguments = arguments.filter(|argument| argument.contains("migration"));
        arguments.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(of_migrations(&render_with("")), ["--migrations-at-once=4"]);
    let full = render(&file("ci/full-values.yaml"));
    let expected = ["--migrations-at-once=8", "--pause-migrations", "--migration-window=22:00-04:00"];
    assert_eq!(of_migrations(&full), expected);
}

/// The API's pods then have everything that workers have.
#[test]
fn api_delivers_if_the_values_say_so() {
    let values = "
api: {deliver: true, databaseConnectionsPerTenant: 4}
portal: {enabled: true}
mail: {from: a@b.example, secretRef: {name: docket-smtp}}
worker: {deliveryRetention: 7d, allowEgress: [10.1.0.0/16]}
";
    let with_users =
        "redis: {secretRef: {name: docket-redis, keys: {api: of-the-api, worker: of-the-worker}}}";
    let least = super::helm::MINIMAL.replace("redis: {secretRef: {name: docket-redis}}", with_users);
    let objects = render(&format!("{least}{values}"));
    let api = objects.arguments("docket-api");
    assert_eq!(api[1], "--roles=api,worker,portal");
    let of_worker = objects.arguments("docket-worker").into_iter();
    let of_worker: Vec<&str> = of_worker.filter(|argument| !argument.starts_with("--roles=")).collect();
    assert!(of_worker.len() > 10 && of_worker.contains(&"--delivery-retention=7d"));
    assert!(of_worker.iter().all(|argument| api.contains(argument)), "{of_worker:?} in {api:?}");
    let volumes = |component: &str| objects.pod(component)["volumes"].clone();
    assert_eq!(volumes("docket-api"), volumes("docket-worker"));
    assert_eq!(volumes("docket-api")[0]["secret"]["items"][0]["key"], "of-the-worker");
    let without = render(&format!("{least}{}", values.replace("deliver: true", "deliver: false")));
    assert_eq!(without.arguments("docket-api")[1], "--roles=api,portal");
    assert_eq!(without.pod("docket-api")["volumes"][0]["secret"]["items"][0]["key"], "of-the-api");
}

#[test]
fn registry_and_pull_secrets_of_a_parent_chart_hold_for_every_image() {
    let global = "global: {imageRegistry: registry.example.com/team, imagePullSecrets: [one, {name: two}], other: {a: 1}}";
    let images = |objects: &Objects| -> Vec<String> {
        let deployments = objects.all("Deployment").into_iter();
        let pods = deployments.map(|deployment| &deployment["spec"]["template"]["spec"]);
        let pods = pods.chain(objects.all("Pod").into_iter().map(|pod| &pod["spec"]));
        pods.map(|pod| {
            assert_eq!(pod["imagePullSecrets"], json!([{"name": "one"}, {"name": "two"}, {"name": "three"}]));
            text(&pod["containers"][0]["image"]).to_owned()
        })
        .collect()
    };
    let secrets = "image: {pullSecrets: [{name: two}, {name: three}]}";
    let own = images(&render_with(&format!("{global}\n{secrets}")));
    assert!(own.iter().all(|image| image == "registry.example.com/team/docket:0.1.0"), "{own:?}");
    let quickstart = images(&render(&format!("{}{global}\n{secrets}", file("quickstart.yaml"))));
    assert!(quickstart.iter().all(|image| image.starts_with("registry.example.com/team/")), "{quickstart:?}");
    assert!(quickstart.iter().any(|image| image.starts_with("registry.example.com/team/postgres:")));
    // The mirror replaces only the registry of a name, and not the path below it.
    let deep = "global: {imageRegistry: mirror:5000}\nimage: {repository: ghcr.io/acme/docket}";
    assert_eq!(render_with(deep).container("docket-api")["image"], "mirror:5000/acme/docket:0.1.0");
    let plain = "global: {imageRegistry: mirror:5000}\nimage: {repository: acme/docket}";
    assert_eq!(render_with(plain).container("docket-api")["image"], "mirror:5000/acme/docket:0.1.0");
}

#[test]
fn the_namespace_can_be_another_than_the_releases() {
    let more = "namespaceOverride: orders\nportal: {enabled: true, declareWebhooks: true}\nplatform: {enabled: true}\n\
                serviceMonitor: {enabled: true}\nprometheusRule: {enabled: true}";
    let objects = render_with(more);
    each_object_is_sound(&objects);
    for object in &objects.0 {
        assert!(!object.to_string().contains("docket-system"), "{object}");
    }
    assert_eq!(objects.one("Deployment", "docket-api")["metadata"]["namespace"], "orders");
    assert!(objects.names("ClusterRole").contains(&"orders-docket-operator"));
}

/// A parent chart with ours below it.
#[test]
fn the_chart_can_be_a_part_of_another_chart() {
    let folder = Folder::new("parent-chart");
    let below = folder.path().join("charts");
    std::fs::create_dir(&below).expect("a folder");
    std::os::unix::fs::symlink(super::helm::chart(), below.join("docket")).expect("a link");
    let version = env!("CARGO_PKG_VERSION");
    let parent = format!(
        "apiVersion: v2\nname: parent\nversion: 1.0.0\ndependencies: [{{name: docket, version: {version}, condition: docket.enabled}}]\n"
    );
    std::fs::write(folder.path().join("Chart.yaml"), parent).expect("written");
    let path = folder.path().to_str().expect("a plain path");
    let arguments = [
        "template",
        "all",
        path,
        "--namespace",
        "docket-system",
        "--values",
        "-",
        "--kube-version",
        "1.34.0",
    ];
    let rendered = |more: &str| {
        let least = super::helm::MINIMAL.trim().replace('\n', "\n  ");
        let values =
            format!("global: {{imageRegistry: mirror, imageTag: x}}\ndocket:\n  {least}\n  {more}\n");
        Objects(documents(&super::helm::helm(&arguments, &values).unwrap_or_else(|error| panic!("{error}"))))
    };
    let on = rendered("enabled: true");
    assert_eq!(on.names("Deployment").len(), 4);
    assert_eq!(on.container("all-docket-api")["image"], "mirror/docket:0.1.0");
    assert!(rendered("enabled: false").0.is_empty());
}

#[test]
fn values_for_production_are_what_their_page_promises() {
    let objects = render(&file("values-production.yaml"));
    assert_eq!(objects.one("Deployment", "docket-operator")["spec"]["replicas"], 2);
    assert_eq!(objects.names("PodDisruptionBudget"), ["docket-api", "docket-operator", "docket-worker"]);
    assert_eq!(objects.names("HorizontalPodAutoscaler"), ["docket-api", "docket-worker"]);
    assert!(objects.arguments("docket-operator").contains(&"--watch-namespace=tenants"));
    assert_eq!(objects.names("ValidatingAdmissionPolicy"), ["docket-system-docket-operator-secrets"]);
    for component in COMPONENTS {
        let users = &objects.pod(component)["volumes"][0]["secret"]["items"][0]["key"];
        assert_eq!(*users, component.trim_start_matches("docket-"));
        let policy = &objects.one("NetworkPolicy", component)["spec"];
        for rule in policy["egress"].as_array().expect("a list").iter().skip(1).take(3) {
            let networks = rule["to"].as_array().expect("a list");
            assert!(networks.len() == 1 && networks[0]["ipBlock"].is_object(), "{component}: {rule}");
        }
    }
    let page = std::fs::read_to_string(super::helm::repository().join("docs/kubernetes/production.md"));
    let page = page.expect("it is there");
    let values = documents(&file("values-production.yaml")).remove(0);
    let shown = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().expect("a part"));
    let mut compared = 0;
    for block in shown {
        for (key, value) in documents(block).remove(0).as_object().expect("an object") {
            match (key.as_str(), &values[key]) {
                // The page leaves the proxies to another page.
                ("api", all) => assert_eq!(value["autoscaling"], all["autoscaling"]),
                (_, all) => assert_eq!(value, all, "{key}"),
            }
            compared += 1;
        }
    }
    assert!(compared >= 8, "{compared}");
}

#[test]
fn names_follow_the_release() {
    let named =
        |more: &str| render_with(more).names("Deployment").first().expect("there are some").to_string();
    assert_eq!(named("fullnameOverride: orders"), "orders-api");
    assert_eq!(named("nameOverride: orders"), "docket-orders-api");
    // A release and a namespace may have names that look like numbers.
    let arguments = [
        "template",
        "123",
        "charts/docket",
        "--namespace",
        "456",
        "--values",
        "-",
        "--kube-version",
        "1.34.0",
    ];
    let objects = Objects(documents(&super::helm::helm(&arguments, super::helm::MINIMAL).expect("rendered")));
    assert_eq!(objects.one("Deployment", "123-docket-api")["metadata"]["namespace"], "456");
    each_object_is_sound(&objects);
    let labels = &objects.one("Service", "123-docket-api")["spec"]["selector"];
    assert!(labels.as_object().expect("labels").values().all(Value::is_string), "{labels}");
}

#[test]
fn extra_objects_are_templates() {
    let objects = render(&file("ci/full-values.yaml"));
    assert_eq!(objects.one("ConfigMap", "docket-extra")["data"]["greeting"], "hello");
    assert_eq!(objects.one("ConfigMap", "docket-extra-text")["data"]["greeting"], "hello");
}

#[test]
fn helm_test_asks_each_component_that_runs() {
    let urls = |more: &str| {
        let objects = render_with(more);
        let pod = objects.one("Pod", "docket-test");
        assert_eq!(pod["metadata"]["annotations"]["helm.sh/hook"], "test");
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["command"], json!(["docket"]));
        super::helm::texts(&container["args"]).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let url = |component| format!("--url=http://docket-{component}-management.docket-system:9090/readyz");
    assert_eq!(
        urls(""),
        [
            "healthcheck".into(),
            "--wait=30s".into(),
            url("operator"),
            url("api"),
            url("worker"),
            url("detector")
        ]
    );
    assert_eq!(
        urls("detector: {replicas: 0}\nworker: {replicas: 0}"),
        ["healthcheck".into(), "--wait=30s".into(), url("operator"), url("api")]
    );
}
