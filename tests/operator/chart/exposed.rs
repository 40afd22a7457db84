//! Service, Ingress and HTTPRoute.

use serde_json::{Value, json};

use super::helm::{file, render, render_with, text, texts};

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
    assert_eq!(route["rules"][0]["timeouts"], json!({"request": "60s"}));
    let objects = render_with(
        "httpRoute: {enabled: true, subdomains: false, parentRefs: [{name: public}]}\napi: {trustNoProxies: true}",
    );
    assert_eq!(texts(&objects.one("HTTPRoute", "docket-api")["spec"]["hostnames"]), ["api.example.com"]);
}
