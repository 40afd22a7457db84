//! Which pods may connect to which.

use std::collections::BTreeSet;

use docket_program::metadata_service::{METADATA_SERVICES, is_of_metadata_services};
use ipnet::IpNet;
use regex::Regex;
use serde_json::{Value, json};

use super::helm::{MINIMAL, Objects, file, render, render_with, repository, text, texts, try_render};

fn policy<'a>(objects: &'a Objects, component: &str) -> &'a Value {
    &objects.one("NetworkPolicy", &format!("docket-{component}"))["spec"]
}

/// The rule of egress that leads to the Internet.
fn webhooks(policy: &Value) -> Option<&Value> {
    let rules = policy["egress"].as_array().expect("a list");
    rules.iter().find(|rule| rule["ports"][0]["endPort"] == 65535)
}

#[test]
fn each_component_has_its_own_policy() {
    let objects = render_with("");
    assert_eq!(
        objects.names("NetworkPolicy"),
        ["docket-api", "docket-detector", "docket-operator", "docket-worker"]
    );
    for component in ["api", "detector", "operator", "worker"] {
        let policy = policy(&objects, component);
        assert_eq!(policy["podSelector"]["matchLabels"]["app.kubernetes.io/component"], component);
        assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
        assert_eq!(webhooks(policy).is_some(), component == "worker");
    }
    assert!(render_with("networkPolicy: {enabled: false}").all("NetworkPolicy").is_empty());
}

#[test]
fn workers_reach_receivers_on_the_internet_and_no_cluster_node_or_metadata_address() {
    let objects = render(&file("ci/full-values.yaml"));
    let rule = webhooks(policy(&objects, "worker")).expect("there is one");
    let refused = texts(&rule["to"][0]["ipBlock"]["except"]);
    for network in [
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "169.254.0.0/16",
        "127.0.0.0/8",
        "203.0.112.0/22",
    ] {
        assert!(refused.contains(&network), "{network}");
    }
    // Only addresses given out to the Internet: neither fc00::/7 nor fe80::/10.
    assert_eq!(rule["to"][1]["ipBlock"]["cidr"], "2000::/3");
    assert!(texts(&rule["to"][1]["ipBlock"]["except"]).contains(&"2001:db9::/48"));
    // Behind NAT64 the same IPv4 addresses.
    assert_eq!(rule["to"][2]["ipBlock"]["cidr"], "64:ff9b::/96");
    let translated = texts(&rule["to"][2]["ipBlock"]["except"]);
    assert_eq!(translated.len(), refused.len());
    for network in ["64:ff9b::a00:0/104", "64:ff9b::a83f:8110/128", "64:ff9b::cb00:7000/118"] {
        assert!(translated.contains(&network), "{network} in {translated:?}");
    }
    assert_eq!(rule["to"][3]["ipBlock"]["cidr"], "10.20.0.0/16");
    assert_eq!(rule["to"][4]["ipBlock"]["cidr"], "fd00:20::/32");
    assert_eq!(rule["to"].as_array().map(Vec::len), Some(5));
    assert_eq!(rule["ports"], json!([{"protocol": "TCP", "port": 1, "endPort": 65535}]));
}

#[test]
fn an_api_that_delivers_reaches_what_workers_reach() {
    let mail = "portal: {enabled: true}\nmail: {from: a@b.example, secretRef: {name: docket-smtp}}\nworker: {allowEgress: [10.1.0.0/16]}";
    let objects = render_with(&format!("{mail}\napi: {{deliver: true}}"));
    assert_eq!(policy(&objects, "api")["egress"], policy(&objects, "worker")["egress"]);
    for component in ["detector", "operator"] {
        assert!(webhooks(policy(&objects, component)).is_none(), "{component}");
    }
    assert!(webhooks(policy(&render_with(mail), "api")).is_none());
}

#[test]
fn only_workers_reach_the_smtp_server_and_only_if_there_is_one() {
    let smtp = json!([{"protocol": "TCP", "port": 2525}]);
    let reaches = |objects: &Objects, component: &str| {
        let rules = policy(objects, component)["egress"].as_array().expect("a list");
        rules.iter().any(|rule| rule["ports"] == smtp)
    };
    let full = render(&file("ci/full-values.yaml"));
    for component in ["api", "detector", "operator", "worker"] {
        assert_eq!(reaches(&full, component), component == "worker", "{component}");
    }
    assert!(!reaches(&render_with("networkPolicy: {smtp: {ports: [2525]}}"), "worker"));
}

/// The metadata services inside a network, of the table that the programs use, and the networks of NAT64 and 6to4 that lead to them. In
/// `64:ff9b:1::/48` they are those of the prefixes with zeros after `64:ff9b:1`, one of each length.
fn metadata_services_in(network: &str) -> BTreeSet<IpNet> {
    let network: IpNet = network.parse().expect(network);
    let forms = |service: IpNet| match service {
        IpNet::V4(v4) => {
            let [a, b, c, d] = v4.addr().octets();
            let inside = format!("{a:x}{b:02x}:{c:x}{d:02x}");
            let translated = [
                format!("64:ff9b::{inside}/128"),
                format!("2002:{inside}::/48"),
                format!("64:ff9b:1:{a:x}{b:02x}:{c:x}:{d:x}00::/88"),
                format!("64:ff9b:1:{a:x}:{b:x}:{c:x}{d:02x}::/96"),
                format!("64:ff9b:1:0:{a:x}:{b:x}{c:02x}:{d:x}00:0/104"),
                format!("64:ff9b:1::{inside}/128"),
            ];
            translated.iter().map(|text| text.parse().expect(text)).chain([service]).collect()
        }
        IpNet::V6(_) => vec![service],
    };
    let all = METADATA_SERVICES.into_iter().flat_map(forms);
    all.filter(|service| network.contains(service) && network != *service).collect()
}

fn excepted(block: &Value) -> BTreeSet<IpNet> {
    block.get("except").map_or(Vec::new(), texts).iter().map(|text| text.parse().expect(text)).collect()
}

#[test]
fn metadata_services_stay_closed_in_networks_that_are_opened() {
    let opened = [
        "169.254.0.0/16",
        "10.0.0.0/8",
        "100.100.0.0/16",
        "0.0.0.0/0",
        "169.254.170.2/31",
        "169.254.1.1/32",
        "::/0",
        "fd00::/8",
        "fd00::/15",
        "fd00:ec0::/30",
        "FE80::/10",
        "fd00:100:0:0:0:0:0.0.0.0/96",
        "2002:a9fe::/32",
        "64:ff9b::a9fe:0/112",
        "64:ff9b:1::/48",
        "64:ff9b:1::/96",
    ];
    let objects = render_with(&format!("worker: {{allowEgress: {}}}", json!(opened)));
    let rule = webhooks(policy(&objects, "worker")).expect("there is one");
    let mut counts = Vec::new();
    for (at, network) in opened.iter().enumerate() {
        let block = &rule["to"][3 + at]["ipBlock"];
        assert_eq!(block["cidr"], *network);
        assert_eq!(excepted(block), metadata_services_in(network), "{network}");
        counts.push(excepted(block).len());
    }
    assert_eq!(counts, [6, 0, 1, 11, 1, 0, 73, 6, 5, 1, 1, 1, 6, 6, 44, 11]);
}

#[test]
fn no_values_open_a_metadata_service_that_the_programs_refuse() {
    for service in METADATA_SERVICES.into_iter().chain(
        [
            "64:ff9b:1:a9:fe:a9fe::/128",
            "64:ff9b:1:7:3::a9fe:a9fe/128",
            "::169.254.169.254/128",
            "::ffff:0:169.254.169.254/128",
            "2001:0:a9fe:a9fe::1/128",
            "2001:0:808:808::5601:5601/128",
            "2001:4860::5efe:169.254.169.254/128",
            "FE80::200:5EFE:a83f:8110/128",
        ]
        .map(|text| text.parse().expect(text)),
    ) {
        assert!(is_of_metadata_services(service), "{service}");
        let refused = try_render(&format!("{MINIMAL}\nworker: {{allowEgress: ['{service}']}}"));
        assert!(refused.is_err_and(|message| message.contains("worker.allowEgress: leave out")), "{service}");
    }
    // These addresses contain other addresses, or none.
    for other in ["64:ff9b:1::808:808/128", "::ffff:10.0.0.1/128", "::1/128", "2001:db8:a9fe:a9fe::/64"] {
        let taken = try_render(&format!("{MINIMAL}\nworker: {{allowEgress: ['{other}']}}"));
        taken.unwrap_or_else(|error| panic!("{other}: {error}"));
    }
}

#[test]
fn metadata_services_stay_closed_in_the_networks_of_the_stores() {
    let own = "networkPolicy: {redis: {to: [{ipBlock: {cidr: fd00::/8, except: ['fd00:1::/32']}}]}}";
    for (objects, networks) in [(render_with(""), 15), (render_with(own), 11)] {
        for component in ["api", "detector", "operator", "worker"] {
            let rules = policy(&objects, component)["egress"].as_array().expect("a list");
            let peers = rules[1..4].iter().flat_map(|rule| rule["to"].as_array().into_iter().flatten());
            let blocks: Vec<_> = peers.filter_map(|peer| peer.get("ipBlock")).collect();
            assert_eq!(blocks.len(), networks, "{component}");
            for block in blocks {
                let inside = metadata_services_in(text(&block["cidr"]));
                assert!(excepted(block).is_superset(&inside), "{block}");
            }
        }
    }
    let objects = render_with(own);
    let redis = &policy(&objects, "api")["egress"][2]["to"][0]["ipBlock"];
    assert!(excepted(redis).contains(&"fd00:1::/32".parse().expect("a network")), "its own stays");
}

/// The networks that the worker refuses by itself, from its source.
fn refused_by_the_worker() -> (BTreeSet<String>, BTreeSet<String>) {
    let source =
        std::fs::read_to_string(repository().join("dataplane/egress/src/address.rs")).expect("readable");
    let v4 = Regex::new(r"(?m)^    v4\((\d+), (\d+), (\d+), (\d+), (\d+)\),").expect("a pattern");
    let v6 = Regex::new(r"(?m)^    v6\(0x([0-9a-f]+), (?:0x)?([0-9a-f]+), (\d+)\),").expect("a pattern");
    let v4 = v4
        .captures_iter(&source)
        .map(|part| format!("{}.{}.{}.{}/{}", &part[1], &part[2], &part[3], &part[4], &part[5]));
    let v6 = v6.captures_iter(&source).map(|part| match part[2].trim_start_matches('0') {
        "" => format!("{}::/{}", &part[1], &part[3]),
        second => format!("{}:{second}::/{}", &part[1], &part[3]),
    });
    (v4.collect(), v6.collect())
}

#[test]
fn the_policy_refuses_what_the_worker_refuses() {
    let objects = render_with("");
    let rule = webhooks(policy(&objects, "worker")).expect("there is one");
    let except = |at: usize| -> BTreeSet<String> {
        texts(&rule["to"][at]["ipBlock"]["except"]).into_iter().map(str::to_owned).collect()
    };
    let (v4, v6) = refused_by_the_worker();
    assert!(v4.len() > 10 && v6.len() > 2);
    assert_eq!((except(0), except(1)), (v4, v6));
}

#[test]
fn other_egress_goes_where_the_values_say() {
    let objects = render(&file("ci/full-values.yaml"));
    for component in ["api", "detector", "operator", "worker"] {
        let rules = policy(&objects, component)["egress"].as_array().expect("a list");
        let to = |at: usize| rules[at]["to"].clone();
        for (at, namespace) in ["kube-system", "openshift-dns"].into_iter().enumerate() {
            let labels = &to(0)[at]["namespaceSelector"]["matchLabels"];
            assert_eq!(labels["kubernetes.io/metadata.name"], namespace);
        }
        let dns = [53, 5353].into_iter().flat_map(|port| ["TCP", "UDP"].map(|protocol| (port, protocol)));
        let dns: Vec<Value> =
            dns.map(|(port, protocol)| json!({"protocol": protocol, "port": port})).collect();
        assert_eq!(rules[0]["ports"], json!(dns));
        assert_eq!(to(1), json!([{"ipBlock": {"cidr": "10.1.2.0/24"}}]));
        assert_eq!(
            rules[1]["ports"],
            json!([{"protocol": "TCP", "port": 5432}, {"protocol": "TCP", "port": 6432}])
        );
        assert_eq!(to(2), json!([{"ipBlock": {"cidr": "10.1.3.0/24"}}]));
        assert_eq!(to(3), json!([{"ipBlock": {"cidr": "10.0.0.1/32"}}]));
        assert_eq!(rules[3]["ports"], json!([{"protocol": "TCP", "port": 6443}]));
        assert_eq!(rules.len(), if component == "worker" { 7 } else { 4 }, "{component}");
    }
    let of_worker = &policy(&objects, "worker")["egress"];
    assert_eq!(of_worker[4]["ports"], json!([{"protocol": "TCP", "port": 2525}]), "to the SMTP server");
    assert_eq!(of_worker[6]["ports"][0]["port"], 3128);
}

#[test]
fn by_default_stores_are_pods_or_in_private_networks_and_only_at_their_ports() {
    let objects = render_with("");
    for component in ["api", "detector", "operator", "worker"] {
        let rules = policy(&objects, component)["egress"].as_array().expect("a list");
        let ports = |rule: &Value| -> Vec<i64> {
            let ports = rule["ports"].as_array().into_iter().flatten();
            ports.filter_map(|port| port["port"].as_i64()).collect()
        };
        let open: Vec<_> = rules[1..4].iter().map(ports).collect();
        assert_eq!(open, [vec![5432], vec![6379, 26379], vec![443, 6443]], "{component}");
        for rule in &rules[1..4] {
            let peers = rule["to"].as_array().expect("a list").iter();
            let networks: Vec<&str> = peers.filter_map(|peer| peer["ipBlock"]["cidr"].as_str()).collect();
            let private = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"];
            assert_eq!(networks, private, "{component}: neither metadata nor the Internet");
        }
    }
}

#[test]
fn no_rule_of_egress_is_for_every_address() {
    let quickstart = "baseDomain: api.example.com\nquickstart: {enabled: true}";
    for objects in [render_with(""), render(&file("ci/full-values.yaml")), render(quickstart)] {
        for policy in objects.all("NetworkPolicy") {
            for rule in policy["spec"]["egress"].as_array().into_iter().flatten() {
                let to = rule["to"].as_array();
                assert!(to.is_some_and(|to| !to.is_empty()), "{}: {rule}", policy["metadata"]["name"]);
            }
        }
    }
    for values in [
        "postgresql: {to: []}",
        "redis: {to: []}",
        "apiServer: {to: []}",
        "dns: {to: []}",
        "extraEgress: {api: [{ports: [{port: 443}]}]}",
    ] {
        let refused = try_render(&format!("{MINIMAL}\nnetworkPolicy: {{{values}}}"));
        let message = refused.err().unwrap_or_else(|| panic!("taken: {values}"));
        assert!(message.contains("/networkPolicy/"), "{values}: {message}");
    }
}

#[test]
fn networks_of_the_cluster_that_are_not_of_the_internet_need_no_exception() {
    let objects =
        render_with("networkPolicy: {clusterCIDRs: ['fd00:10::/48', '64:ff9b::/96', '2a00:1::/32']}");
    let rule = webhooks(policy(&objects, "worker")).expect("there is one");
    let except = texts(&rule["to"][1]["ipBlock"]["except"]);
    assert!(except.contains(&"2a00:1::/32") && except.iter().all(|network| network.starts_with(['2', '3'])));
}

#[test]
fn only_the_api_is_called_and_metrics_are_read_by_whom_the_values_say() {
    let objects = render(&file("ci/full-values.yaml"));
    for component in ["api", "detector", "operator", "worker"] {
        let rules = policy(&objects, component)["ingress"].as_array().expect("a list");
        let ports: Vec<&str> = rules.iter().map(|rule| text(&rule["ports"][0]["port"])).collect();
        let management = rules.last().expect("there is one");
        if component == "api" {
            assert_eq!(ports, ["http", "management"]);
            let namespace =
                &rules[0]["from"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"];
            assert_eq!(namespace, "ingress-nginx");
        } else {
            assert_eq!(ports, ["management"]);
        }
        assert_eq!(
            management["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"],
            "test"
        );
        let monitoring = &management["from"][1]["namespaceSelector"]["matchLabels"];
        assert_eq!(monitoring["kubernetes.io/metadata.name"], "monitoring");
    }
    // By default Prometheus is in the namespace `monitoring`.
    let management = policy(&render_with(""), "worker")["ingress"][0]["from"].clone();
    let monitoring =
        json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}});
    assert_eq!(management.as_array().map(Vec::len), Some(2));
    assert_eq!(management[1], monitoring);
    // By default anyone may call the API.
    assert!(policy(&render_with(""), "api")["ingress"][0].get("from").is_none());
}
