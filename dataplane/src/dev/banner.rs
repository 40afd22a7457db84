//! What `docket dev` prints: its addresses, and commands to paste.

use std::fmt::Write;
use std::time::Duration;

use docket_domain::token::TokenSubject;
use docket_source::{Declaration, DeclaredTenant};

use super::sample::{PASSWORD, Sample};
use crate::args::DevArguments;

/// A complete order, which can be exported.
const ORDER: &str = r#"{"orderType":"Delivery","itemDescription":"2 exhibit binders","legs":[{"pickup":{"address":{"street1":"100 Example Plaza","city":"Los Angeles","state":"CA","postalCode":"90012"}},"delivery":{"address":{"street1":"20 Mockingbird Square","city":"Los Angeles","state":"CA","postalCode":"90017"}}}]}"#;

/// The text at the start.
pub fn text(
    arguments: &DevArguments,
    declaration: &Declaration,
    samples: &[Sample],
    took: Duration,
) -> String {
    let api = format!("http://{}", arguments.listen);
    let data = arguments.source.data_dir.display();
    let config = arguments.source.config_dir.display();
    let receiver = match arguments.no_receiver {
        true => "none".to_owned(),
        false => format!("https://{}  (each delivery is shown below)", arguments.receiver),
    };
    let mut out = String::new();
    let version = env!("CARGO_PKG_VERSION");
    line(&mut out, &format!("Docket {version} is ready after {:.2} s.", took.as_secs_f64()));
    line(&mut out, &format!("  API         {api}"));
    line(&mut out, &format!("  Swagger     {api}/swagger/"));
    line(&mut out, &format!("  Docs        {api}/docs/"));
    line(&mut out, &format!("  Portal      {}", portal(arguments, declaration, samples)));
    line(&mut out, &format!("  Management  http://{}/metrics  /healthz  /readyz", arguments.management));
    line(&mut out, &format!("  Receiver    {receiver}"));
    line(&mut out, &format!("  Tenants     {config}  (edits take effect at once)"));
    line(&mut out, &format!("  Data        {data}"));
    line(&mut out, "");
    for tenant in &declaration.tenants {
        line(&mut out, &tenant_lines(arguments, tenant));
    }
    if declaration.tenants.is_empty() {
        line(&mut out, &format!("No tenant is declared in {config}; see examples/ for two samples."));
    }
    problems(&mut out, declaration);
    line(&mut out, "");
    match samples.iter().find(|sample| matches!(sample.subject, TokenSubject::Contact { .. })) {
        Some(sample) => try_it(&mut out, arguments, declaration, samples, sample),
        None => add_people(&mut out, arguments, declaration),
    }
    out
}

/// The text after an edit: one line, and the tenants whose generated keys are `changed`.
pub fn reloaded(arguments: &DevArguments, declaration: &Declaration, changed: &[&str]) -> String {
    let problems = match declaration.problems.len() {
        0 => "no problems".to_owned(),
        count => {
            format!("{}, shown above; the last good version stays active", counted(count, "problem"))
        }
    };
    let mut out = format!(
        "The configuration was read again: {}, {problems}.",
        counted(declaration.tenants.len(), "tenant")
    );
    for tenant in changed.iter().filter_map(|code| declaration.tenant(code)) {
        out.push('\n');
        out.push_str(&tenant_lines(arguments, tenant));
    }
    out
}

/// `1 tenant`, `2 tenants`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("writing to a String does not fail");
}

/// The address of a tenant's portal, and whom it lets in.
fn portal(arguments: &DevArguments, declaration: &Declaration, samples: &[Sample]) -> String {
    let address = |code: &str| {
        let hosts = &declaration.tenant(code)?.runtime.config.subdomains;
        Some(format!("{}/portal", tenant_address(arguments, hosts.first()?)))
    };
    let sample = samples
        .iter()
        .find(|sample| matches!(sample.subject, TokenSubject::Employee { administrator: true, .. }));
    if let Some((sample, address)) = sample.and_then(|one| Some((one, address(&one.client_code)?))) {
        return format!("{address}  (sign in as {}, password {PASSWORD})", sample.user_id);
    }
    let first = declaration.tenants.first().map(|tenant| tenant.runtime.config.client_code.as_str());
    match first.and_then(|code| Some((code, address(code)?))) {
        Some((code, address)) => {
            format!("{address}  (for administrators: docket employees add --tenant {code} --administrator …)")
        }
        None => "/portal at the address of a tenant, for its administrators".to_owned(),
    }
}

fn tenant_address(arguments: &DevArguments, subdomain: &str) -> String {
    format!("http://{subdomain}.{}:{}", arguments.hosts.base_domain, arguments.listen.port())
}

fn tenant_lines(arguments: &DevArguments, tenant: &DeclaredTenant) -> String {
    let config = &tenant.runtime.config;
    let hosts: Vec<String> =
        config.subdomains.iter().map(|subdomain| tenant_address(arguments, subdomain)).collect();
    let keys: Vec<String> =
        tenant.api_keys.iter().map(|(name, key)| format!("API key {name}: {key}")).collect();
    let code = &config.client_code;
    let webhooks = counted(config.webhooks.len(), "webhook");
    format!("Tenant {code}  {webhooks}  {}\n  {}", hosts.join(" "), keys.join("\n  "))
}

fn problems(out: &mut String, declaration: &Declaration) {
    for problem in &declaration.problems {
        line(out, &format!("Not served as written: {problem}"));
    }
}

/// The program as it was started, for commands to paste.
fn program() -> String {
    quoted(&std::env::args().next().unwrap_or_else(|| "docket".to_owned()))
}

/// The text as one word of a shell's command line.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn source_flags(arguments: &DevArguments) -> String {
    let source = &arguments.source;
    let mut flags = String::new();
    if source.config_dir.as_os_str() != "examples" {
        flags.push_str(&format!(" --config-dir {}", quoted(&source.config_dir.display().to_string())));
    }
    if source.data_dir.as_os_str() != ".docket" {
        flags.push_str(&format!(" --data-dir {}", quoted(&source.data_dir.display().to_string())));
    }
    flags
}

fn try_it(
    out: &mut String,
    arguments: &DevArguments,
    declaration: &Declaration,
    samples: &[Sample],
    sample: &Sample,
) {
    let tenant = declaration.tenant(&sample.client_code);
    let key = tenant.and_then(|tenant| tenant.api_keys.first()).map_or("", |(_, key)| key.as_str());
    let api = format!("http://{}", arguments.listen);
    let flags = source_flags(arguments);
    let program = program();
    let code = &sample.client_code;
    let user = sample.user_id;
    line(out, "Sample users; the command below has their password:");
    for sample in samples {
        let kind = match &sample.subject {
            TokenSubject::Contact { customer_code, .. } => format!("contact of customer {customer_code}"),
            TokenSubject::Employee { administrator: true, .. } => "administrator".to_owned(),
            TokenSubject::Employee { administrator: false, .. } => "employee".to_owned(),
        };
        line(out, &format!("  {}  {}  ({kind})", sample.client_code, sample.user_id));
    }
    line(out, "");
    line(out, "Try it, in another terminal.");
    token_and_orders(out, &api, key, user, PASSWORD);
    line(out, "List the deliveries:");
    line(out, &format!("  {program} deliveries list --tenant {code}{flags}"));
    line(out, "");
    line(out, "Press Ctrl-C to stop.");
}

/// Commands for a token, a draft and an export.
fn token_and_orders(out: &mut String, api: &str, key: &str, user: &str, password: &str) {
    line(out, "Get a token:");
    line(
        out,
        &format!(
            "  TOKEN=$(curl -s {api}/Auth/Token -H 'X-Api-Key: {key}' -H 'Content-Type: application/json' -d '{{\"userId\":\"{user}\",\"password\":\"{password}\"}}' | sed 's/.*\"token\":\"\\([^\"]*\\)\".*/\\1/')"
        ),
    );
    let headers = format!(
        "-H 'X-Api-Key: {key}' -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json'"
    );
    line(out, "Save an order as a draft; its delivery appears here:");
    line(out, &format!("  curl -s {api}/Orders/Save {headers} -d '{{\"orderType\":\"Court\"}}'"));
    line(out, "Save and export an order:");
    let exported = ORDER.replacen('{', "{\"export\":true,", 1);
    line(out, &format!("  curl -s {api}/Orders/Save {headers} -d '{exported}'"));
}

fn add_people(out: &mut String, arguments: &DevArguments, declaration: &Declaration) {
    let Some(tenant) = declaration.tenants.first() else { return };
    let config = &tenant.runtime.config;
    let code = &config.client_code;
    let customer = config.webhooks.first().map_or("C-1", |webhook| webhook.customer_code.as_str());
    let (program, flags) = (program(), source_flags(arguments));
    line(out, "There are no sample users for these tenants. Add a customer and its contact:");
    line(
        out,
        &format!(
            "  {program} customers add --tenant {code} --code {customer} --name 'First Customer'{flags}"
        ),
    );
    line(
        out,
        &format!(
            "  echo 'a-password-of-yours' | {program} contacts add --tenant {code} --customer {customer} --email you@example.com --name You{flags}"
        ),
    );
    let key = tenant.api_keys.first().map_or("<your API key>", |(_, key)| key.as_str());
    let api = format!("http://{}", arguments.listen);
    token_and_orders(out, &api, key, "you@example.com", "a-password-of-yours");
    line(out, "");
    line(out, "Press Ctrl-C to stop.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_with_special_characters_is_quoted_for_the_shell() {
        assert_eq!(quoted("./target/release/docket"), "./target/release/docket");
        assert_eq!(quoted("/tmp/my data"), "'/tmp/my data'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn printed_order_can_be_exported() {
        let request = docket_orders::SaveRequest::read(ORDER.as_bytes()).expect("an order");
        assert!(request.order.check_export().is_empty(), "{}", request.order.check_export());
        assert!(!ORDER.contains('\''), "it is printed between single quotes");
    }
}
