//! Names that users meet in Kubernetes: reasons of Events, labels and annotations.

use std::fmt::Write;

use docket_crds::{ConditionType, Occurrence, ReasonCode, Remedy};
use docket_operator::state::labels;

/// The tables of the reasons of Events.
pub(super) fn events() -> String {
    let mut page = "\n## Something happened once\n\n| Reason | |\n|---|---|\n".to_owned();
    for occurrence in Occurrence::ALL {
        writeln!(page, "| `{occurrence}` | {} |", super::cell(&occurrence.about()))
            .expect("a String takes all");
    }
    page += "\n## A condition changed\n\n| Reason | Type | |\n|---|---|---|\n";
    for code in ReasonCode::ALL.iter().filter(|code| !code.is_usual()) {
        let kind = match code.remedy() {
            Remedy::Nothing | Remedy::Chosen => "Normal",
            Remedy::Retry | Remedy::Arrival | Remedy::Change => "Warning",
        };
        let about = super::cell(&code.about());
        writeln!(page, "| [`{code}`](conditions.md#{}) | {kind} | {about} |", code.as_str().to_lowercase())
            .expect("a String takes all");
    }
    page
}

/// What each type of condition says.
pub(super) fn conditions() -> String {
    let rows =
        ConditionType::ALL.iter().map(|kind| format!("| `{kind}` | {} |\n", super::cell(&kind.about())));
    format!("| Condition | |\n|---|---|\n{}", rows.collect::<String>())
}

/// The labels, annotations and finalizers, with who sets each.
pub(super) fn labels() -> String {
    let row =
        |name: &str, on: &str, who: &str, about: &str| format!("| `{name}` | {on} | {who} | {about} |\n");
    let rows = [
        row(
            labels::WATCH,
            "label of a Secret or ConfigMap",
            "you",
            "With the value `true`, a change of the object takes effect at once. Without the label, it takes effect at the next check: within ten minutes, or later if the operator checks many.",
        ),
        row(
            labels::RECONCILE,
            "annotation of a Tenant or Webhook",
            "you",
            "With the value `disabled`, the operator is paused for the object.",
        ),
        row(
            labels::REQUESTED_AT,
            "annotation of a Tenant or Webhook",
            "you",
            "Any new value requests a reconciliation. The operator then copies the value to `status.lastHandledReconcileAt`.",
        ),
        row(
            labels::ADOPT_DATABASE,
            "annotation of a Tenant",
            "you",
            "The name of the database of an earlier Tenant that this one takes over.",
        ),
        row(
            labels::MIGRATE_FIRST,
            "label of a Tenant",
            "you",
            "With the value `true`, the Tenant's database is migrated before the databases of Tenants without the label. If its migration fails, no other begins.",
        ),
        row(
            labels::PAUSE_MIGRATIONS,
            "annotation of a Tenant",
            "you",
            "With the value `true`, the operator does not migrate the Tenant's database, once it is made.",
        ),
        row(
            labels::MANAGED_BY,
            "label",
            "the operator",
            "`docket-operator` on the Secrets that the operator creates. A copy that you make of one stays when the operator deletes its own: it deletes only what it has written itself, by `metadata.managedFields`.",
        ),
        row(
            labels::MANAGED_BY,
            "label of a Webhook",
            "the portal",
            "`docket-portal` on the Webhooks that the portal declares, changes and removes. Other Webhooks it only shows.",
        ),
        row(
            labels::TENANT_UID,
            "label of a Secret",
            "the operator",
            "The uid of the Tenant that the Secret was created for.",
        ),
        row(
            labels::TENANT,
            "annotation of a Secret",
            "the operator",
            "The Tenant that the Secret was created for, as `namespace/name`.",
        ),
        row(
            labels::ROTATION,
            "annotation of a Secret",
            "the operator",
            "The rotation generation that the value was generated for.",
        ),
        row(
            labels::CUSTOMER,
            "annotation of a Secret",
            "the operator",
            "The customer whose Webhook the signing secret was generated for.",
        ),
        row(
            labels::UNUSED_SINCE,
            "annotation of a Secret",
            "the operator",
            "Since when no Webhook asks for the signing secret. The operator deletes the Secret a day after the grace of deleted Webhooks (`--webhook-grace`).",
        ),
        row(
            labels::WEBHOOK,
            "annotation of a Secret",
            "the operator",
            "The Webhook whose signing secret was set aside, because a Webhook of another customer or Tenant has its name now.",
        ),
        row(
            docket_crds::runtime::LABEL,
            "label of a Secret",
            "the operator",
            "Marks the runtime Secrets that the data plane reads.",
        ),
        row(
            labels::FINALIZER,
            "finalizer of a Tenant",
            "the operator",
            "Keeps a Tenant with the deletion policy `Delete` until its database is dropped.",
        ),
    ];
    format!("| Name | On | Set by | |\n|---|---|---|---|\n{}", rows.concat())
}
