//! Pure: whether a Tenant may be acted on as declared.

use docket_crds::{Reason, Tenant, compile::taken, duplicates};

use crate::tenant::fetch::Subject;

/// A Tenant that breaks no rule and wants nothing that an earlier one has.
#[derive(Clone, Copy, Debug)]
pub struct Valid<'a>(&'a Tenant);

impl<'a> Valid<'a> {
    /// What it declares.
    pub const fn tenant(self) -> &'a Tenant {
        self.0
    }
}

/// A Tenant that nothing is made for; what was served goes on.
#[derive(Clone, Debug)]
pub struct Refused<'a> {
    /// What it declares, if it can be read: what is switched off there counts.
    pub tenant: Option<&'a Tenant>,
    /// Why, never empty.
    pub reasons: Vec<Reason>,
}

/// Checks the rules of the CRD, which an object may have been stored without, and those between tenants.
pub fn validate(subject: &Subject) -> Result<Valid<'_>, Refused<'_>> {
    let tenant = match &subject.tenant.document {
        Ok(tenant) => tenant,
        Err(violations) => {
            let reasons = violations.iter().cloned().map(Reason::from).collect();
            return Err(Refused { tenant: None, reasons });
        }
    };
    let mut reasons: Vec<Reason> = tenant.validate().into_iter().map(Reason::from).collect();
    reasons.extend(conflicts(subject));
    for (holder, held) in &subject.held {
        let of_unreadable = taken(tenant, held, (&holder.namespace, &holder.name));
        let untold: Vec<_> = of_unreadable.into_iter().filter(|reason| !reasons.contains(reason)).collect();
        reasons.extend(untold);
    }
    if reasons.is_empty() { Ok(Valid(tenant)) } else { Err(Refused { tenant: Some(tenant), reasons }) }
}

/// What earlier tenants have.
fn conflicts(subject: &Subject) -> Vec<Reason> {
    let rivals: Vec<_> =
        subject.rivals.iter().filter_map(|rival| Some((rival, rival.document.as_ref().ok()?))).collect();
    let documents: Vec<&Tenant> = rivals.iter().map(|(_, document)| *document).collect();
    let own = |index: usize| rivals[index].0.meta.name == subject.tenant.meta.name;
    duplicates(&documents).into_iter().filter(|(index, _)| own(*index)).map(|(_, reason)| reason).collect()
}
