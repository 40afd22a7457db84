//! Requests without credentials: each route that accepts them has a bound that the documentation names.

use docket_tests::server::{JSON, Reply, request};

use super::rig::Rig;

/// The files that declare routes.
const ROUTERS: [&str; 5] = [
    include_str!("../../../dataplane/src/api.rs"),
    include_str!("../../../dataplane/src/api/docs.rs"),
    include_str!("../../../dataplane/src/listeners.rs"),
    include_str!("../../../dataplane/src/platform.rs"),
    include_str!("../../../dataplane/src/portal.rs"),
];
/// The operator declares the routes of its management port, which every pod can reach too.
const OPERATOR: &str = include_str!("../../../operator/src/admin.rs");
const LIMITS: &str = include_str!("../../../docs/reference/limits.md");

/// The routes of a router. A route of the portal has its variables.
fn routes_of(router: &'static str) -> impl Iterator<Item = &'static str> {
    router.split(".route(").skip(1).map(|part| part.split('"').nth(1).expect("a path"))
}

fn routes() -> Vec<&'static str> {
    ROUTERS.into_iter().flat_map(routes_of).collect()
}

fn path(route: &str) -> String {
    let values = [
        ("{*path}", "index.html"),
        ("{*file}", "index.css"),
        ("{*other}", "nothing"),
        ("{id}", "01900000-0000-7000-8000-00000000dead"),
        ("{namespace}", "default"),
        ("{name}", "orders"),
        ("{action}", "remove"),
    ];
    values.iter().fold(route.to_owned(), |path, (name, value)| path.replace(name, value))
}

/// Whether the route wants credentials, or the origin of a form of the portal, before anything else.
fn is_refused(reply: &Reply) -> bool {
    let to = reply.headers.get("location").map_or("", String::as_str);
    [401, 403].contains(&reply.status) || reply.status == 303 && to.starts_with("/portal/sign-in")
}

#[tokio::test]
async fn each_route_without_credentials_is_listed_with_its_bound() {
    let (_, section) = LIMITS.split_once("\n## Requests without credentials\n").expect("its section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let is_listed = |route: &str| section.contains(&format!("`{route}`"));
    let of_operator: Vec<_> = routes_of(OPERATOR).collect();
    assert_eq!(of_operator, ["/healthz", "/readyz", "/metrics"], "the port of the operator has no others");
    assert!(of_operator.into_iter().all(is_listed));
    let rig = Rig::start().await;
    let (mut open, mut closed) = (0, 0);
    for route in routes() {
        if route.starts_with("/platform/") {
            assert!(is_listed("/platform/…"));
            continue;
        }
        let is_of_management = ["/healthz", "/readyz", "/metrics"].contains(&route);
        let server = if is_of_management { rig.server.management } else { rig.server.api };
        for method in ["GET", "POST"] {
            // At the host of a tenant no key is needed.
            let reply =
                request(server, method, &path(route), &[("host", "acme.localhost"), JSON], "{}").await;
            let reply = reply.expect("an answer");
            if reply.status == 405 {
                continue;
            }
            let refused = is_refused(&reply);
            (open, closed) = (open + usize::from(!refused), closed + usize::from(refused));
            assert!(refused || is_listed(route), "{method} {route} is not listed: {reply:?}");
        }
    }
    assert!(open >= 19 && closed >= 35, "{open} open, {closed} closed");
    for route in section.split('`').skip(1).step_by(2).filter(|code| code.starts_with('/')) {
        let is_declared = route == "/platform/…" || routes().contains(&route);
        assert!(is_declared, "{route} is listed and is no route");
    }
}
