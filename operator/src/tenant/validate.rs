//! Pure: decides whether the operator may act on a Tenant as declared.

use docket_crds::compile::{claimed, taken};
use docket_crds::{Reason, ReasonCode, Tenant, duplicates};

use crate::tenant::fetch::Fetched;
use crate::tenant::subject::Subject;

/// A Tenant that breaks no rule and claims nothing that belongs to an earlier Tenant.
#[derive(Clone, Copy, Debug)]
pub struct Valid<'a> {
    fetched: &'a Fetched,
    tenant: &'a Tenant,
}

impl<'a> Valid<'a> {
    /// Everything that was read for the Tenant.
    pub const fn fetched(self) -> &'a Fetched {
        self.fetched
    }

    /// The declared Tenant.
    pub const fn tenant(self) -> &'a Tenant {
        self.tenant
    }
}

/// A Tenant for which nothing new is created. The configuration that was served before stays.
#[derive(Clone, Debug)]
pub struct Refused<'a> {
    /// Everything that was read for the Tenant.
    pub fetched: &'a Fetched,
    /// The declared Tenant, if it can be read: what it switches off takes effect.
    pub tenant: Option<&'a Tenant>,
    /// The reasons; never empty.
    pub reasons: Vec<Reason>,
    /// The subdomains that belong to an earlier Tenant.
    pub lost_subdomains: Vec<String>,
}

/// Checks the rules of the CRD (an object may have been stored before they existed) and the rules between tenants.
pub fn validate(fetched: &Fetched) -> Result<Valid<'_>, Refused<'_>> {
    let subject = &fetched.subject;
    let tenant = match &subject.tenant.document {
        Ok(tenant) => tenant,
        Err(violations) => {
            let reasons = violations.iter().cloned().map(Reason::from).collect();
            return Err(Refused { fetched, tenant: None, reasons, lost_subdomains: Vec::new() });
        }
    };
    let mut reasons: Vec<Reason> = tenant.validate().into_iter().map(Reason::from).collect();
    for conflict in conflicts(subject, tenant) {
        if !reasons.contains(&conflict) {
            reasons.push(conflict);
        }
    }
    match reasons.is_empty() {
        true => Ok(Valid { fetched, tenant }),
        false => {
            let lost_subdomains = lost_subdomains(subject, tenant);
            Err(Refused { fetched, tenant: Some(tenant), reasons, lost_subdomains })
        }
    }
}

/// The conflicts with earlier tenants; conflicts with readable tenants come first.
fn conflicts(subject: &Subject, tenant: &Tenant) -> Vec<Reason> {
    let readable = subject.ahead.iter().filter_map(|rival| rival.tenant.document.as_ref().ok());
    let documents: Vec<&Tenant> = readable.chain([tenant]).collect();
    let last = documents.len() - 1;
    let of_readable =
        duplicates(&documents).into_iter().filter(|(index, _)| *index == last).map(|(_, reason)| reason);
    let unreadable = subject.ahead.iter().filter(|rival| rival.tenant.document.is_err());
    let of_unreadable = unreadable.flat_map(|rival| {
        let name = &rival.tenant.meta.name;
        taken(tenant, &rival.claims, (&name.namespace, &name.name))
    });
    of_readable.chain(of_unreadable).collect()
}

fn lost_subdomains(subject: &Subject, tenant: &Tenant) -> Vec<String> {
    let held = |subdomain: &str| {
        let claim = (ReasonCode::SubdomainConflict, subdomain.to_ascii_lowercase());
        subject.ahead.iter().any(|rival| match &rival.tenant.document {
            Ok(document) => claimed(document).contains(&claim),
            Err(_) => rival.claims.contains(&claim),
        })
    };
    tenant.spec.subdomains.iter().filter(|subdomain| held(subdomain)).cloned().collect()
}
