//! The audit: who did what, by ids, times and counts. The address of a client is the one exception.

use std::net::IpAddr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::token::TokenSubject;

docket_crds::words! {
    /// What an audit records.
    pub enum AuditEvent {
        /// A contact or an employee signed in, once or several times.
        SignedIn,
        /// Sign-ins were refused.
        SignInRefused,
        /// A contact or an employee was signed out everywhere.
        SignedOut,
        /// A contact or an employee was given another password.
        PasswordChanged,
        /// An administrator read the payload of a delivery.
        PayloadRead,
        /// A user of the cluster read the names of contacts or employees, and their e-mail addresses or check-in names.
        PeopleRead,
        /// A delivery was resent.
        DeliveryResent,
        /// A test event was sent to a webhook.
        TestSent,
        /// The dead letters of a webhook were resent.
        ResendStarted,
        /// A bulk resend was stopped.
        ResendStopped,
        /// Dead letters were set aside: one delivery, or all dead letters of a webhook.
        DeadLettersSetAside,
        /// The setting aside of dead letters was undone.
        SetAsideUndone,
        /// A webhook was added in the portal.
        WebhookAdded,
        /// The settings of a webhook were changed in the portal.
        WebhookChanged,
        /// A webhook was activated in the portal.
        WebhookActivated,
        /// A webhook was deactivated in the portal.
        WebhookDeactivated,
        /// A next signing secret of a webhook was generated in the portal; or the first secret, if the webhook had none.
        NextSecretMade,
        /// In the portal, the next signing secret of a webhook became the current one.
        NextSecretPromoted,
        /// The next signing secret of a webhook was dropped in the portal.
        NextSecretDropped,
        /// A signing secret of a webhook was shown in the portal.
        SecretShown,
        /// A webhook was removed in the portal.
        WebhookRemoved,
        /// A user subscribed to changes of webhooks, or chose other states for a subscription.
        SubscriptionAdded,
        /// The owner of an address confirmed a subscription.
        SubscriptionConfirmed,
        /// A subscription ended.
        SubscriptionEnded,
        /// A customer was added.
        CustomerAdded,
        /// A contact was added.
        ContactAdded,
        /// An employee was added.
        EmployeeAdded,
        /// A contact was given the right to manage webhooks, or an employee became an administrator.
        RightGranted,
        /// That right was taken back.
        RightRevoked,
        /// A contact or an employee was deactivated.
        UserDeactivated,
        /// A contact or an employee was activated again.
        UserActivated;
        /// An event of a newer version of Docket, which has stored it: its word. This version records no such event.
        else Unknown
    }
}

/// The longest actor or subject, in characters. Codes of people have at most 64, unless another program wrote them.
const MAX_TEXT: usize = 128;
/// The longest detail, in characters.
const MAX_DETAIL: usize = 256;

/// The user or program that did the action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Actor {
    /// A contact, by code.
    Contact(String),
    /// An employee, by code.
    Employee(String),
    /// A user of the command line, by the user's id in the operating system.
    CommandLine(u32),
    /// A user of the Kubernetes cluster, by the name that its API server knows.
    ClusterUser(String),
}

impl Actor {
    /// Whether a text may be a displayed actor, by its first words.
    pub fn is_shown(text: &str) -> bool {
        ["contact ", "employee ", "command line (", "cluster user "].iter().any(|kind| text.starts_with(kind))
    }

    /// The contact or employee that a displayed actor names; `None`: it names no person of the tenant.
    pub fn person(displayed: &str) -> Option<Self> {
        let (kind, code) = displayed.split_once(' ')?;
        match kind {
            "contact" => Some(Self::Contact(code.to_owned())),
            "employee" => Some(Self::Employee(code.to_owned())),
            _ => None,
        }
    }
}

impl From<&TokenSubject> for Actor {
    fn from(subject: &TokenSubject) -> Self {
        match subject {
            TokenSubject::Contact { contact_code, .. } => Self::Contact(contact_code.clone()),
            TokenSubject::Employee { employee_code, .. } => Self::Employee(employee_code.clone()),
        }
    }
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Contact(code) => write!(f, "contact {code}"),
            Self::Employee(code) => write!(f, "employee {code}"),
            Self::CommandLine(uid) => write!(f, "command line (uid {uid})"),
            Self::ClusterUser(name) => write!(f, "cluster user {name}"),
        }
    }
}

/// Where a request came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The client's address; `None`: a proxy did not name it, or there was no request.
    pub address: Option<IpAddr>,
    /// The request's id; `None`: there was none, or there were several.
    pub request_id: Option<String>,
}

/// One entry of a tenant's audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// When the event happened or began, in milliseconds since 1970.
    pub at_ms: i64,
    /// The entry's id, the same in the stream and in the database.
    pub id: String,
    /// What happened.
    pub event: AuditEvent,
    /// The user or program that did the action, in the form in which [`Actor`] is displayed; `None`: no one signed in.
    pub actor: Option<String>,
    /// The object of the event: a kind and an id; `None`: the event concerns only the actor.
    pub subject: Option<String>,
    /// Where the request came from.
    pub origin: Origin,
    /// The number of sign-ins, refused sign-ins, deliveries of a bulk resend, or dead letters that were set aside; 1
    /// for other events.
    pub count: i64,
    /// Which settings of a webhook changed, or the name and the customer of a webhook that was removed; `None`: the event needs no
    /// detail.
    pub detail: Option<String>,
}

impl AuditRecord {
    /// An entry for `event` at `at_ms`, with the random bytes `id` as its id. Actor and subject are cut at 128 characters,
    /// the detail at 256.
    pub fn new(event: AuditEvent, at_ms: i64, id: [u8; 8]) -> Self {
        let origin = Origin::default();
        Self { at_ms, id: hex::encode(id), event, actor: None, subject: None, origin, count: 1, detail: None }
    }

    /// Sets the actor: the user or command that did it.
    #[must_use]
    pub fn by(self, actor: &Actor) -> Self {
        Self { actor: Some(cut(&actor.to_string(), MAX_TEXT)), ..self }
    }

    /// Sets the subject: a kind, such as `delivery`, and an id.
    #[must_use]
    pub fn about(self, kind: &str, id: &str) -> Self {
        Self { subject: Some(subject(kind, id)), ..self }
    }

    /// Sets the detail.
    #[must_use]
    pub fn saying(self, detail: Option<&str>) -> Self {
        Self { detail: detail.map(|detail| cut(detail, MAX_DETAIL)), ..self }
    }

    /// Sets the origin of the request.
    #[must_use]
    pub fn at(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    /// Sets the count.
    #[must_use]
    pub fn times(self, count: i64) -> Self {
        Self { count, ..self }
    }
}

/// The subject of entries about this object: a kind, such as `webhook`, and an id.
pub fn subject(kind: &str, id: &str) -> String {
    cut(&format!("{kind} {id}"), MAX_TEXT)
}

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// A digest that stands for the name of a user who did not sign in. Without the tenant's key, no one can find the
/// name by trying names. `kind` distinguishes users of one endpoint from users of another.
pub fn name_digest(key: &[u8], kind: &str, name: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in [b"audit".as_slice(), kind.as_bytes(), name.as_bytes()] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    hex::encode(&mac.finalize().into_bytes()[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut() {
        let actor = Actor::Contact("ö".repeat(500));
        let (record, long) = (AuditRecord::new(AuditEvent::SignedIn, 1, [7; 8]), "x".repeat(500));
        let record = record.by(&actor).about("contact", &long).saying(Some(&long));
        let texts = [record.actor, record.subject.clone(), record.detail];
        let lengths = texts.map(|text| text.map(|text| text.chars().count()));
        assert_eq!(lengths, [Some(MAX_TEXT), Some(MAX_TEXT), Some(MAX_DETAIL)]);
        assert_eq!(record.subject, Some(subject("contact", &long)), "a search finds what was cut");
        assert_eq!(record.id, "0707070707070707");
    }

    #[test]
    fn digest_of_a_name_depends_on_the_key_the_kind_and_the_name() {
        let digest = name_digest(&[1; 32], "contact", "ada@one.example");
        assert_eq!(digest.len(), 16);
        assert_eq!(digest, name_digest(&[1; 32], "contact", "ada@one.example"));
        for other in [
            name_digest(&[2; 32], "contact", "ada@one.example"),
            name_digest(&[1; 32], "employee", "ada@one.example"),
            name_digest(&[1; 32], "contact", "ada@one.exampl"),
            name_digest(&[1; 32], "contacta", "da@one.example"),
        ] {
            assert_ne!(digest, other);
        }
    }

    #[test]
    fn actor_is_shown_with_its_kind() {
        let subject = TokenSubject::Employee { employee_code: "51".into(), administrator: true };
        assert_eq!(Actor::from(&subject).to_string(), "employee 51");
        assert_eq!(Actor::CommandLine(1000).to_string(), "command line (uid 1000)");
        assert_eq!(Actor::ClusterUser("ops@one.example".into()).to_string(), "cluster user ops@one.example");
        let others = [Actor::Contact("9".into()), Actor::CommandLine(0), Actor::ClusterUser("ops".into())];
        assert!(
            Actor::is_shown("employee 51") && others.iter().all(|actor| Actor::is_shown(&actor.to_string()))
        );
        assert!(!["ada@one.example", "employee", "contacts"].iter().any(|typed| Actor::is_shown(typed)));
    }

    #[test]
    fn person_is_found_in_what_is_shown_and_no_one_else_is() {
        for person in [Actor::Contact("C 1".into()), Actor::Employee("52".into())] {
            assert_eq!(Actor::person(&person.to_string()), Some(person));
        }
        for other in [Actor::CommandLine(0), Actor::ClusterUser("contact 1".into())] {
            assert_eq!(Actor::person(&other.to_string()), None, "{other}");
        }
        assert_eq!(Actor::person("employee"), None);
    }
}
