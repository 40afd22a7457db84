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
            "worker: {databaseConnections: 3}",
            "worker.databaseConnectionsPerTenant: must not exceed worker.databaseConnections, which is 3",
        ),
        (
            "connectionLimit: 28",
            "connectionLimit: the pods may open 29 connections with one tenant's role, and it may have 28. The sum, with the pods that an upgrade adds: api 3 times 4, worker 3 times 4, detector 2 times 2, operator 1. Lower databaseConnectionsPerTenant",
        ),
        (
            "worker: {autoscaling: {enabled: true, maxReplicas: 500}}",
            "connectionLimit: the pods may open 2021 connections",
        ),
        (
            "api: {replicas: 10, strategy: {rollingUpdate: {maxSurge: 25%}}}",
            "api 13 times 4, worker 3 times 4",
        ),
        (
            "api: {replicas: 10, strategy: {type: Recreate, rollingUpdate: null}}",
            "api 10 times 4, worker 3 times 4",
        ),
        ("enabled: true", "enabled: leave it out; only the condition of a parent chart reads it"),
        ("enabled: false", "enabled: leave it out"),
        (
            "worker: {terminationGracePeriodSeconds: 44}",
            "worker.terminationGracePeriodSeconds: must be at least 45: 5s until the pod stops, 30s for the longest attempt",
        ),
        (
            "worker: {extraArgs: [--attempt-timeout=1m, --shutdown-delay=500ms]}",
            "worker.terminationGracePeriodSeconds: must be at least 71",
        ),
        (
            "api: {deliver: true, shutdownDelay: 10s}",
            "api.terminationGracePeriodSeconds: must be at least 50: 10s until the pod stops",
        ),
        (
            "operator: {leaderElection: {leaseDuration: 4s, leaseRenewal: 1s}}",
            "operator.leaderElection.leaseDuration: must be at least 5s",
        ),
        (
            "operator: {leaderElection: {leaseRenewal: 8s}}",
            "operator.leaderElection.leaseRenewal: must be less than half of operator.leaderElection.leaseDuration, which is 15s",
        ),
        (
            "operator: {leaderElection: {leaseDuration: 16s, leaseRenewal: 8s}}",
            "operator.leaderElection.leaseRenewal: must be less than half of operator.leaderElection.leaseDuration, which is 16s",
        ),
        (
            "namespaceOverride: docket-runtime",
            "runtimeNamespace: must not be docket-runtime, the namespace of the pods",
        ),
        (
            "quickstart: {enabled: true}\nnamespaceOverride: elsewhere",
            "namespaceOverride: leave it empty with quickstart.enabled",
        ),
        (
            "api: {service: {loadBalancerClass: example.com/balancer}}",
            "api.service.loadBalancerClass: needs api.service.type LoadBalancer",
        ),
        (
            "api: {service: {type: NodePort, loadBalancerSourceRanges: [198.51.100.0/24]}}",
            "api.service.loadBalancerSourceRanges: needs api.service.type LoadBalancer",
        ),
        (
            "api: {service: {ipFamilies: [IPv4, IPv6]}}",
            "api.service.ipFamilies: two families need api.service.ipFamilyPolicy",
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
            "networkPolicy: {smtp: {to: [{ipBlock: {cidr: 169.254.169.254/32}}]}}",
            "networkPolicy.smtp.to: leave out 169.254.169.254/32",
        ),
        (
            "networkPolicy: {apiServer: {to: [{podSelector: {}}, {ipBlock: {cidr: 169.254.169.254/32}}]}}",
            "networkPolicy.apiServer.to: leave out 169.254.169.254/32",
        ),
        ("api: {trustedProxies: [0.0.0.0/0]}", "api.trustedProxies: leave out 0.0.0.0/0"),
        ("api: {trustedProxies: [10.0.0.0/8, 128.0.0.0/1]}", "api.trustedProxies: leave out 128.0.0.0/1"),
        ("api: {trustedProxies: ['fc00::/7', '::/0']}", "api.trustedProxies: leave out ::/0"),
        ("api: {trustedProxies: [10.0.0.0/7]}", "api.trustedProxies: leave out 10.0.0.0/7"),
        ("api: {trustedProxies: ['fc00::/6']}", "api.trustedProxies: leave out fc00::/6"),
        ("detector: {podLabels: {app.kubernetes.io/component: x}}", "detector.podLabels: leave out"),
        ("api: {proxyProtocol: true}", "api.proxyProtocol: needs api.trustedProxies"),
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
            "worker: {autoscaling: {enabled: true, external: true}}",
            "worker.autoscaling.external: set it to false, or set worker.autoscaling.enabled to false",
        ),
        (
            "serviceMonitor: {enabled: true}\npodMonitor: {enabled: true}",
            "podMonitor.enabled: set it to false, or set serviceMonitor.enabled to false",
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
    let both = MINIMAL.replace("key: url}}]", "key: url}, host: db}]");
    assert!(refusal(&both).contains("databaseServers: the server main has a URL under secretRef.key"));
}

#[test]
fn connections_fit_by_default_with_autoscaling_and_where_a_server_takes_as_many() {
    let autoscaled = "api: {autoscaling: {enabled: true}}\nworker: {autoscaling: {enabled: true}}";
    for more in [
        "",
        autoscaled,
        "connectionLimit: 29",
        "api: {databaseConnectionsPerTenant: 10}\nconnectionLimit: 47",
    ] {
        try_render(&format!("{MINIMAL}\n{more}")).unwrap_or_else(|error| panic!("{more}: {error}"));
    }
    // 3 of api with 30, 3 of worker with 31, 2 of detector with 11, and 8.
    let server =
        |most: u32| MINIMAL.replace("key: url}}]", &format!("key: url}}, maxConnections: {most}}}]"));
    try_render(&server(213)).unwrap_or_else(|error| panic!("{error}"));
    let message = refusal(&server(212));
    for expected in [
        "databaseServers[0].maxConnections: the pods may open 213 connections to server main, and it takes 212.",
        "api 3 times 30, worker 3 times 31, detector 2 times 11, operator 8.",
        "to at least 213",
    ] {
        assert!(message.contains(expected), "{expected} is not in {message}");
    }
    // A pod of the API that delivers needs a connection for the watcher, too.
    let delivers = format!("{}\napi: {{deliver: true}}", server(215));
    assert!(refusal(&delivers).contains("may open 216 connections"));
    let both = refusal(&format!("{}\nconnectionLimit: 20", server(100)));
    assert!(both.contains("- connectionLimit:") && both.contains("- databaseServers[0].maxConnections:"));
}

#[test]
fn ports_of_servers_and_poolers_are_open_to_pods() {
    for (server, port) in [("port: 5433", 5433), ("pooler: {host: eu-pooler, port: 6432}", 6432)] {
        let values = MINIMAL.replace(", key: url}}]", &format!("}}, {server}}}]"));
        let message = refusal(&values);
        let expected = format!("networkPolicy.postgresql.ports: add {port}, the port of server main");
        assert!(message.contains(&expected), "{expected} is not in {message}");
        for policy in [format!("{{postgresql: {{ports: [5432, {port}]}}}}"), "{enabled: false}".to_owned()] {
            try_render(&format!("{values}\nnetworkPolicy: {policy}"))
                .unwrap_or_else(|error| panic!("{server}: {error}"));
        }
    }
}

#[test]
fn settings_that_just_fit_are_taken() {
    for more in [
        "worker: {databaseConnections: 4}",
        "api: {shutdownDelay: 20s}",
        "operator: {leaderElection: {leaseDuration: 5s, leaseRenewal: 2s}}",
        "api: {autoscaling: {enabled: true, minReplicas: 4, maxReplicas: 4}}",
        "limits: {defaults: {webhooks: 50}, maxima: {webhooks: 50}}",
        "api: {trustedProxies: [10.0.0.0/8, 'fc00::/7']}",
        "api: {service: {ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack}}",
    ] {
        try_render(&format!("{MINIMAL}\n{more}")).unwrap_or_else(|error| panic!("{more}: {error}"));
    }
}

#[test]
fn grace_of_workers_follows_the_longest_attempt() {
    for more in [
        "worker: {terminationGracePeriodSeconds: 45}",
        "worker: {terminationGracePeriodSeconds: 25, extraArgs: [--attempt-timeout=10s]}",
        "api: {deliver: true}",
    ] {
        try_render(&format!("{MINIMAL}\n{more}")).unwrap_or_else(|error| panic!("{more}: {error}"));
    }
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
    ("enabled: 'yes'", "/enabled"),
    ("global: {imageRegistry: 5}", "/global/imageRegistry"),
    ("global: {imagePullSecrets: [{secret: a}]}", "/global/imagePullSecrets/0"),
    ("namespaceOverride: A", "/namespaceOverride"),
    ("connectionLimit: 0", "/connectionLimit"),
    (
        "databaseServers: [{name: main, secretRef: {name: a, key: b}, maxConnections: 0}]",
        "/databaseServers/0/maxConnections",
    ),
    ("operator: {leaderElection: {leaseDuration: 15}}", "/operator/leaderElection/leaseDuration"),
    ("api: {deliver: 1}", "/api/deliver"),
    ("api: {dnsPolicy: none}", "/api/dnsPolicy"),
    ("worker: {dnsConfig: []}", "/worker/dnsConfig"),
    ("worker: {hostAliases: [{ip: 10.0.0.1}]}", "/worker/hostAliases/0"),
    ("worker: {runtimeClassName: A b}", "/worker/runtimeClassName"),
    ("detector: {schedulerName: A b}", "/detector/schedulerName"),
    ("detector: {initContainers: [{name: a}]}", "/detector/initContainers/0"),
    ("operator: {extraContainers: {name: a}}", "/operator/extraContainers"),
    ("api: {service: {ipFamilies: [IPv5]}}", "/api/service/ipFamilies/0"),
    ("api: {service: {loadBalancerSourceRanges: [10.0.0.1]}}", "/api/service/loadBalancerSourceRanges/0"),
    ("api: {service: {loadBalancerClass: 'a b'}}", "/api/service/loadBalancerClass"),
    ("baseDomain: https://api.example.com", "/baseDomain"),
    ("baseDomain: '*.example.com'", "/baseDomain"),
    ("baseDomain: api.example.com:443", "/baseDomain"),
    ("baseDomain: API.example.com", "/baseDomain"),
    ("legacyHost: a/b", "/legacyHost"),
    ("databaseServers: [{name: main}]", "/databaseServers/0"),
    ("databaseServers: [{name: Main, secretRef: {name: a, key: b}}]", "/databaseServers/0/name"),
    ("databaseServers: [{name: main, secretRef: {key: b}}]", "/databaseServers/0/secretRef"),
    ("databaseServers: [{name: main, secretRef: {name: a}, host: 'db;x'}]", "/databaseServers/0/host"),
    ("databaseServers: [{name: main, secretRef: {name: a}, port: 0}]", "/databaseServers/0/port"),
    ("databaseServers: [{name: main, secretRef: {name: a}, dbname: 'a;b'}]", "/databaseServers/0/dbname"),
    ("databaseServers: [{name: main, secretRef: {name: a}, sslMode: 'on'}]", "/databaseServers/0/sslMode"),
    (
        "databaseServers: [{name: main, secretRef: {name: a}, sslRootCert: ca.crt}]",
        "/databaseServers/0/sslRootCert",
    ),
    (
        "databaseServers: [{name: main, secretRef: {name: a}, certificateSecretRef: {}}]",
        "/databaseServers/0/certificateSecretRef",
    ),
    ("databaseServers: [{name: main, secretRef: {name: a}, pooler: {port: 1}}]", "/databaseServers/0/pooler"),
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
    ("migrations: {atOnce: 0}", "/migrations/atOnce"),
    ("migrations: {window: '22-04'}", "/migrations/window"),
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
        // A key may not be given twice, so the wrong value replaces the value in the smallest set of values.
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
