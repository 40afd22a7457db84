//! What two tenants cannot both have. No schema can check this, so the one that came first keeps it.

use std::collections::BTreeMap;

use super::Reason;
use crate::{Tenant, conditions};

/// What later tenants want that an earlier one has, in the caller's order: client codes (in any case), subdomains and
/// managed databases. The index is that of the later tenant; one tenant can have several reasons.
///
/// A tenant keeps its claims even when it has a conflict itself, so that mending one tenant never breaks another.
pub fn duplicates(tenants: &[&Tenant]) -> Vec<(usize, Reason)> {
    let mut holders: BTreeMap<(&'static str, String), &Tenant> = BTreeMap::new();
    let mut found = Vec::new();
    for (index, tenant) in tenants.iter().enumerate() {
        for claim in claims(tenant) {
            let holder = *holders.entry(claim.key()).or_insert(tenant);
            if !std::ptr::eq(holder, *tenant) {
                found.push((index, claim.refused_for(holder)));
            }
        }
    }
    found
}

/// What a tenant claims for itself alone, in a form that is equal exactly when two claims collide in [`duplicates`]; for
/// an index over many tenants.
pub fn claimed(tenant: &Tenant) -> Vec<(&'static str, String)> {
    claims(tenant).map(|claim| claim.key()).collect()
}

struct Claim<'a> {
    code: &'static str,
    field: String,
    noun: &'static str,
    value: &'a str,
}

fn claims(tenant: &Tenant) -> impl Iterator<Item = Claim<'_>> {
    let spec = &tenant.spec;
    let code = Claim {
        code: conditions::CLIENT_CODE_CONFLICT,
        field: "spec.clientCode".to_owned(),
        noun: "clientCode",
        value: &spec.client_code,
    };
    let subdomains = spec.subdomains.iter().enumerate().map(|(index, value)| Claim {
        code: conditions::SUBDOMAIN_CONFLICT,
        field: format!("spec.subdomains[{index}]"),
        noun: "subdomain",
        value,
    });
    let database = spec.database.managed.iter().map(|managed| Claim {
        code: conditions::DATABASE_NAME_CONFLICT,
        field: "spec.database.managed.name".to_owned(),
        noun: "database",
        value: &managed.name,
    });
    [code].into_iter().chain(subdomains).chain(database)
}

impl Claim<'_> {
    fn key(&self) -> (&'static str, String) {
        (self.code, self.value.to_ascii_lowercase())
    }

    fn refused_for(self, holder: &Tenant) -> Reason {
        let Self { code, field, noun, value } = self;
        let (namespace, name) = (&holder.metadata.namespace, &holder.metadata.name);
        let message =
            format!("{noun} {value:?} is already used by Tenant {namespace}/{name}; choose another");
        Reason::new(code, field, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tenant(name: &str, code: &str, subdomains: &[&str], database: &str) -> Tenant {
        Tenant::from_json(json!({
            "apiVersion": "docket.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": name},
            "spec": {"clientCode": code, "subdomains": subdomains, "database": {"managed": {"name": database}}}
        }))
        .unwrap()
    }

    #[test]
    fn different_tenants_have_no_conflict() {
        let (a, b) = (tenant("a", "A", &["x"], "a"), tenant("b", "B", &["y"], "b"));
        assert_eq!(duplicates(&[&a, &b]), []);
    }

    #[test]
    fn the_later_tenant_is_told_who_came_first() {
        let a = tenant("a", "ACME", &["x", "y"], "a");
        let b = tenant("b", "acme", &["z", "y"], "a");
        let found: Vec<_> =
            duplicates(&[&a, &b]).into_iter().map(|(index, reason)| (index, reason.to_string())).collect();
        let by_a = "is already used by Tenant default/a; choose another";
        assert_eq!(
            found,
            [
                (1, format!("ClientCodeConflict: spec.clientCode: clientCode \"acme\" {by_a}")),
                (1, format!("SubdomainConflict: spec.subdomains[1]: subdomain \"y\" {by_a}")),
                (1, format!("DatabaseNameConflict: spec.database.managed.name: database \"a\" {by_a}")),
            ]
        );
        assert!(duplicates(&[&b, &a]).iter().all(|(index, _)| *index == 1));
    }

    #[test]
    fn a_client_code_and_a_subdomain_may_be_alike() {
        let (a, b) = (tenant("a", "x", &["b"], "x"), tenant("b", "b", &["x"], "b"));
        assert_eq!(duplicates(&[&a, &b]), []);
    }
}
