//! The chart's copies of the definitions.

use std::path::Path;

use docket_crds::crd;

const UPDATE: &str = "UPDATE_CRDS=1 cargo test -p docket-tests --test operator crds::chart";

/// A definition as a template: installed unless the chart's user says no, and kept when the chart goes.
fn template(yaml: &str) -> String {
    assert!(!yaml.contains("{{"), "Helm would read this as its own");
    let metadata = "\nmetadata:\n";
    let (head, rest) = yaml.split_once(metadata).expect("a definition has metadata");
    format!(
        r#"{{{{- /* Made from the types in crds/src by `{UPDATE}`: change those. */}}}}
{{{{- if .Values.crds.enabled }}}}
{head}{metadata}  {{{{- if or .Values.crds.keep .Values.crds.annotations }}}}
  annotations:
    {{{{- if .Values.crds.keep }}}}
    helm.sh/resource-policy: keep
    {{{{- end }}}}
    {{{{- with .Values.crds.annotations }}}}
    {{{{- toYaml . | nindent 4 }}}}
    {{{{- end }}}}
  {{{{- end }}}}
{rest}{{{{- end }}}}
"#
    )
}

#[test]
fn has_the_definitions_of_the_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/docket/templates/crds");
    for definition in crd::definitions() {
        let path = folder.join(format!("{}.yaml", definition.spec.names.plural));
        let expected = template(&crd::document(&definition));
        if std::env::var_os("UPDATE_CRDS").is_some() {
            std::fs::create_dir_all(&folder).expect("the chart can be written");
            std::fs::write(&path, &expected).expect("the chart can be written");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "{} is not what the code says; run: {UPDATE}", path.display());
    }
}
