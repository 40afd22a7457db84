//! Looks up and checks references to Secrets and ConfigMaps. A message never quotes a value.

use std::collections::HashMap;

use super::{
    GeneratedDatabase, Inputs, MAX_CA_BUNDLE, MAX_VALUE, Missing, SigningSecrets, Values, authority,
};
use crate::conditions::ReasonCode;
use crate::database_secret::{self, CERTIFICATE_KEYS, InvalidDatabaseSecret, KEYS};
use crate::pem;
use crate::tenant::{ApiKeySpec, ExternalDatabase, SecretKeyRef};
use crate::webhook::SecretRef;
use crate::{ApiKeyDigest, DatabaseUrl, NotAnApiKey, Reason, SecretBytes, ValueKind, Webhook};

/// One key of one object.
struct Reference<'a> {
    kind: ValueKind,
    namespace: &'a str,
    name: &'a str,
    key: &'a str,
    field: &'a str,
}

impl Reference<'_> {
    fn look_up(&self, values: &dyn Values) -> Result<Vec<u8>, Reason> {
        self.read(values).map_err(|missing| self.missing(missing))
    }

    fn read(&self, values: &dyn Values) -> Result<Vec<u8>, Missing> {
        let value = values.get(self.kind, self.namespace, self.name, self.key)?;
        if value.len() > MAX_VALUE { Err(Missing::TooLarge) } else { Ok(value) }
    }

    fn missing(&self, missing: Missing) -> Reason {
        let Self { kind, namespace, name, key, field } = *self;
        let (code, kind_name) = (code_of(kind, missing), kind.as_str());
        let message = match missing {
            Missing::NotFound => format!("there is no {kind_name} {name:?} in namespace {namespace:?}"),
            Missing::KeyNotFound => format!("{kind_name} {namespace}/{name} has no key {key:?}"),
            Missing::TooLarge => return self.invalid(code, &format!("must have at most {MAX_VALUE} bytes")),
        };
        Reason::new(code, field, message)
    }

    fn invalid(&self, code: ReasonCode, what: &str) -> Reason {
        let Self { kind, namespace, name, key, field } = *self;
        let kind = kind.as_str();
        Reason::new(code, field, format!("key {key:?} of {kind} {namespace}/{name}: {what}"))
    }
}

const fn code_of(kind: ValueKind, missing: Missing) -> ReasonCode {
    match (kind, missing) {
        (ValueKind::Secret, Missing::NotFound) => ReasonCode::SecretNotFound,
        (ValueKind::Secret, Missing::KeyNotFound) => ReasonCode::SecretKeyMissing,
        (ValueKind::Secret, Missing::TooLarge) => ReasonCode::SecretInvalid,
        (ValueKind::ConfigMap, Missing::TooLarge) => ReasonCode::InvalidCaBundle,
        (ValueKind::ConfigMap, Missing::NotFound) => ReasonCode::ConfigMapNotFound,
        (ValueKind::ConfigMap, Missing::KeyNotFound) => ReasonCode::ConfigMapKeyMissing,
    }
}

fn of_tenant<'a>(inputs: &Inputs<'a>, secret: &'a SecretKeyRef, field: &'a str) -> Reference<'a> {
    let namespace = &inputs.tenant.metadata.namespace;
    Reference { kind: ValueKind::Secret, namespace, name: &secret.name, key: &secret.key, field }
}

/// The value as text, without the line break that editors and `echo` put at the end.
fn text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let line = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n'));
    Some(line.unwrap_or(text))
}

/// The digest of a declared or generated key.
pub(super) fn api_key(inputs: &Inputs<'_>, spec: &ApiKeySpec, field: &str) -> Result<ApiKeyDigest, Reason> {
    let Some(secret) = &spec.secret_key_ref else {
        return generated_key(inputs, &spec.name, field);
    };
    let field = format!("{field}.secretKeyRef");
    let reference = of_tenant(inputs, secret, &field);
    let value = reference.look_up(inputs.values)?;
    let digest = text(&value).ok_or(NotAnApiKey).and_then(ApiKeyDigest::of);
    digest.map_err(|error| reference.invalid(ReasonCode::SecretInvalid, &error.to_string()))
}

fn generated_key(inputs: &Inputs<'_>, name: &str, field: &str) -> Result<ApiKeyDigest, Reason> {
    let field = format!("{field}.generate");
    match inputs.generated.api_keys.get(name).map(|key| ApiKeyDigest::of(key)) {
        Some(Ok(digest)) => Ok(digest),
        Some(Err(error)) => Err(Reason::new(ReasonCode::SecretInvalid, field, error.to_string())),
        None => Err(Reason::new(ReasonCode::Pending, field, format!("key {name:?} is not generated yet"))),
    }
}

/// The URL of the tenant's database; `None` in the embedded mode.
pub(super) fn database(inputs: &Inputs<'_>) -> Result<Option<DatabaseUrl>, Reason> {
    let ensured = match &inputs.generated.database {
        GeneratedDatabase::Embedded => return Ok(None),
        GeneratedDatabase::Declared => None,
        GeneratedDatabase::Ensured(url) => Some(url),
    };
    let (mut declared, mut field) = (None, "spec.database.managed");
    if let Some(external) = &inputs.tenant.spec.database.external {
        field = if external.secret_ref.is_some() { SECRET_REF } else { SECRET_KEY_REF };
        // The Secret's URL is checked even if the operator's URL is used, so that the user sees its error.
        declared = Some(external_database_url(inputs.values, &inputs.tenant.metadata.namespace, external)?);
    }
    // The operator's URL wins: a new URL in the Secret replaces a working one only after the operator has prepared it.
    let url = ensured.map_or(declared, Clone::clone);
    let unprepared =
        || Reason::new(ReasonCode::Provisioning, field, "the database is not created or migrated yet");
    url.map(Some).ok_or_else(unprepared)
}

const SECRET_KEY_REF: &str = "spec.database.external.secretKeyRef";
const SECRET_REF: &str = "spec.database.external.secretRef";
const CERTIFICATE_SECRET_REF: &str = "spec.database.external.certificateSecretRef";

/// The URL of the database that a Tenant in this namespace declares as external, from its Secrets.
pub fn external_database_url(
    values: &dyn Values,
    namespace: &str,
    external: &ExternalDatabase,
) -> Result<DatabaseUrl, Reason> {
    let reference = |name, key, field| Reference { kind: ValueKind::Secret, namespace, name, key, field };
    if let Some(secret) = &external.secret_key_ref {
        let reference = reference(&secret.name, &secret.key, SECRET_KEY_REF);
        let value = reference.look_up(values)?;
        let url = DatabaseUrl::parse(text(&value).unwrap_or_default());
        return url.map_err(|error| reference.invalid(ReasonCode::SecretInvalid, &error.to_string()));
    }
    let mut found = HashMap::new();
    for key in KEYS.into_iter().chain(CERTIFICATE_KEYS) {
        let name = external.secret_of(key).unwrap_or_default();
        let is_apart = external.certificate_secret_ref.is_some() && CERTIFICATE_KEYS.contains(&key);
        let reference = reference(name, key, if is_apart { CERTIFICATE_SECRET_REF } else { SECRET_REF });
        match reference.read(values) {
            Ok(value) => drop(found.insert(key, value)),
            Err(Missing::KeyNotFound) => {}
            Err(missing) => return Err(reference.missing(missing)),
        }
    }
    let url = database_secret::url(&|key| found.get(key).cloned(), &external.beside());
    url.map_err(|error| {
        let name = external.secret_name().unwrap_or_default();
        let message = format!("Secret {namespace}/{name}: {error}");
        Reason::new(code_of_database_secret(&error), SECRET_REF, message)
    })
}

const fn code_of_database_secret(error: &InvalidDatabaseSecret) -> ReasonCode {
    match error {
        InvalidDatabaseSecret::NoPart(_)
        | InvalidDatabaseSecret::NoUser
        | InvalidDatabaseSecret::NoPassword => ReasonCode::SecretKeyMissing,
        _ => ReasonCode::SecretInvalid,
    }
}

/// The secrets that sign deliveries; `None`: the webhook has no secret. An empty secret is an error, so that
/// deliveries never go out unsigned by mistake.
pub(super) fn signing_secrets(
    inputs: &Inputs<'_>,
    uid: &str,
    webhook: &Webhook,
) -> Result<Option<SigningSecrets>, Reason> {
    if webhook.spec.generate_secret.is_some() {
        return generated_secrets(inputs, uid, webhook).map(Some);
    }
    let Some(SecretRef { name, key, next_key }) = &webhook.spec.secret_ref else {
        return Ok(None);
    };
    let (values, namespace) = (inputs.values, &webhook.metadata.namespace);
    let reference = |key, field| Reference { kind: ValueKind::Secret, namespace, name, key, field };
    let reference_to_current = reference(key, "spec.secretRef");
    let current = SecretBytes::from(reference_to_current.look_up(values)?);
    if current.is_empty() {
        let what = "must not be empty; leave out secretRef for unsigned deliveries";
        return Err(reference_to_current.invalid(ReasonCode::SecretInvalid, what));
    }
    let next = match next_key {
        Some(next_key) => {
            let reference = reference(next_key, "spec.secretRef.nextKey");
            let next = match reference.read(values) {
                Ok(next) => Some(SecretBytes::from(next)),
                Err(Missing::NotFound | Missing::KeyNotFound) => None,
                Err(too_large @ Missing::TooLarge) => return Err(reference.missing(too_large)),
            };
            if next.as_ref().is_some_and(SecretBytes::is_empty) {
                let what = "must not be empty; remove the key from the Secret while there is no next secret";
                return Err(reference.invalid(ReasonCode::SecretInvalid, what));
            }
            next.filter(|next| *next != current)
        }
        None => None,
    };
    Ok(Some(SigningSecrets { current, next }))
}

fn generated_secrets(inputs: &Inputs<'_>, uid: &str, webhook: &Webhook) -> Result<SigningSecrets, Reason> {
    const FIELD: &str = "spec.generateSecret";
    if webhook.metadata.namespace != inputs.tenant.metadata.namespace {
        let message =
            "secrets are generated only in the Tenant's own namespace; name a Secret with secretRef";
        return Err(Reason::new(ReasonCode::SecretInvalid, FIELD, message));
    }
    match inputs.generated.webhook_secrets.get(uid) {
        Some(made) => made.clone(),
        None => Err(Reason::new(ReasonCode::Pending, FIELD, "the secret is not generated yet")),
    }
}

/// The certificates to trust for this receiver.
pub(super) fn ca_bundle(values: &dyn Values, webhook: &Webhook) -> Result<Option<String>, Reason> {
    let Some(bundle) = &webhook.spec.ca_bundle_ref else {
        return Ok(None);
    };
    let reference = Reference {
        kind: bundle.kind,
        namespace: &webhook.metadata.namespace,
        name: &bundle.name,
        key: &bundle.key,
        field: "spec.caBundleRef",
    };
    let value = reference.look_up(values)?;
    let certificates = pem::certificates(&value)
        .map_err(|bad| reference.invalid(ReasonCode::InvalidCaBundle, &bad.to_string()))?;
    let text = pem::text(&certificates);
    if text.len() > MAX_CA_BUNDLE {
        let what = format!("must have at most {MAX_CA_BUNDLE} bytes of certificates, not {}", text.len());
        return Err(reference.invalid(ReasonCode::InvalidCaBundle, &what));
    }
    if let Some(why) = authority::refusal(&certificates) {
        return Err(reference.invalid(ReasonCode::InvalidCaBundle, &why));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_excludes_one_line_break_at_the_end() {
        assert_eq!(text(b"abc\n"), Some("abc"));
        assert_eq!(text(b"abc\r\n"), Some("abc"));
        assert_eq!(text(b"abc\n\n"), Some("abc\n"));
        assert_eq!(text(&[0xff]), None);
    }
}
