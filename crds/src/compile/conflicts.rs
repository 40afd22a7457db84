//! Conflicts between Tenants: values that only one Tenant may have. No schema can check them; the earlier Tenant
//! keeps the value.

use std::collections::BTreeMap;

use crate::conditions::ReasonCode;
use crate::{Reason, Tenant};

/// The conflicts of Tenants, which the caller passes in order of precedence: client codes (in any case), subdomains
/// and managed databases that a later Tenant declares and an earlier Tenant has. The index is the later Tenant's; one
/// Tenant can have several reasons.
///
/// A Tenant with a conflict keeps its other claims, so that fixing one Tenant never breaks another.
pub fn duplicates(tenants: &[&Tenant]) -> Vec<(usize, Reason)> {
    let mut holders: BTreeMap<(ReasonCode, String), &Tenant> = BTreeMap::new();
    let mut found = Vec::new();
    for (index, tenant) in tenants.iter().enumerate() {
        for claim in claims(tenant) {
            let holder = *holders.entry(claim.key()).or_insert(tenant);
            if !std::ptr::eq(holder, *tenant) {
                let holder = (holder.metadata.namespace.as_str(), holder.metadata.name.as_str());
                found.push((index, claim.refused_for(holder)));
            }
        }
    }
    found
}

/// The values that a Tenant claims for itself, for an index over many Tenants. Two claims are equal if and only if
/// they conflict in [`duplicates`].
pub fn claimed(tenant: &Tenant) -> Vec<(ReasonCode, String)> {
    claims(tenant).map(|claim| claim.key()).collect()
}

/// The claims of a spec that can't be read as a whole, in the form of [`claimed`]. Its Tenant may still be served,
/// and keeps its claims.
pub fn claimed_by(spec: &serde_json::Value) -> Vec<(ReasonCode, String)> {
    let subdomains = spec["subdomains"].as_array().map(Vec::as_slice).unwrap_or_default();
    let subdomains = subdomains.iter().map(|value| (ReasonCode::SubdomainConflict, value));
    let code = (ReasonCode::ClientCodeConflict, &spec["clientCode"]);
    let database = (ReasonCode::DatabaseNameConflict, &spec["database"]["managed"]["name"]);
    let all = [code].into_iter().chain(subdomains).chain([database]);
    all.filter_map(|(code, value)| Some((code, value.as_str()?.to_ascii_lowercase()))).collect()
}

/// The conflicts of a Tenant with an earlier Tenant. `held` are the earlier Tenant's claims in the form of
/// [`claimed`], `holder` is its namespace and name.
pub fn taken(tenant: &Tenant, held: &[(ReasonCode, String)], holder: (&str, &str)) -> Vec<Reason> {
    let taken = claims(tenant).filter(|claim| held.contains(&claim.key()));
    taken.map(|claim| claim.refused_for(holder)).collect()
}

struct ClaimedValue<'a> {
    code: ReasonCode,
    field: String,
    noun: &'static str,
    value: &'a str,
}

fn claims(tenant: &Tenant) -> impl Iterator<Item = ClaimedValue<'_>> {
    let spec = &tenant.spec;
    let code = ClaimedValue {
        code: ReasonCode::ClientCodeConflict,
        field: "spec.clientCode".to_owned(),
        noun: "clientCode",
        value: &spec.client_code,
    };
    let subdomains = spec.subdomains.iter().enumerate().map(|(index, value)| ClaimedValue {
        code: ReasonCode::SubdomainConflict,
        field: format!("spec.subdomains[{index}]"),
        noun: "subdomain",
        value,
    });
    let database = spec.database.managed.iter().map(|managed| ClaimedValue {
        code: ReasonCode::DatabaseNameConflict,
        field: "spec.database.managed.name".to_owned(),
        noun: "database",
        value: &managed.name,
    });
    [code].into_iter().chain(subdomains).chain(database)
}

impl ClaimedValue<'_> {
    fn key(&self) -> (ReasonCode, String) {
        (self.code, self.value.to_ascii_lowercase())
    }

    fn refused_for(self, (namespace, name): (&str, &str)) -> Reason {
        let Self { code, field, noun, value } = self;
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
    fn tenants_with_different_claims_have_no_conflict() {
        let (a, b) = (tenant("a", "A", &["x"], "a"), tenant("b", "B", &["y"], "b"));
        assert_eq!(duplicates(&[&a, &b]), []);
    }

    #[test]
    fn later_tenant_gets_reasons_that_name_the_earlier_one() {
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
    fn unreadable_spec_keeps_its_claims() {
        let spec = json!({"clientCode": "ACME", "subdomains": ["x", 7], "apiKeys": "all"});
        let held = claimed_by(&spec);
        assert_eq!(
            held,
            [
                (ReasonCode::ClientCodeConflict, "acme".to_owned()),
                (ReasonCode::SubdomainConflict, "x".to_owned())
            ]
        );
        let later = tenant("b", "b", &["y", "x"], "b");
        let found: Vec<_> = taken(&later, &held, ("default", "a")).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "SubdomainConflict: spec.subdomains[1]: subdomain \"x\" is already used by Tenant default/a; choose another"
            ]
        );
        assert_eq!(claimed_by(&json!("nothing")), []);
        let whole = tenant("a", "A", &["x"], "a");
        assert_eq!(claimed_by(&serde_json::to_value(&whole.spec).unwrap()), claimed(&whole));
    }

    #[test]
    fn equal_client_code_and_subdomain_do_not_conflict() {
        let (a, b) = (tenant("a", "x", &["b"], "x"), tenant("b", "b", &["x"], "b"));
        assert_eq!(duplicates(&[&a, &b]), []);
    }
}
