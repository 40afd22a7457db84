//! `docket tenants` and `docket webhooks`: what is declared, without secrets.

use anyhow::Result;
use docket_commands::arguments::Output;
use docket_commands::text;
use docket_crds::{Runtime, webhook_key};
use docket_program::screen::{clean, clean_lines};
use docket_source::{Declaration, Folder};
use serde_json::{Value, json};

use super::table::table;
use super::tenant::{find, of_cluster, of_folder};
use crate::args::{TenantsCommand, WebhooksCommand};

/// `docket tenants …`
pub async fn tenants(command: TenantsCommand) -> Result<()> {
    let TenantsCommand::List { printed, source, config_namespace, limits } = command;
    let (declaration, _) = match &config_namespace {
        Some(namespace) => of_cluster(namespace).await?,
        None => {
            let folder = Folder::new(source.config_dir.clone(), source.data_dir.clone());
            let folder = folder.with_limits(limits.read()?);
            of_folder(folder, &source).await?
        }
    };
    for problem in &declaration.problems {
        eprintln!("not served as written: {}", clean_lines(&problem.to_string()));
    }
    match printed.output {
        Output::Json => text::json(&json!({ "tenants": tenant_objects(&declaration) })),
        Output::Table | Output::Wide if declaration.tenants.is_empty() => println!("No tenants."),
        Output::Table | Output::Wide => print!("{}", tenant_table(&declaration)),
    }
    Ok(())
}

fn tenant_objects(declaration: &Declaration) -> Vec<Value> {
    let tenants = declaration.tenants.iter().map(|tenant| {
        let config = &tenant.runtime.config;
        json!({
            "clientCode": config.client_code.as_str(),
            "namespace": config.namespace,
            "name": config.name,
            "displayName": config.display_name,
            "subdomains": config.subdomains,
            "suspended": config.suspended,
            "webhooks": config.webhooks.len(),
        })
    });
    tenants.collect()
}

fn tenant_table(declaration: &Declaration) -> String {
    let rows = declaration.tenants.iter().map(|tenant| {
        let config = &tenant.runtime.config;
        [
            config.client_code.to_string(),
            format!("{}/{}", config.namespace, config.name),
            config.subdomains.join(", "),
            if config.suspended { "suspended" } else { "served" }.to_owned(),
            config.webhooks.len().to_string(),
        ]
    });
    table(["CLIENT CODE", "TENANT", "SUBDOMAINS", "STATE", "WEBHOOKS"], rows)
}

/// `docket webhooks …`
pub async fn webhooks(command: WebhooksCommand) -> Result<()> {
    let WebhooksCommand::List { printed, at } = command;
    let found = find(&at).await?;
    let listed = listed(found.declared(&at.tenant)?);
    match printed.output {
        Output::Json => {
            let webhooks: Vec<Value> = listed.iter().map(ListedWebhook::json).collect();
            text::json(&json!({ "webhooks": webhooks }));
        }
        Output::Table | Output::Wide if listed.is_empty() => println!("No webhooks."),
        Output::Table | Output::Wide => {
            let head = ["WEBHOOK", "NAME", "CUSTOMER", "STATE", "SIGNED", "TARGET URL", "EVENTS"];
            print!("{}", table(head, listed.iter().map(ListedWebhook::row)));
            for (name, fault) in
                listed.iter().flat_map(|one| one.faults.iter().map(move |it| (&one.name, it)))
            {
                eprintln!("{}: {}", clean(name), clean_lines(fault));
            }
        }
    }
    Ok(())
}

/// A webhook that is declared.
struct ListedWebhook {
    /// `namespace/name`
    name: String,
    display_name: Option<String>,
    customer_code: Option<String>,
    /// active, inactive, or not served.
    state: &'static str,
    /// `None`: it is not served, so that its settings are not known.
    settings: Option<(bool, String, Vec<&'static str>)>,
    faults: Vec<String>,
}

impl ListedWebhook {
    fn json(&self) -> Value {
        let (signed, target_url, events) = self.settings.clone().map_or((None, None, None), |settings| {
            let (signed, target_url, events) = settings;
            (Some(signed), Some(target_url), Some(events))
        });
        json!({
            "webhook": self.name,
            "displayName": self.display_name,
            "customerCode": self.customer_code,
            "state": self.state,
            "signed": signed,
            "targetUrl": target_url,
            "events": events,
            "faults": self.faults,
        })
    }

    fn row(&self) -> [String; 7] {
        let absent = || "–".to_owned();
        let (signed, target_url, events) = match &self.settings {
            Some((signed, target_url, events)) => {
                (if *signed { "yes" } else { "no" }.to_owned(), target_url.clone(), events.join(", "))
            }
            None => (absent(), absent(), absent()),
        };
        [
            self.name.clone(),
            self.display_name.clone().unwrap_or_else(absent),
            self.customer_code.clone().unwrap_or_else(absent),
            self.state.to_owned(),
            signed,
            target_url,
            events,
        ]
    }
}

/// The webhooks of a tenant, served ones first.
fn listed(runtime: &Runtime) -> Vec<ListedWebhook> {
    let faults = |uid: &str| runtime.faults.get(uid).cloned().unwrap_or_default();
    let served = runtime.config.webhooks.iter().map(|webhook| ListedWebhook {
        name: webhook.full_name(),
        display_name: webhook.display_name.clone(),
        customer_code: Some(webhook.customer_code.to_string()),
        state: if webhook.active { "active" } else { "inactive" },
        settings: Some((
            webhook.secret.is_some(),
            webhook.target_url.to_string(),
            webhook.events.iter().map(|event| event.as_str()).collect(),
        )),
        faults: faults(&webhook.uid),
    });
    let is_served = |uid: &str| runtime.config.webhooks.iter().any(|webhook| webhook.uid == uid);
    let held = runtime.held();
    let held = held.iter().filter(|(uid, _)| !is_served(uid)).map(|(uid, key)| ListedWebhook {
        name: webhook_key::full_name(key).unwrap_or(key).to_owned(),
        display_name: None,
        customer_code: webhook_key::customer_code(key).map(str::to_owned),
        state: "not served",
        settings: None,
        faults: faults(uid),
    });
    served.chain(held).collect()
}
