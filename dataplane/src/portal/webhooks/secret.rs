//! Shows the secret that a change has made, once.

use axum::response::{Html, IntoResponse, Response};
use docket_crds::SecretBytes;
use docket_domain::audit::AuditEvent;
use docket_domain::signature;
use docket_portal::webhooks::secret::{self, Secret, SecretDisplay};
use docket_store::shown_secrets;
use sha2::{Digest, Sha256};

use super::editor::Editor;
use super::view::takes;
use crate::http::error::ApiError;
use crate::portal::writes::Declared;

impl Editor<'_> {
    /// Shows the secret that a change has made, if nothing has shown it before.
    pub(super) async fn show_secret(&self, declared: &Declared) -> Result<Response, ApiError> {
        let is_next = declared.has_next();
        let webhook = self.until_served(declared).await;
        let active = webhook.as_ref().filter(|webhook| webhook.active);
        let takes = active.map(|webhook| takes(self.viewer, webhook)).unwrap_or_default();
        let made = webhook.and_then(|webhook| if is_next { webhook.next_secret } else { webhook.secret });
        let shown = match made {
            Some(secret) => self.shown(declared, &secret).await?,
            None => SecretDisplay::NotYet,
        };
        let full_name = declared.full_name();
        let name = declared.spec.display_name.as_deref().unwrap_or(&full_name);
        let secret = Secret { full_name: &full_name, name, is_next, shown, takes };
        Ok(Html(secret::page(self.viewer.frame(), &secret)).into_response())
    }

    /// Marks the secret as shown, and shows it unless it was marked before.
    async fn shown(&self, declared: &Declared, secret: &SecretBytes) -> Result<SecretDisplay, ApiError> {
        let bytes = secret.expose();
        let mut transaction = self.viewer.caller.tenant.store.begin(&self.state.clock).await?;
        let now_ms = transaction.now_ms();
        let digest = hex::encode(Sha256::digest(bytes));
        let is_first = shown_secrets::mark(&mut transaction, &digest, now_ms).await?;
        transaction.commit().await?;
        if !is_first {
            return Ok(SecretDisplay::Before);
        }
        self.record(self.entry(AuditEvent::SecretShown, declared));
        let secret = String::from_utf8_lossy(bytes).into_owned();
        Ok(SecretDisplay::Now { secret, whsec: signature::whsec(bytes) })
    }
}
