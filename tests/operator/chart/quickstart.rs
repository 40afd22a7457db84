//! The values file for trying Docket out.

use serde_json::json;

use super::helm::{Objects, file, render, render_with, text};

fn decoded<'a>(objects: &'a Objects, secret: &str, key: &str) -> &'a str {
    text(&objects.one("Secret", secret)["stringData"][key])
}

#[test]
fn one_file_brings_everything() {
    let objects = render(&file("quickstart.yaml"));
    assert_eq!(objects.names("Secret"), ["docket-quickstart-postgresql", "docket-quickstart-redis"]);
    let operator = objects.arguments("docket-operator");
    assert!(operator.contains(&"--database-server=main=/etc/docket/database-servers/main/url"));
    let volumes = objects.pod("docket-operator")["volumes"].clone();
    assert_eq!(volumes[0]["secret"]["secretName"], "docket-quickstart-redis");
    assert_eq!(volumes[1]["secret"]["secretName"], "docket-quickstart-postgresql");
    let password = decoded(&objects, "docket-quickstart-postgresql", "password");
    assert_eq!(password.len(), 32);
    let own = decoded(&objects, "docket-quickstart-postgresql", "docket-password");
    assert!(own.len() == 32 && own != password);
    assert_eq!(
        decoded(&objects, "docket-quickstart-postgresql", "url"),
        format!(
            "postgres://docket:{own}@docket-quickstart-postgresql.docket-system:5432/docket?sslmode=disable"
        )
    );
    let sql = decoded(&objects, "docket-quickstart-postgresql", "docket.sql");
    let role = format!("CREATE ROLE docket LOGIN CREATEDB CREATEROLE PASSWORD '{own}';");
    assert_eq!(sql.lines().next(), Some(role.as_str()), "the operator is no superuser");
    assert!(!sql.contains("SUPERUSER") && sql.lines().all(|line| line.ends_with(';')), "{sql}");
    let postgresql = objects.pod("docket-quickstart-postgresql").to_string();
    assert!(postgresql.contains("/docker-entrypoint-initdb.d"), "{postgresql}");
    assert!(
        decoded(&objects, "docket-quickstart-redis", "redis.conf").contains("maxmemory-policy noeviction")
    );
    assert_ne!(password, decoded(&objects, "docket-quickstart-redis", "password"));
    for name in ["docket-quickstart-postgresql", "docket-quickstart-redis"] {
        let deployment = objects.one("Deployment", name);
        assert_eq!(
            deployment["metadata"]["annotations"]["docket.dev/purpose"],
            "for trying out, not for production"
        );
        assert_eq!(deployment["spec"]["strategy"]["type"], "Recreate");
        // No password is an argument or a variable.
        let container = &objects.container(name).to_string();
        assert!(!container.contains(decoded(&objects, name, "password")));
    }
}

#[test]
fn the_data_plane_may_not_read_the_admin_url() {
    let objects = render(&file("quickstart.yaml"));
    assert_eq!(objects.names("Namespace"), ["docket-system-runtime"]);
    assert_eq!(objects.one("Role", "docket-dataplane")["metadata"]["namespace"], "docket-system-runtime");
    assert_eq!(
        objects.one("Secret", "docket-quickstart-postgresql")["metadata"]["namespace"],
        "docket-system"
    );
    let own = render(&(file("quickstart.yaml") + "runtimeNamespace: elsewhere\n"));
    assert!(own.all("Namespace").is_empty());
    assert_eq!(own.one("Role", "docket-dataplane")["metadata"]["namespace"], "elsewhere");
}

#[test]
fn without_it_nothing_of_it_is_there() {
    let objects = render_with("");
    assert!(objects.all("Secret").is_empty());
    assert_eq!(objects.all("Deployment").len(), 4);
    assert!(objects.0.iter().all(|object| !object.to_string().contains("quickstart")));
}

#[test]
fn its_pods_are_reached_by_ours_alone() {
    let objects = render(&file("quickstart.yaml"));
    for (name, port) in [("postgresql", "postgresql"), ("redis", "redis")] {
        let policy = &objects.one("NetworkPolicy", &format!("docket-quickstart-{name}"))["spec"];
        assert_eq!(
            policy["ingress"],
            json!([{"ports": [{"protocol": "TCP", "port": port}], "from": [{"podSelector": {"matchLabels": {
                "app.kubernetes.io/name": "docket", "app.kubernetes.io/instance": "docket"}}}]}])
        );
        assert!(policy.get("egress").is_none());
    }
    let worker = &objects.one("NetworkPolicy", "docket-worker")["spec"]["egress"];
    let peer = &worker[1]["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/name"];
    assert_eq!(peer, "quickstart-postgresql");
    // No Service of ours takes its pods.
    for service in objects.all("Service") {
        let own = text(&service["metadata"]["name"]).contains("quickstart");
        let name = text(&service["spec"]["selector"]["app.kubernetes.io/name"]);
        assert_eq!(name.starts_with("quickstart"), own);
    }
}

#[test]
fn images_users_and_storage_can_be_others() {
    let values = file("quickstart.yaml").replace(
        "  enabled: true\n",
        "  enabled: true
  postgresql: {image: pg:test, command: [/start], args: [], runAsUser: 70, persistence: {enabled: true, size: 1Gi, storageClassName: fast}}
  redis: {image: redis:test, runAsUser: 71}\n",
    );
    let objects = render(&values);
    let container = objects.container("docket-quickstart-postgresql");
    assert_eq!(
        (container["image"].clone(), container["command"].clone()),
        (json!("pg:test"), json!(["/start"]))
    );
    let pod = objects.pod("docket-quickstart-postgresql");
    assert_eq!(pod["securityContext"]["runAsUser"], 70);
    assert_eq!(pod["securityContext"]["fsGroup"], 70);
    assert_eq!(pod["volumes"][1]["persistentVolumeClaim"]["claimName"], "docket-quickstart-postgresql");
    let claim = &objects.one("PersistentVolumeClaim", "docket-quickstart-postgresql")["spec"];
    assert_eq!(claim["storageClassName"], "fast");
    assert_eq!(claim["resources"]["requests"]["storage"], "1Gi");
    assert_eq!(objects.pod("docket-quickstart-redis")["securityContext"]["runAsUser"], 71);
}

#[test]
fn each_component_has_a_user_of_redis_of_its_own() {
    let values = file("quickstart.yaml") + "redis: {release: blue}\n";
    let objects = render(&values);
    let name = "docket-quickstart-redis";
    let conf = decoded(&objects, name, "redis.conf");
    let mut passwords = vec![decoded(&objects, name, "password")];
    for component in ["operator", "api", "worker", "detector"] {
        let password = decoded(&objects, name, &format!("password-{component}"));
        assert!(conf.contains(&format!("\nuser docket-{component} on >{password} ")), "{conf}");
        assert_eq!(
            decoded(&objects, name, &format!("url-{component}")),
            format!("redis://docket-{component}:{password}@docket-quickstart-redis.docket-system:6379/0")
        );
        let mounted = &objects.pod(&format!("docket-{component}"))["volumes"][0]["secret"];
        assert_eq!(mounted["items"], json!([{"key": format!("url-{component}"), "path": "url"}]));
        passwords.push(password);
    }
    let template = &objects.one("Deployment", name)["spec"]["template"]["metadata"];
    assert!(template["annotations"]["checksum/users"].is_string(), "Redis restarts when its users change");
    passwords.sort_unstable();
    passwords.dedup();
    assert_eq!(passwords.len(), 5, "each its own");
    assert!(conf.contains("~{docket:blue}:pods*") && !conf.contains("{docket}"));
}

#[test]
fn a_redis_of_your_own_can_have_a_user_for_each_component() {
    let objects =
        render_with("redis: {secretRef: {name: docket-redis, key: all, keys: {worker: of-the-worker}}}");
    for (component, key) in
        [("operator", "all"), ("api", "all"), ("worker", "of-the-worker"), ("detector", "all")]
    {
        let mounted = &objects.pod(&format!("docket-{component}"))["volumes"][0]["secret"];
        assert_eq!(mounted["secretName"], "docket-redis");
        assert_eq!(mounted["items"], json!([{"key": key, "path": "url"}]), "{component}");
    }
}
