//! The pure steps together, from minimal YAML.
