//! `docket customer`, `docket contact` and `docket employee`.

use clap::Subcommand;

use super::settings::TenantArguments;
use super::values::{code, email, name, new_email, user_name};

/// `docket customer …`
#[derive(Debug, Subcommand)]
pub enum CustomerCommand {
    /// Add a customer to a tenant.
    Add {
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
        /// The customer's code, 1 to 64 characters; webhooks name it as customerCode.
        #[arg(long, value_name = "CUSTOMER_CODE", value_parser = code)]
        code: String,
        /// The customer's name, 1 to 200 characters.
        #[arg(long, value_name = "TEXT", value_parser = name)]
        name: String,
    },
}

/// `docket contact …`
#[derive(Debug, Subcommand)]
pub enum ContactCommand {
    /// Add a contact to a customer. The password is read from standard input.
    Add {
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
        /// The customer's code.
        #[arg(long, value_name = "CUSTOMER_CODE", value_parser = code)]
        customer: String,
        /// The e-mail address to sign in with.
        #[arg(long, value_name = "ADDRESS", value_parser = new_email)]
        email: String,
        /// Display name, 1 to 200 characters.
        #[arg(long, value_name = "TEXT", value_parser = name)]
        name: String,
        /// The contact's code, 1 to 64 characters [default: the next number].
        #[arg(long, value_name = "CONTACT_CODE", value_parser = code)]
        code: Option<String>,
        /// Let the contact see and manage the webhooks of its customer in the portal, and see their deliveries with
        /// payloads.
        #[arg(long)]
        webhooks: bool,
    },
    /// Set a new password for a contact. The contact's tokens end within five seconds. The password is read from standard
    /// input.
    SetPassword {
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
        /// The e-mail address that the contact signs in with.
        #[arg(long, value_name = "ADDRESS", value_parser = email)]
        email: String,
    },
    /// Sign a contact out everywhere: the contact's tokens end within five seconds.
    SignOut {
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
        /// The e-mail address that the contact signs in with.
        #[arg(long, value_name = "ADDRESS", value_parser = email)]
        email: String,
    },
}

/// `docket employee …`
#[derive(Debug, Subcommand)]
pub enum EmployeeCommand {
    /// Add an employee. The password is read from standard input.
    Add {
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
        /// The check-in name to sign in with, 1 to 320 characters.
        #[arg(long, value_name = "NAME", value_parser = user_name)]
        user: String,
        /// Display name, 1 to 200 characters.
        #[arg(long, value_name = "TEXT", value_parser = name)]
        name: String,
        /// Make the employee an administrator, who may use the webhook logs and the portal.
        #[arg(long)]
        administrator: bool,
    },
    /// Set a new password for an employee. The employee's tokens end within five seconds. The password is read from standard
    /// input.
    SetPassword {
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
        /// The check-in name that the employee signs in with.
        #[arg(long, value_name = "NAME", value_parser = user_name)]
        user: String,
    },
    /// Sign an employee out everywhere: the employee's tokens end within five seconds.
    SignOut {
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
        /// The check-in name that the employee signs in with.
        #[arg(long, value_name = "NAME", value_parser = user_name)]
        user: String,
    },
}
