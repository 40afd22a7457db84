//! Webhooks that are gone: neither served nor on hold. Their queued deliveries wait for the grace, then they end as `WebhookGone`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use docket_crds::webhook_key;
use docket_domain::delivery::{DeliveryId, Due};
use docket_program::clock::millis;
use docket_store::deliveries::{self, MOST_COUNTED, MissingWebhook};
use docket_store::{Database, StoreError};
use jiff::Timestamp;

use super::Scan;
use crate::tenancy::{SOURCE_LAG, ServedTenant};

/// The grace of a missing webhook begins again when no sweep has seen it missing for this time: no worker ran, the tenant was suspended or
/// its Tenant deleted, or the database is an old one. More than several intervals of the sweep.
pub(in crate::delivery::upkeep::sweep) const UNSEEN: Duration = Duration::from_secs(10 * 60);
/// How often sweeps record that they see a webhook missing.
const SEE: Duration = Duration::from_secs(60);

/// What a sweep knows of the webhooks that are gone.
pub(super) struct Gone {
    /// The webhooks that sweeps have recorded as missing, by key.
    missing: BTreeMap<String, MissingWebhook>,
    /// The keys of webhooks for which this sweep has found queued deliveries.
    queued: BTreeSet<String>,
}

impl Gone {
    /// Returns the missing webhooks without queued deliveries, after a sweep of the whole queue.
    pub(super) fn without_deliveries(self) -> Vec<MissingWebhook> {
        let Self { missing, queued } = self;
        missing.into_values().filter(|missing| !queued.contains(&missing.webhook)).collect()
    }

    /// Whether the webhook has been missing since this time, in milliseconds since 1970.
    fn is_missing_since(&self, webhook: &str, since_ms: i64) -> bool {
        self.missing.get(webhook).is_some_and(|missing| missing.since_ms <= since_ms)
    }
}

impl Scan {
    /// Records that these webhooks are still missing, if that was not recorded within the last minute. While the declarations can't be read,
    /// no webhook counts as gone.
    pub(super) async fn see(
        &self,
        database: &Database,
        missing: Vec<MissingWebhook>,
        now: Timestamp,
    ) -> Result<Gone, StoreError> {
        let queued = BTreeSet::new();
        if !self.tenants.is_current() {
            return Ok(Gone { missing: BTreeMap::new(), queued });
        }
        let recent_ms = now.as_millisecond() - millis(SEE);
        let (recent, others): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|missing| missing.seen_ms > recent_ms);
        let others = others.iter().map(|missing| missing.webhook.as_str()).collect();
        let mut seen = self.note(database, others, now).await?;
        seen.extend(recent.into_iter().map(|missing| (missing.webhook.clone(), missing)));
        Ok(Gone { missing: seen, queued })
    }

    /// Records that these webhooks are missing, and returns what the database then has of each, by key.
    async fn note(
        &self,
        database: &Database,
        webhooks: BTreeSet<&str>,
        now: Timestamp,
    ) -> Result<BTreeMap<String, MissingWebhook>, StoreError> {
        if webhooks.is_empty() {
            return Ok(BTreeMap::new());
        }
        let now_ms = now.as_millisecond();
        let mut transaction = database.begin(&self.clock).await?;
        let noted =
            deliveries::note_missing(&mut transaction, webhooks, now_ms, now_ms - millis(self.unseen))
                .await?;
        transaction.commit().await?;
        Ok(noted.into_iter().map(|missing| (missing.webhook.clone(), missing)).collect())
    }

    /// Records the webhooks of these deliveries that are gone, and ends deliveries whose webhook is gone for longer than the grace. Does
    /// neither while the declarations can't be read.
    pub(super) async fn end_without_webhook(
        &self,
        tenant: &ServedTenant,
        page: &[Due],
        gone: &mut Gone,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        // The sweep may have waited with an older configuration, so it takes the tenant as it is served now.
        let Some(tenant) = self.tenants.by_uid(&tenant.uid) else { return Ok(()) };
        let is_gone = |due: &&Due| tenant.webhook(&due.webhook).is_none() && !tenant.holds(&due.webhook);
        let mut dues: Vec<&Due> = page.iter().filter(is_gone).collect();
        if dues.is_empty() || !self.tenants.is_current() {
            return Ok(());
        }
        let database = tenant.store.ready(&self.clock).await?;
        let webhooks: BTreeSet<&str> = dues.iter().map(|due| due.webhook.as_str()).collect();
        let new = webhooks.iter().copied().filter(|webhook| !gone.missing.contains_key(*webhook)).collect();
        let new = self.note(database, new, now).await?;
        gone.missing.extend(new);
        gone.queued.extend(webhooks.into_iter().map(str::to_owned));
        let since_ms = now.as_millisecond() - millis(self.grace);
        dues.retain(|due| gone.is_missing_since(&due.webhook, since_ms));
        if dues.is_empty() {
            return Ok(());
        }
        self.end(&tenant, &dues, gone, now).await
    }

    /// Ends these deliveries, whose webhooks are gone for longer than the grace. Logs each webhook for which this is the first time.
    async fn end(
        &self,
        tenant: &ServedTenant,
        dues: &[&Due],
        gone: &mut Gone,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let database = tenant.store.database();
        let ids: Vec<DeliveryId> = dues.iter().map(|due| due.id).collect();
        let is_new = |webhook: &&str| gone.missing.get(*webhook).is_some_and(|missing| !missing.is_ending);
        let new: BTreeSet<&str> = dues.iter().map(|due| due.webhook.as_str()).filter(is_new).collect();
        let counts = deliveries::count_queued(&mut database.reader().await?, new.iter().copied()).await?;
        let now_ms = now.as_millisecond();
        // A process with older declarations may not know that a webhook is declared again. Newer deliveries were published for
        // the new webhook.
        let created_ms = now_ms - millis(self.grace.min(SOURCE_LAG));
        let since_ms = now_ms - millis(self.grace);
        let mut transaction = database.begin(&self.clock).await?;
        let begun = deliveries::begin_to_end(&mut transaction, new).await?;
        let end_ms = transaction.now_ms();
        let ended =
            deliveries::end_without_webhook(&mut transaction, &ids, since_ms, created_ms, end_ms).await?;
        transaction.commit().await?;
        self.metrics.webhook_gone(ended);
        for webhook in begun {
            self.warn_of_ending(tenant, &webhook, counts.as_ref());
            if let Some(missing) = gone.missing.get_mut(&webhook) {
                missing.is_ending = true;
            }
        }
        Ok(())
    }

    /// Logs that the deliveries of a webhook end. `counts`: the number of its queued deliveries, by key; `None`: they are too many to count.
    fn warn_of_ending(&self, tenant: &ServedTenant, webhook: &str, counts: Option<&BTreeMap<String, i64>>) {
        // The name in the log leaves out the customer's code.
        let name = webhook_key::full_name(webhook).unwrap_or(webhook);
        let (code, grace) = (tenant.config.client_code.as_str(), self.grace.as_secs());
        let count = match counts {
            Some(counts) => counts.get(webhook).copied().unwrap_or_default().to_string(),
            None => format!("more than {MOST_COUNTED} in all"),
        };
        tracing::warn!(
            tenant.code = code,
            webhook.name = name,
            count,
            "the queued deliveries of the webhook end as WebhookGone: it has not been declared for {grace} s; declare it again and resend what is still wanted"
        );
    }

    /// Forgets that these webhooks were missing.
    pub(super) async fn forget(
        &self,
        database: &Database,
        missing: &[MissingWebhook],
    ) -> Result<(), StoreError> {
        if missing.is_empty() {
            return Ok(());
        }
        let mut transaction = database.begin(&self.clock).await?;
        let webhooks = missing.iter().map(|missing| missing.webhook.as_str());
        deliveries::forget_missing(&mut transaction, webhooks).await?;
        transaction.commit().await
    }
}
