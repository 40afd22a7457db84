//! What must be set, and what does not fit: `helm install` stops and names the setting.

use super::helm::{MINIMAL, try_render};

fn refusal(values: &str) -> String {
    match try_render(values) {
        Ok(_) => panic!("taken:\n{values}"),
        Err(message) => message,
    }
}

#[test]
fn without_values_each_missing_setting_is_named_with_what_is_right() {
    let message = refusal("");
    for expected in [
        "baseDomain: set the host name of the API, such as api.example.com",
        "databaseServers: set at least one PostgreSQL server, such as [{name: main,",
        "redis.secretRef.name: set the name of the Secret",
        "runtimeNamespace: set a namespace for the runtime Secrets",
    ] {
        assert!(message.contains(expected), "{expected} is not in {message}");
    }
}

#[test]
fn settings_that_do_not_fit_together_are_named() {
    for (more, expected) in [
        ("legacyHost: api.example.com", "legacyHost: must not be baseDomain"),
        ("quickstart: {enabled: true}", "databaseServers: leave it empty with quickstart.enabled"),
        ("quickstart: {enabled: true}", "redis.secretRef.name: leave it empty with quickstart.enabled"),
        ("privateCA: {redisKey: ca.crt}", "privateCA.configMap: set the ConfigMap"),
        ("mail: {caKey: ca.crt}", "privateCA.configMap: set the ConfigMap that contains mail.caKey"),
        (
            "mail: {from: a@b.example}\nportal: {enabled: true}",
            "mail.secretRef.name: set the name of the Secret",
        ),
        ("mail: {secretRef: {name: docket-smtp}}", "mail.from: set the sender"),
        ("mail: {from: a@b.example, secretRef: {name: docket-smtp}}", "mail.from: needs portal.enabled"),
        (
            "worker: {databaseConnections: 4}",
            "worker.databaseConnectionsPerTenant: must not exceed worker.databaseConnections, which is 4",
        ),
        (
            "watch: {namespaces: []}\nruntimeNamespace: docket-system",
            "runtimeNamespace: must not be docket-system",
        ),
        (
            "quickstart: {enabled: true}\nruntimeNamespace: docket-system",
            "runtimeNamespace: must not be docket-system",
        ),
        ("worker: {allowEgress: [169.254.169.254/32]}", "worker.allowEgress: leave out 169.254.169.254/32"),
        ("worker: {allowEgress: ['fd00:ec2::/64']}", "worker.allowEgress: leave out fd00:ec2::/64"),
        (
            "worker: {allowEgress: ['FD00:C1:0::a9fe:A9FE/128']}",
            "worker.allowEgress: leave out FD00:C1:0::a9fe:A9FE/128",
        ),
        (
            "worker: {allowEgress: ['64:ff9b::a9fe:a9fe/128']}",
            "worker.allowEgress: leave out 64:ff9b::a9fe:a9fe/128",
        ),
        (
            "worker: {allowEgress: ['64:ff9b:1::a9fe:a9fe/128']}",
            "worker.allowEgress: leave out 64:ff9b:1::a9fe:a9fe/128",
        ),
        (
            "worker: {allowEgress: ['::ffff:169.254.169.254/128']}",
            "worker.allowEgress: leave out ::ffff:169.254.169.254/128",
        ),
        (
            "networkPolicy: {postgresql: {to: [{ipBlock: {cidr: 'fd00:ec2::/64'}}]}}",
            "networkPolicy.postgresql.to: leave out fd00:ec2::/64",
        ),
        (
            "networkPolicy: {redis: {to: [{ipBlock: {cidr: '2002:6464:64c8::1/128'}}]}}",
            "networkPolicy.redis.to: leave out 2002:6464:64c8::1/128",
        ),
        (
            "networkPolicy: {apiServer: {to: [{podSelector: {}}, {ipBlock: {cidr: 169.254.169.254/32}}]}}",
            "networkPolicy.apiServer.to: leave out 169.254.169.254/32",
        ),
        ("api: {trustedProxies: [0.0.0.0/0]}", "api.trustedProxies: leave out 0.0.0.0/0"),
        ("api: {trustedProxies: [10.0.0.0/8, 128.0.0.0/1]}", "api.trustedProxies: leave out 128.0.0.0/1"),
        ("api: {trustedProxies: ['fc00::/7', '::/0']}", "api.trustedProxies: leave out ::/0"),
        (
            "api: {service: {type: LoadBalancer}}",
            "api.service.externalTrafficPolicy: set it to Local, so that connections keep the clients' addresses; with type LoadBalancer",
        ),
        (
            "api: {service: {type: NodePort, externalTrafficPolicy: Cluster}}",
            "api.service.externalTrafficPolicy: set it to Local",
        ),
        (
            "api: {service: {externalTrafficPolicy: Local}}",
            "api.service.externalTrafficPolicy: needs api.service.type LoadBalancer or NodePort",
        ),
        ("portal: {declareWebhooks: true}", "portal.declareWebhooks: needs portal.enabled"),
        ("httpRoute: {enabled: true}", "httpRoute.parentRefs: set the Gateway"),
        (
            "ingress: {enabled: true}",
            "api.trustedProxies: set the networks of the proxies that ingress.enabled uses",
        ),
        (
            "httpRoute: {enabled: true, parentRefs: [{name: public}]}",
            "api.trustedProxies: set the networks of the proxies that httpRoute.enabled uses",
        ),
        (
            "ingress: {enabled: true}\nhttpRoute: {enabled: true, parentRefs: [{name: public}]}",
            "api.trustedProxies: set the networks of the proxies that ingress.enabled and httpRoute.enabled use",
        ),
        (
            "api: {trustNoProxies: true, trustedProxies: [10.244.0.0/16]}",
            "api.trustNoProxies: set it to false, or leave api.trustedProxies empty",
        ),
        ("ingress: {tls: {legacySecretName: tls}}", "ingress.tls.legacySecretName: legacyHost is not set"),
        (
            "api: {autoscaling: {enabled: true, minReplicas: 5, maxReplicas: 4}}",
            "api.autoscaling.minReplicas: must not exceed api.autoscaling.maxReplicas, which is 4",
        ),
        (
            "worker: {serviceAccount: {create: false}}",
            "worker.serviceAccount.name: set the name of an existing ServiceAccount",
        ),
        (
            "api: {serviceAccount: {name: a}}\nworker: {serviceAccount: {name: a}}",
            "worker.serviceAccount.name: a is already created for api",
        ),
        (
            "limits: {defaults: {webhooks: 60}, maxima: {webhooks: 50}}",
            "limits.defaults.webhooks: must not exceed limits.maxima.webhooks, which is 50",
        ),
        ("api: {shutdownDelay: 60s}", "api.terminationGracePeriodSeconds: must be at least 85"),
        ("api: {shutdownDelay: 1m}", "api.terminationGracePeriodSeconds: must be at least 85"),
        ("commonLabels: {app.kubernetes.io/name: x}", "commonLabels: leave out app.kubernetes.io/name"),
        ("api: {podLabels: {helm.sh/chart: x}}", "api.podLabels: leave out helm.sh/chart"),
    ] {
        let message = refusal(&format!("{MINIMAL}\n{more}"));
        assert!(message.contains(expected), "{more}: {expected} is not in {message}");
    }
    let twice = MINIMAL.replace("}}]", "}}, {name: main, secretRef: {name: b, key: url}}]");
    assert!(refusal(&twice).contains("databaseServers: the name main is used twice"));
}

#[test]
fn proxies_are_named_behind_an_ingress_unless_it_is_meant_that_they_are_not() {
    for more in [
        "ingress: {enabled: true}\napi: {trustedProxies: [10.244.0.0/16]}",
        "ingress: {enabled: true}\napi: {trustNoProxies: true}",
        "httpRoute: {enabled: true, parentRefs: [{name: public}]}\napi: {trustNoProxies: true}",
        "api: {trustNoProxies: true}",
        "api: {service: {type: LoadBalancer, externalTrafficPolicy: Local}}",
        "api: {service: {type: LoadBalancer}, trustedProxies: [10.1.0.0/24, 'fc00::/7'], proxyProtocol: true}",
        "api: {service: {type: NodePort}, trustNoProxies: true}",
        "",
    ] {
        try_render(&format!("{MINIMAL}\n{more}")).unwrap_or_else(|error| panic!("{more}: {error}"));
    }
    let message = refusal(&format!("{MINIMAL}\ningress: {{enabled: true}}"));
    for expected in
        ["such as that of the ingress controller's pods, [10.244.0.0/16]", "set api.trustNoProxies to true"]
    {
        assert!(message.contains(expected), "{expected} is not in {message}");
    }
}

/// Values that the schema refuses, each with the path of the setting that Helm must name.
const WRONG: &[(&str, &str)] = &[
    ("baseDomain: https://api.example.com", "/baseDomain"),
    ("baseDomain: '*.example.com'", "/baseDomain"),
    ("baseDomain: api.example.com:443", "/baseDomain"),
    ("baseDomain: API.example.com", "/baseDomain"),
    ("legacyHost: a/b", "/legacyHost"),
    ("databaseServers: [{name: main}]", "/databaseServers/0"),
    ("databaseServers: [{name: Main, secretRef: {name: a, key: b}}]", "/databaseServers/0/name"),
    ("databaseServers: [{name: main, secretRef: {name: a}}]", "/databaseServers/0/secretRef"),
    ("databaseServers: [{name: main, secretRef: {name: '', key: b}}]", "/databaseServers/0/secretRef/name"),
    ("databaseServers: [{name: main, secretRef: {name: a, key: b/c}}]", "/databaseServers/0/secretRef/key"),
    ("databaseServers: [{name: main, url: 'postgres://u:p@h/d'}]", "/databaseServers/0"),
    ("databaseServers: {main: {}}", "/databaseServers"),
    ("redis: {url: 'redis://:p@h'}", "/redis"),
    ("redis: {secretRef: {name: A_b}}", "/redis/secretRef/name"),
    ("redis: {secretRef: {name: a, key: ''}}", "/redis/secretRef/key"),
    ("externalDatabases: {allow: ['http://db.example.com']}", "/externalDatabases/allow/0"),
    ("externalDatabases: {allow: ['*']}", "/externalDatabases/allow/0"),
    ("disabledEvents: [order.deleted]", "/disabledEvents/0"),
    ("limits: {defaults: {webhook: 1}}", "/limits/defaults"),
    ("limits: {maxima: {webhooks: 10001}}", "/limits/maxima/webhooks"),
    ("watch: {namespaces: tenants}", "/watch/namespaces"),
    ("watch: {namespaces: [a, a]}", "/watch/namespaces"),
    ("watch: {namespaces: [a/b]}", "/watch/namespaces/0"),
    ("image: {digest: sha256:12}", "/image/digest"),
    ("image: {repository: ''}", "/image/repository"),
    ("image: {pullPolicy: ifNotPresent}", "/image/pullPolicy"),
    ("image: {pullSecrets: [registry]}", "/image/pullSecrets/0"),
    ("log: {format: xml}", "/log/format"),
    ("listenAddress: localhost", "/listenAddress"),
    ("api: {replicas: -1}", "/api/replicas"),
    ("api: {replicas: '2'}", "/api/replicas"),
    ("api: {shutdownDelay: 5}", "/api/shutdownDelay"),
    ("api: {databaseConnections: 0}", "/api/databaseConnections"),
    ("api: {podDisruptionBudget: {maxUnavailable: 120%}}", "/api/podDisruptionBudget/maxUnavailable"),
    ("api: {livenessProbe: {httpGet: {path: /}}}", "/api/livenessProbe"),
    ("api: {trustedProxies: [10.0.0.1]}", "/api/trustedProxies/0"),
    ("api: {trustNoProxies: 'yes'}", "/api/trustNoProxies"),
    ("api: {forwardedHeader: 'a b'}", "/api/forwardedHeader"),
    ("api: {service: {type: ExternalName}}", "/api/service/type"),
    ("api: {service: {externalTrafficPolicy: local}}", "/api/service/externalTrafficPolicy"),
    ("api: {extraArgs: ['base-domain']}", "/api/extraArgs/0"),
    ("worker: {allowEgress: [10.0.0.1]}", "/worker/allowEgress/0"),
    ("worker: {allowEgress: [300.1.1.1/8]}", "/worker/allowEgress/0"),
    ("worker: {deliveryRetention: 40000d}", "/worker/deliveryRetention"),
    ("worker: {auditRetention: 0d}", "/worker/auditRetention"),
    ("worker: {deliveryRetention: 0d}", "/worker/deliveryRetention"),
    ("worker: {webhookGrace: 1m}", "/worker/webhookGrace"),
    ("worker: {webhookGrace: 3600}", "/worker/webhookGrace"),
    ("worker: {sweepInterval: 1d}", "/worker/sweepInterval"),
    ("detector: {autoscaling: {enabled: true}}", "/detector"),
    ("detector: {invoiceMaxAge: 0d}", "/detector/invoiceMaxAge"),
    ("detector: {invoiceScanInterval: fast}", "/detector/invoiceScanInterval"),
    ("operator: {concurrency: 0}", "/operator/concurrency"),
    ("operator: {concurrency: 257}", "/operator/concurrency"),
    ("privateCA: {configMap: a b}", "/privateCA/configMap"),
    ("redis: {release: a b}", "/redis/release"),
    ("networkPolicy: {clusterCIDRs: [10.0.0.0]}", "/networkPolicy/clusterCIDRs/0"),
    ("networkPolicy: {redis: {to: [{cidr: 10.0.0.0/8}]}}", "/networkPolicy/redis/to/0"),
    ("networkPolicy: {redis: {to: [{ipBlock: {cidr: 10.0.0.1}}]}}", "/networkPolicy/redis/to/0/ipBlock/cidr"),
    ("networkPolicy: {redis: {ports: [redis]}}", "/networkPolicy/redis/ports/0"),
    ("serviceMonitor: {enable: true}", "/serviceMonitor"),
    ("extraObjects: [1]", "/extraObjects/0"),
    ("quickstart: {redis: {runAsUser: 0}}", "/quickstart/redis/runAsUser"),
    ("commonLabels: {a: 1}", "/commonLabels/a"),
    ("runtimeNamespace: A", "/runtimeNamespace"),
    ("replicaCount: 3", "replicaCount"),
];

#[test]
fn wrong_values_are_named() {
    for (wrong, path) in WRONG {
        // A key may not be given twice, so the wrong one replaces that of the least values.
        let key = wrong.split(':').next().expect("a key");
        let rest: Vec<&str> = MINIMAL.lines().filter(|line| !line.starts_with(&format!("{key}:"))).collect();
        let message = refusal(&format!("{}\n{wrong}", rest.join("\n")));
        let named = message.contains(&format!("'{path}'")) || message.contains(&format!("{path} "));
        assert!(named, "{wrong}: {path} is not in {message}");
    }
}

#[test]
fn no_value_has_a_default_secret() {
    let values = super::helm::file("values.yaml").to_lowercase();
    for line in values.lines().filter(|line| !line.trim_start().starts_with('#')) {
        for word in ["password:", "token:", "url: r", "url: p"] {
            assert!(!line.contains(word), "{line}");
        }
    }
}
