//! Condition types, reason codes and Event reasons, by the names users see in `kubectl describe`.
//!
//! Each name is written once, as a variant: its text is the variant's name. `docs/reference/conditions.md` has a section for each
//! [`ReasonCode`] and a row for each [`Occurrence`].

use serde::{Deserialize, Serialize};

/// Defines an enum of words with `about`, which returns the documentation of a word for users.
macro_rules! names {
    ($(#[$about:meta])* $name:ident { $($(#[doc = $doc:literal])* $variant:ident,)* }) => {
        crate::words! {
            $(#[$about])*
            #[derive(Serialize, Deserialize)]
            pub enum $name {
                $($(#[doc = $doc])* $variant,)*
            }
        }

        impl $name {
            /// The meaning, for the documentation.
            pub fn about(self) -> String {
                match self {
                    $(Self::$variant => [$($doc.trim()),*].join(" "),)*
                }
            }
        }
    };
}

names! {
    /// The `type` of a condition.
    ConditionType {
        /// Both kinds: all other conditions are as they should be. Otherwise `Ready` has the reason of the first that is not.
        Ready,
        /// Both kinds: the object is valid and claims nothing that belongs to another object.
        Accepted,
        /// Both kinds: every Secret and ConfigMap that the object names exists and is usable.
        ResolvedRefs,
        /// Tenant: its database is reachable and has a schema that the data plane works with.
        DatabaseReady,
        /// Both kinds: every pod of the data plane serves this generation.
        Programmed,
        /// Webhook: its receiver accepts deliveries.
        DeliveryHealthy,
        /// Tenant: the limits that it declares are in effect, and it does not stay at one of them.
        WithinLimits,
        /// Both kinds, present only while true: the operator is working on the object, or waits for an object that it names. Wait.
        Reconciling,
        /// Both kinds, present only while true: the operator can't continue until a user changes something. The other
        /// conditions name it.
        Stalled,
    }
}

names! {
    /// The `reason` of a condition: why it has its status.
    ReasonCode {
        /// `Ready` is true: the object is served as declared.
        Ready,
        /// `Accepted` is true: the object breaks no rule.
        Accepted,
        /// `ResolvedRefs` is true: all references are resolved.
        ResolvedRefs,
        /// `DatabaseReady` is true: the database has the schema of this version.
        Migrated,
        /// `Programmed` is true: every pod of the data plane serves this generation.
        Programmed,
        /// `DeliveryHealthy` is true: the receiver accepted the last delivery.
        Delivering,
        /// `DeliveryHealthy` is unknown: nothing has been sent yet.
        NoDeliveries,
        /// `WithinLimits` is true: the declared limits are in effect.
        WithinLimits,

        /// `Ready` is false: `spec.suspend` is true, so requests with its API keys get 401 and no deliveries are created.
        Suspended,
        /// `Ready` is unknown: the annotation that pauses the operator is set on the object.
        Paused,
        /// `Ready` is false: the API server refuses a request of the operator. A quota is used up, an admission policy
        /// refuses the request, or the operator lacks a right. The operator tries again.
        ApiRefused,
        /// `Ready` is false: the operator can't read what the Tenant's runtime Secret holds, because a newer operator wrote it or it is
        /// damaged. It leaves the Secret as it is, so that no session ends, and changes nothing for the Tenant.
        ConfigurationUnreadable,

        /// `Accepted` is false: the spec breaks a rule of the CRD. The object was stored before the rule existed.
        InvalidSpec,
        /// `Accepted` is false: an older Tenant has this client code.
        ClientCodeConflict,
        /// `Accepted` is false: an older Tenant has this subdomain.
        SubdomainConflict,
        /// `Accepted` is false: an older Tenant has this managed database.
        DatabaseNameConflict,
        /// `Accepted` is false: the webhook's own namespace has no such Tenant.
        TenantNotFound,
        /// `Accepted` is false: the other namespace has no such Tenant, or that Tenant does not allow the webhook's
        /// namespace. Both have the same reason, so that no one can find out which Tenants exist.
        RefNotPermitted,
        /// `Accepted` is false: the Tenant has more Webhooks than a limit allows, or than fit into its configuration.
        TooManyWebhooks,
        /// `Accepted` is false: the Tenant is paused or invalid, or its runtime Secret can't be read, so the operator does not apply
        /// new and changed webhooks.
        TenantNotReady,
        /// `Accepted` is false: the Tenant is suspended, so the webhook gets no new deliveries.
        TenantSuspended,

        /// `ResolvedRefs` is false: the Secret does not exist in the object's namespace.
        SecretNotFound,
        /// `ResolvedRefs` is false: the Secret exists, but has no such key.
        SecretKeyMissing,
        /// `ResolvedRefs` is false: the Secret's value has the wrong form, is empty, or belongs to another Tenant.
        SecretInvalid,
        /// `ResolvedRefs` is false: the ConfigMap does not exist in the object's namespace.
        ConfigMapNotFound,
        /// `ResolvedRefs` is false: the ConfigMap exists, but has no such key.
        ConfigMapKeyMissing,
        /// `ResolvedRefs` is false: the CA bundle contains no PEM certificate or a broken one, is too large, or has none that Docket can use.
        InvalidCaBundle,

        /// `DatabaseReady` is false: the operator is creating the database.
        Provisioning,
        /// `DatabaseReady` is false: the database server does not respond, or it refuses the operator.
        Unreachable,
        /// `DatabaseReady` is false: the operator knows no server of the name in `spec.database.managed.server`.
        ServerNotFound,
        /// `DatabaseReady` is false: a database of this name exists and does not belong to this Tenant.
        NotOwned,
        /// `DatabaseReady` is false: a migration failed. The message names its step. The operator tries again.
        MigrationFailed,
        /// The database has an older schema, and its migration waits. `DatabaseReady` is true while the data plane works with
        /// that schema. The message says what the migration waits for.
        MigrationPending,
        /// `DatabaseReady` is false: the database has the schema of a newer version of Docket.
        SchemaNewer,

        /// `Programmed` is false: the configuration does not exist yet, or not every pod serves it yet.
        Pending,
        /// `Programmed` is unknown: Redis does not respond, so the operator can't read what the data plane reports.
        StoreUnavailable,

        /// `DeliveryHealthy` is false: a delivery failed, and Docket will try it again.
        Retrying,
        /// `DeliveryHealthy` is false: deliveries became dead letters, and none has succeeded since.
        DeadLettered,

        /// `WithinLimits` is false: the Tenant declares more than the platform allows.
        AboveMaximum,
        /// `WithinLimits` is false: the Tenant has reached a limit again and again for five minutes. Requests above it get
        /// 429, or deliveries wait.
        LimitReached,
    }
}

/// Who has to act before a reason goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// No one: all is well.
    Nothing,
    /// No one: a user set it on purpose.
    Chosen,
    /// The operator or the data plane: it tries again by itself.
    Retry,
    /// Another program, which may still create what the object names; after some minutes a user.
    Arrival,
    /// A user: only a change to an object or a server helps.
    Change,
}

impl ReasonCode {
    /// The condition that has this reason. `Ready`, `Reconciling` and `Stalled` repeat the reasons of other conditions.
    pub const fn condition(self) -> ConditionType {
        match self {
            Self::Ready
            | Self::Suspended
            | Self::Paused
            | Self::ApiRefused
            | Self::ConfigurationUnreadable => ConditionType::Ready,
            Self::Accepted
            | Self::InvalidSpec
            | Self::ClientCodeConflict
            | Self::SubdomainConflict
            | Self::DatabaseNameConflict
            | Self::TenantNotFound
            | Self::RefNotPermitted
            | Self::TooManyWebhooks
            | Self::TenantNotReady
            | Self::TenantSuspended => ConditionType::Accepted,
            Self::ResolvedRefs
            | Self::SecretNotFound
            | Self::SecretKeyMissing
            | Self::SecretInvalid
            | Self::ConfigMapNotFound
            | Self::ConfigMapKeyMissing
            | Self::InvalidCaBundle => ConditionType::ResolvedRefs,
            Self::Migrated
            | Self::Provisioning
            | Self::Unreachable
            | Self::ServerNotFound
            | Self::NotOwned
            | Self::MigrationFailed
            | Self::MigrationPending
            | Self::SchemaNewer => ConditionType::DatabaseReady,
            Self::Programmed | Self::Pending | Self::StoreUnavailable => ConditionType::Programmed,
            Self::Delivering | Self::NoDeliveries | Self::Retrying | Self::DeadLettered => {
                ConditionType::DeliveryHealthy
            }
            Self::WithinLimits | Self::AboveMaximum | Self::LimitReached => ConditionType::WithinLimits,
        }
    }

    /// Who has to act before this reason goes away.
    pub const fn remedy(self) -> Remedy {
        match self {
            Self::Ready
            | Self::Accepted
            | Self::ResolvedRefs
            | Self::Migrated
            | Self::Programmed
            | Self::Delivering
            | Self::NoDeliveries
            | Self::WithinLimits => Remedy::Nothing,
            Self::Suspended | Self::Paused | Self::TenantSuspended => Remedy::Chosen,
            Self::ApiRefused
            | Self::Provisioning
            | Self::Unreachable
            | Self::MigrationFailed
            | Self::MigrationPending
            | Self::Pending
            | Self::StoreUnavailable
            | Self::Retrying => Remedy::Retry,
            Self::TenantNotFound
            | Self::RefNotPermitted
            | Self::SecretNotFound
            | Self::SecretKeyMissing
            | Self::ConfigMapNotFound
            | Self::ConfigMapKeyMissing => Remedy::Arrival,
            Self::ConfigurationUnreadable
            | Self::InvalidSpec
            | Self::ClientCodeConflict
            | Self::SubdomainConflict
            | Self::DatabaseNameConflict
            | Self::TooManyWebhooks
            | Self::TenantNotReady
            | Self::SecretInvalid
            | Self::InvalidCaBundle
            | Self::ServerNotFound
            | Self::NotOwned
            | Self::SchemaNewer
            | Self::DeadLettered
            | Self::AboveMaximum
            | Self::LimitReached => Remedy::Change,
        }
    }

    /// Whether each change has this reason for some seconds, so that no Event is about it.
    pub const fn is_usual(self) -> bool {
        matches!(self, Self::Provisioning | Self::Pending)
    }
}

names! {
    /// What happened once, reported as a Kubernetes Event and as no condition.
    Occurrence {
        /// The operator generated a key, a signing secret or a password for the first time.
        SecretMade,
        /// The operator generated a new key, signing secret or password, because its rotation generation was raised.
        SecretRotated,
        /// The Secret was missing or had no usable value, so the operator generated a new one.
        SecretRemade,
        /// A Webhook was created again, or asks again for its signing secret. The operator had kept the secret, and it signs
        /// again.
        SecretKept,
        /// The runtime Secret was missing, or had no signing keys. New keys sign session tokens, so all sessions have ended.
        SigningKeysRemade,
        /// The database was dropped with its Tenant, but its role was not.
        RoleRetained,
        /// The Tenant is deleted, but its database remains: it is not the Tenant's alone, or it could not be dropped.
        DatabaseRetained,
    }
}

/// The `reason` of a Kubernetes Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventReason {
    /// A condition changed and has this reason now.
    Condition(ReasonCode),
    /// Something happened that no condition shows.
    Occurrence(Occurrence),
}

impl EventReason {
    /// The text in the Event.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Condition(code) => code.as_str(),
            Self::Occurrence(occurrence) => occurrence.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::UnknownWord;

    const PAGE: &str = include_str!("../../docs/reference/conditions.md");

    #[test]
    fn every_name_reads_back_from_its_text_and_from_json() {
        for code in ReasonCode::ALL {
            assert_eq!(code.as_str().parse(), Ok(code));
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert_eq!(serde_json::from_value::<ReasonCode>(code.as_str().into()).unwrap(), code);
        }
        assert_eq!("Readable".parse::<ReasonCode>(), Err(UnknownWord(&ReasonCode::WORDS)));
    }

    #[test]
    fn the_page_has_a_section_for_each_reason_code_and_no_other() {
        let sections: BTreeSet<&str> = PAGE.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        let codes: BTreeSet<&str> = ReasonCode::WORDS.into();
        assert_eq!(sections, codes);
    }

    #[test]
    fn the_page_has_each_section_below_the_condition_it_belongs_to() {
        for part in PAGE.split("\n## ").skip(1) {
            let (title, sections) = part.split_once('\n').unwrap();
            let Some(condition) = title.strip_prefix('`').and_then(|title| title.split_once('`')) else {
                continue;
            };
            for code in sections.lines().filter_map(|line| line.strip_prefix("### ")) {
                let code: ReasonCode = code.parse().unwrap();
                assert_eq!(code.condition().as_str(), condition.0, "{code}");
            }
        }
    }

    #[test]
    fn the_page_says_of_each_reason_code_what_it_means_where_to_look_and_what_to_do() {
        for section in PAGE.split("\n### ").skip(1).filter_map(|text| text.split("\n## ").next()) {
            let (code, text) = section.split_once('\n').unwrap();
            let (meaning, rest) =
                text.split_once("\n\n**Look:** ").unwrap_or_else(|| panic!("{code}: no part Look"));
            let (look, steps) =
                rest.split_once("\n\n**Do:** ").unwrap_or_else(|| panic!("{code}: no part Do"));
            assert!(meaning.len() > 20, "{code}: {meaning}");
            assert!(look.contains("`kubectl ") || look.contains("`docket "), "{code}: no command in {look}");
            let is_well = code.parse::<ReasonCode>().unwrap().remedy() == Remedy::Nothing;
            assert!(is_well || steps.len() > 20, "{code}: {steps}");
        }
    }

    #[test]
    fn the_page_has_a_row_for_each_condition_type_and_occurrence() {
        let rows: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("| `")).collect();
        for name in ConditionType::WORDS.into_iter().chain(Occurrence::WORDS) {
            let first = |row: &&&str| row.split('|').nth(1).unwrap().contains(&format!("`{name}`"));
            assert_eq!(rows.iter().filter(first).count(), 1, "{name}");
        }
    }
}
