//! Runs Helm on the chart, and finds objects in its output.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The Kubernetes that the chart is rendered for.
const KUBERNETES: &str = "1.34.0";
/// The least there is to set.
pub(crate) const MINIMAL: &str = "
baseDomain: api.example.com
databaseServers: [{name: main, secretRef: {name: docket-postgresql, key: url}}]
redis: {secretRef: {name: docket-redis}}
runtimeNamespace: docket-runtime
";

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the repository").to_owned()
}

/// The folder of the chart.
pub(crate) fn chart() -> PathBuf {
    repository().join("charts/docket")
}

/// A file of the chart.
pub(crate) fn file(name: &str) -> String {
    let path = chart().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Where `tests/run` keeps programs.
pub(crate) fn cache() -> PathBuf {
    std::env::var_os("DOCKET_TEST_CACHE").map_or_else(
        || std::env::home_dir().expect("there is a home folder").join(".cache/docket-tests"),
        PathBuf::from,
    )
}

/// The pinned Helm if it was built, else the one on the PATH.
fn program() -> PathBuf {
    let cache = cache();
    let pinned = include_str!("../../cluster/go/kubernetes/go.mod");
    let (_, rest) = pinned.split_once("k8s.io/kubernetes v").expect("go.mod requires Kubernetes");
    let version = rest.split_whitespace().next().expect("a version is behind it");
    let built = [format!("kubernetes-{version}/helm"), "helm-3.22.0/helm".into()];
    let mut built = built.iter().map(|path| cache.join(path));
    built.find(|path| path.exists()).unwrap_or_else(|| PathBuf::from("helm"))
}

/// Runs Helm with `values` on its standard input; its output, or what it said was wrong.
pub(crate) fn helm(arguments: &[&str], values: &str) -> Result<String, String> {
    let mut child = Command::new(program())
        .args(arguments)
        .current_dir(repository())
        // Helm must not ask a cluster that this machine happens to know.
        .env("KUBECONFIG", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Helm is there: tests/cluster/build helm, or your own on the PATH");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(values.as_bytes()).expect("Helm reads the values");
    drop(stdin);
    let output = child.wait_with_output().expect("Helm ends");
    let text = |bytes| String::from_utf8(bytes).expect("Helm writes UTF-8");
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        // `helm lint` prints its findings on standard output.
        Err(text(output.stderr) + &text(output.stdout))
    }
}

/// What the chart makes of these values, as release `docket` in the namespace `docket-system`.
pub(crate) fn render(values: &str) -> Objects {
    try_render(values).unwrap_or_else(|error| panic!("{error}"))
}

/// The same with what [`MINIMAL`] sets.
pub(crate) fn render_with(more: &str) -> Objects {
    render(&format!("{MINIMAL}\n{more}"))
}

/// What the chart makes of these values, or what it says against them.
pub(crate) fn try_render(values: &str) -> Result<Objects, String> {
    try_render_for(values, &[])
}

/// What the chart makes of these values for OpenShift.
pub(crate) fn render_for_openshift(values: &str) -> Objects {
    try_render_for(values, &["--api-versions", "security.openshift.io/v1"])
        .unwrap_or_else(|error| panic!("{error}"))
}

fn try_render_for(values: &str, more: &[&str]) -> Result<Objects, String> {
    let arguments = "template docket charts/docket --namespace docket-system --values - --kube-version";
    let arguments: Vec<&str> = arguments.split(' ').chain([KUBERNETES]).chain(more.iter().copied()).collect();
    helm(&arguments, values).map(|text| Objects(documents(&text)))
}

/// `helm lint --strict`.
pub(crate) fn lint(values: &str) -> Result<String, String> {
    helm(&["lint", "charts/docket", "--strict", "--values", "-", "--kube-version", KUBERNETES], values)
}

/// The documents of a YAML text; a key given twice is an error.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let mut reader = Cursor::new(text);
    let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error };
    serde_saphyr::read_with_options(&mut reader, options)
        .map(|document| document.unwrap_or_else(|error| panic!("{error}")))
        .filter(|document: &Value| !document.is_null())
        .collect()
}

/// The blocks of YAML that a page of the documentation shows, without those inside lists.
pub(crate) fn blocks_of(page: &str) -> Vec<Value> {
    let page = repository().join(page);
    let page = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let blocks = page.split("\n```yaml\n").skip(1);
    blocks.flat_map(|rest| documents(rest.split_once("\n```").expect("the block ends").0)).collect()
}

/// The objects that Helm would apply.
#[derive(Debug)]
pub(crate) struct Objects(pub(crate) Vec<Value>);

impl Objects {
    /// The one object of this kind and name.
    pub(crate) fn one(&self, kind: &str, name: &str) -> &Value {
        let mut found = self.all(kind).into_iter().filter(|object| object["metadata"]["name"] == name);
        let object =
            found.next().unwrap_or_else(|| panic!("no {kind} {name}; there are {:?}", self.names(kind)));
        assert!(found.next().is_none(), "{kind} {name} is there twice");
        object
    }

    /// All of this kind.
    pub(crate) fn all(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|object| object["kind"] == kind).collect()
    }

    /// The names of all of this kind, in order.
    pub(crate) fn names(&self, kind: &str) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.all(kind).into_iter().map(|object| text(&object["metadata"]["name"])).collect();
        names.sort_unstable();
        names
    }

    /// The pod spec of a Deployment.
    pub(crate) fn pod(&self, deployment: &str) -> &Value {
        &self.one("Deployment", deployment)["spec"]["template"]["spec"]
    }

    /// The one container of a Deployment.
    pub(crate) fn container(&self, deployment: &str) -> &Value {
        let containers = self.pod(deployment)["containers"].as_array().expect("a list");
        assert_eq!(containers.len(), 1);
        &containers[0]
    }

    /// Its arguments.
    pub(crate) fn arguments(&self, deployment: &str) -> Vec<&str> {
        texts(&self.container(deployment)["args"])
    }
}

/// A text.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// A list of texts.
pub(crate) fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}")).iter().map(text).collect()
}
