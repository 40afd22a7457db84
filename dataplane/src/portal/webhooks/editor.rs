//! Edits of a webhook: what the portal declares is read, written and recorded.

use docket_crds::is_object_name;
use docket_domain::audit::{AuditEvent, AuditRecord};

use super::changed::changed;
use super::{NO_SUCH_WEBHOOK, find, is_of};
use crate::api::state::ApiState;
use crate::http::error::ApiError;
use crate::portal::removed;
use crate::portal::session::Viewer;
use crate::portal::writes::{
    Declared, DeclaredBy, NotWritten, StoredWebhook, WebhookEdit, WebhookWriter, Writes,
};

/// Edits the webhooks of a viewer.
pub(super) struct Editor<'a> {
    pub(super) state: &'a ApiState,
    pub(super) viewer: &'a Viewer,
    /// Where webhooks are declared. It was open when the editor was made.
    pub(super) writer: &'a WebhookWriter,
}

impl<'a> Editor<'a> {
    /// Makes an editor for this viewer.
    ///
    /// # Errors
    ///
    /// The portal declares no webhooks here, or can't do so now.
    pub(super) fn new(state: &'a ApiState, viewer: &'a Viewer, writes: &'a Writes) -> Result<Self, ApiError> {
        let writer = writes.as_deref().filter(|writer| writer.is_open()).ok_or(ApiError::Conflict(
            "The portal does not declare webhooks here; change the object, whose YAML is on the webhook's page",
        ))?;
        Ok(Self { state, viewer, writer })
    }

    /// Reads a webhook that the portal declares, served or not, by its namespace and name.
    pub(super) async fn stored(&self, name: &(String, String)) -> Result<StoredWebhook, ApiError> {
        let (is_served, config) = (find(self.viewer, name).is_some(), &self.viewer.caller.tenant.config);
        let (namespace, name) = name;
        if !is_served && (*namespace != config.namespace || !is_object_name(name)) {
            return Err(NO_SUCH_WEBHOOK);
        }
        match self.writer.find(namespace, name).await {
            Ok(DeclaredBy::Portal(stored)) if is_of(self.viewer, &stored.declared) => Ok(*stored),
            Ok(_) | Err(NotWritten::Changed) if !is_served => Err(NO_SUCH_WEBHOOK),
            Ok(_) => {
                Err(ApiError::Conflict("The portal does not declare this webhook; its page says who does"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Changes a webhook that was read, if it still is in this version, and records it: with the settings that changed, or with
    /// the name and the customer of a webhook that was removed.
    pub(super) async fn write(
        &self,
        before: &StoredWebhook,
        change: WebhookEdit<'_>,
        version: &str,
        event: AuditEvent,
    ) -> Result<(), NotWritten> {
        let written = self.writer.write(before, change, version).await;
        let spec = &before.declared.spec;
        let detail = match change {
            WebhookEdit::Replace(after) => changed(spec, &after.spec),
            WebhookEdit::Remove => removed::detail(spec),
        };
        self.recorded(self.entry(event, &before.declared).saying(detail.as_deref()), written)
    }

    /// Records a change that was made, or may have been.
    pub(super) fn recorded(
        &self,
        entry: AuditRecord,
        written: Result<(), NotWritten>,
    ) -> Result<(), NotWritten> {
        if matches!(written, Ok(()) | Err(NotWritten::Unknown)) {
            self.record(entry);
        }
        written
    }

    pub(super) fn record(&self, entry: AuditRecord) {
        self.state.audit.record(&self.viewer.caller.tenant, entry);
    }

    /// An entry about a webhook.
    pub(super) fn entry(&self, event: AuditEvent, declared: &Declared) -> AuditRecord {
        self.viewer.caller.entry(self.state, event).about("webhook", &declared.full_name())
    }
}
