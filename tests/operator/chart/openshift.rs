//! OpenShift admits every pod of the chart with the SCC `restricted-v2`, and every pod of the page that installs the chart for a
//! trial. No OpenShift cluster is at hand: the rules here are a copy of the SCC's rules.

use serde_json::Value;

use super::helm::{Objects, documents, file, render, render_for_openshift, repository, text, texts};

/// The kinds of volumes that the SCC allows.
const VOLUMES: [&str; 7] =
    ["configMap", "csi", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"];
/// The settings of a user or a group. The cluster chooses them in a range of the namespace, and refuses others.
const IDS: [&str; 5] = ["runAsUser", "runAsGroup", "fsGroup", "supplementalGroups", "seLinuxOptions"];

/// The rules of `restricted-v2` that this pod breaks.
fn broken(pod: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    for name in ["hostNetwork", "hostPID", "hostIPC"] {
        if pod[name] == true {
            broken.push(name.to_owned());
        }
    }
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        let kinds = volume.as_object().expect("a volume").keys().filter(|key| *key != "name");
        broken.extend(kinds.filter(|kind| !VOLUMES.contains(&kind.as_str())).cloned());
    }
    let containers = ["initContainers", "containers"].into_iter();
    let containers: Vec<&Value> =
        containers.flat_map(|list| pod[list].as_array().into_iter().flatten()).collect();
    for context in
        containers.iter().map(|container| &container["securityContext"]).chain([&pod["securityContext"]])
    {
        broken.extend(IDS.into_iter().filter(|id| !context[id].is_null()).map(str::to_owned));
    }
    for container in containers {
        let context = &container["securityContext"];
        for name in ["privileged", "allowPrivilegeEscalation"] {
            if context[name] == true {
                broken.push(name.to_owned());
            }
        }
        for added in context["capabilities"]["add"].as_array().into_iter().flatten() {
            broken.push(format!("capability {added}"));
        }
        for port in container["ports"].as_array().into_iter().flatten() {
            if !port["hostPort"].is_null() {
                broken.push("hostPort".to_owned());
            }
        }
    }
    broken
}

/// The name and the pod of each workload.
fn pods(objects: &Objects) -> Vec<(&str, &Value)> {
    let pod = |object: &'_ Value| match text(&object["kind"]) {
        "Pod" => Some("/spec"),
        "Deployment" => Some("/spec/template/spec"),
        _ => None,
    };
    let found = objects.0.iter().filter_map(|object| {
        Some((text(&object["metadata"]["name"]), object.pointer(pod(object)?).expect("a pod")))
    });
    found.collect()
}

#[test]
fn every_pod_of_the_chart_is_admitted() {
    for values in
        ["ci/minimal-values.yaml", "ci/full-values.yaml", "ci/namespaced-values.yaml", "quickstart.yaml"]
    {
        let objects = render_for_openshift(&file(values));
        let pods = pods(&objects);
        assert!(pods.len() > 4, "{values}: the four components and the pod of `helm test`");
        for (name, pod) in pods {
            assert_eq!(broken(pod), Vec::<String>::new(), "{values}: {name}");
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{values}: {name}");
        }
    }
}

#[test]
fn elsewhere_the_stores_of_the_quickstart_have_the_users_of_their_images() {
    let objects = render(&file("quickstart.yaml"));
    for name in ["docket-quickstart-postgresql", "docket-quickstart-redis"] {
        assert_eq!(objects.pod(name)["securityContext"]["runAsUser"], 999, "their images would run as root");
        assert_eq!(broken(objects.pod(name)), ["runAsUser", "runAsGroup", "fsGroup"]);
    }
}

#[test]
fn the_receiver_of_the_trial_is_admitted() {
    let page = std::fs::read_to_string(repository().join("docs/start/kubernetes.md")).expect("the page");
    let (_, rest) = page.split_once("<<END\n").expect("a manifest");
    let (manifest, _) = rest.split_once("\nEND\n").expect("its end");
    let objects = Objects(documents(manifest));
    let pods = pods(&objects);
    assert_eq!(pods.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["receiver"]);
    assert_eq!(broken(pods[0].1), Vec::<String>::new());
    assert_eq!(texts(&pods[0].1["containers"][0]["args"])[0], "listen");
}
