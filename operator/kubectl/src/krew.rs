//! The manifest `krew.yaml`, by which krew installs the plugin.

use clap::CommandFactory;
use serde_json::{Value, json};

use crate::args::Arguments;

#[test]
fn the_krew_manifest_names_this_binary_and_its_commands() {
    let manifest: Value = serde_saphyr::from_str(include_str!("../krew.yaml")).expect("YAML");
    let command = Arguments::command();
    let [group, plugin] = ["apiVersion", "kind"].map(|field| manifest[field].as_str().expect("a text"));
    assert_eq!((group, plugin), ("krew.googlecontainertools.github.com/v1alpha2", "Plugin"));
    let name = manifest["metadata"]["name"].as_str().expect("a name");
    assert_eq!(format!("kubectl-{name}"), command.get_name());

    let spec = &manifest["spec"];
    assert_eq!((&spec["version"], &spec["homepage"]), (&json!("v$VERSION"), &json!("$HOMEPAGE")));
    let short = spec["shortDescription"].as_str().expect("a text");
    assert!(short.len() <= 50 && !short.ends_with('.') && !short.contains("kubectl"), "{short}");
    let text = format!("{}{}", spec["description"], spec["caveats"]);
    let names = command.get_subcommands().map(|command| command.get_name().to_owned());
    let unnamed: Vec<String> = names.filter(|name| !text.contains(name.as_str())).collect();
    assert_eq!(unnamed, [""; 0]);

    let platforms = spec["platforms"].as_array().expect("a list");
    let mut seen = Vec::new();
    for platform in platforms {
        let labels = &platform["selector"]["matchLabels"];
        let [os, arch] = ["os", "arch"].map(|label| labels[label].as_str().expect("a label"));
        seen.push(format!("{os}-{arch}"));
        assert_eq!(platform["uri"], format!("$URI-{os}-{arch}"));
        assert_eq!(platform["sha256"], format!("$SHA256-{os}-{arch}"));
        assert_eq!(platform["bin"], command.get_name());
        let files = json!([{"from": "kubectl-docket", "to": "."}, {"from": "LICENSE", "to": "."}]);
        assert_eq!(platform["files"], files, "krew refuses a plugin without its licence");
    }
    assert_eq!(seen, ["linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"]);
}
