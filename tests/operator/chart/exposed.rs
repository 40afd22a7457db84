//! Service, Ingress and HTTPRoute.

use serde_json::{Value, json};

use super::helm::{Objects, documents, file, render, render_with, repository, text, texts};

fn hosts(ingress: &Value) -> Vec<&str> {
    ingress["spec"]["rules"].as_array().expect("a list").iter().map(|rule| text(&rule["host"])).collect()
}

#[test]
fn services_lead_to_named_ports() {
    let objects = render_with(
        "api: {service: {type: NodePort, port: 8000, nodePort: 30080, externalTrafficPolicy: Local, annotations: {a: b}}}",
    );
    let service = objects.one("Service", "docket-api");
    assert_eq!(service["spec"]["type"], "NodePort");
    assert_eq!(service["spec"]["externalTrafficPolicy"], "Local");
    assert_eq!(
        service["spec"]["ports"],
        json!([{"name": "http", "port": 8000, "targetPort": "http", "nodePort": 30080}])
    );
    assert_eq!(service["metadata"]["annotations"]["a"], "b");
    let pods = &objects.one("Deployment", "docket-api")["spec"]["selector"]["matchLabels"];
    assert_eq!(service["spec"]["selector"], *pods, "the API's pods, and no others");
    let full = render(&file("ci/full-values.yaml"));
    let spec = &full.one("Service", "docket-api")["spec"];
    assert_eq!(spec["loadBalancerClass"], "example.com/balancer");
    assert_eq!(spec["loadBalancerSourceRanges"], json!(["198.51.100.0/24"]));
    assert_eq!(
        (spec["ipFamilies"].clone(), text(&spec["ipFamilyPolicy"])),
        (json!(["IPv4"]), "PreferDualStack")
    );
    for component in ["api", "detector", "operator", "worker"] {
        let service = objects.one("Service", &format!("docket-{component}-management"));
        assert_eq!(service["spec"]["clusterIP"], "None");
        assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
        assert_eq!(service["spec"]["selector"]["app.kubernetes.io/component"], component);
        let ports = json!([{"name": "management", "port": 9090, "targetPort": "management"}]);
        assert_eq!(service["spec"]["ports"], ports);
    }
}

#[test]
fn an_ingress_has_the_base_host_its_subdomains_and_the_legacy_host() {
    assert!(render_with("").all("Ingress").is_empty());
    let objects = render(&file("ci/full-values.yaml"));
    let ingress = objects.one("Ingress", "docket-api");
    assert_eq!(hosts(ingress), ["api.example.com", "*.api.example.com", "legacy.example.com"]);
    assert_eq!(ingress["spec"]["ingressClassName"], "nginx");
    assert_eq!(
        ingress["spec"]["tls"],
        json!([
            {"secretName": "api-tls", "hosts": ["api.example.com", "*.api.example.com"]},
            {"secretName": "legacy-tls", "hosts": ["legacy.example.com"]},
        ])
    );
    let backend = &ingress["spec"]["rules"][1]["http"]["paths"][0]["backend"]["service"];
    assert_eq!(*backend, json!({"name": "docket-api", "port": {"name": "http"}}));
    for rule in ingress["spec"]["rules"].as_array().expect("a list") {
        let path = &rule["http"]["paths"][0];
        assert_eq!((text(&path["path"]), text(&path["pathType"])), ("/", "Prefix"), "every path of the host");
    }
    let objects = render_with("ingress: {enabled: true, subdomains: false}\napi: {trustNoProxies: true}");
    let ingress = objects.one("Ingress", "docket-api");
    assert_eq!(hosts(ingress), ["api.example.com"]);
    assert!(ingress["spec"].get("tls").is_none() && ingress["spec"].get("ingressClassName").is_none());
}

#[test]
fn a_route_has_the_same_hosts() {
    assert!(render_with("").all("HTTPRoute").is_empty());
    let objects = render(&file("ci/full-values.yaml"));
    let route = &objects.one("HTTPRoute", "docket-api")["spec"];
    assert_eq!(texts(&route["hostnames"]), ["api.example.com", "*.api.example.com", "legacy.example.com"]);
    assert_eq!(
        route["parentRefs"],
        json!([{"name": "public", "namespace": "gateways", "sectionName": "https"}])
    );
    assert_eq!(route["rules"][0]["backendRefs"], json!([{"name": "docket-api", "port": 80}]));
    assert_eq!(route["rules"][0]["matches"], json!([{"path": {"type": "PathPrefix", "value": "/"}}]));
    assert_eq!(route["rules"][0]["timeouts"], json!({"request": "60s"}));
    let objects = render_with(
        "httpRoute: {enabled: true, subdomains: false, parentRefs: [{name: public}]}\napi: {trustNoProxies: true}",
    );
    assert_eq!(texts(&objects.one("HTTPRoute", "docket-api")["spec"]["hostnames"]), ["api.example.com"]);
}

/// The YAML of a section of a page, in the order of the page.
fn yaml_of(page: &str, section: &str) -> Vec<String> {
    let page = std::fs::read_to_string(repository().join(page)).expect("the page");
    let (_, rest) = page.split_once(&format!("## {section}\n")).expect("the section");
    let section = rest.split_once("\n## ").map_or(rest, |(section, _)| section);
    let blocks = section.split("```yaml\n").skip(1);
    blocks.map(|block| block.split_once("```").expect("its end").0.to_owned()).collect()
}

/// cert-manager matches an Ingress by the hosts of its `tls`, a Gateway by the hosts of its listeners.
#[test]
fn the_documented_certificates_are_for_the_hosts_of_the_chart() {
    let section = yaml_of("docs/kubernetes/install.md", "Get the certificate from cert-manager");
    let [certificate, ingress, gateway, route] = &section[..] else { panic!("four parts: {section:?}") };
    let objects = Objects(documents(certificate));
    let issuer = objects.one("Issuer", "letsencrypt");
    let solver = &issuer["spec"]["acme"]["solvers"][0];
    assert!(solver["dns01"].is_object(), "a wildcard needs DNS-01: {solver}");
    let certificate = objects.one("Certificate", "api-tls");
    assert_eq!(certificate["spec"]["issuerRef"], json!({"name": "letsencrypt", "kind": "Issuer"}));
    assert_eq!(certificate["metadata"]["namespace"], issuer["metadata"]["namespace"]);
    let names = texts(&certificate["spec"]["dnsNames"]);

    let proxies = "\napi: {trustNoProxies: true}\n";
    let rendered = render_with(&format!("{ingress}{proxies}"));
    let ingress = rendered.one("Ingress", "docket-api");
    let tls = &ingress["spec"]["tls"][0];
    assert_eq!((texts(&tls["hosts"]), hosts(ingress)), (names.clone(), names.clone()));
    assert_eq!(tls["secretName"], certificate["spec"]["secretName"]);
    assert_eq!(ingress["metadata"]["annotations"]["cert-manager.io/issuer"], issuer["metadata"]["name"]);

    let rendered = render_with(&format!("{route}{proxies}"));
    let route = &rendered.one("HTTPRoute", "docket-api")["spec"];
    let gateway = &documents(gateway)[0];
    let listeners = gateway["spec"]["listeners"].as_array().expect("a list");
    let listened: Vec<&str> = listeners.iter().map(|listener| text(&listener["hostname"])).collect();
    assert_eq!((listened, texts(&route["hostnames"])), (names.clone(), names));
    for field in ["name", "namespace"] {
        assert_eq!(route["parentRefs"][0][field], gateway["metadata"][field]);
    }
    for listener in listeners {
        assert_eq!(listener["tls"]["certificateRefs"][0]["name"], "api-tls");
        assert_eq!(
            listener["allowedRoutes"]["namespaces"]["from"], "All",
            "the route is in another namespace"
        );
    }
}
