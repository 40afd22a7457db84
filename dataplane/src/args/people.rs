//! `docket customers`, `docket contacts` and `docket employees`.

use clap::Subcommand;
use docket_commands::people::PeopleArguments;

use super::settings::TenantArguments;
use super::values::{code, email, name, new_email, user_name};

/// `docket customers …`
#[derive(Debug, Subcommand)]
pub enum CustomerCommand {
    /// Add a customer to a tenant.
    Add {
        /// The customer's code, 1 to 64 characters; webhooks name it as customerCode.
        #[arg(long, value_name = "CUSTOMER_CODE", value_parser = code)]
        code: String,
        /// The customer's name, 1 to 200 characters.
        #[arg(long, value_name = "TEXT", value_parser = name)]
        name: String,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
}

/// `docket contacts …`
#[derive(Debug, Subcommand)]
pub enum ContactCommand {
    /// List the contacts by e-mail address, with their rights.
    List {
        /// Only those of this customer.
        #[arg(long, value_name = "CUSTOMER_CODE", value_parser = code)]
        customer: Option<String>,
        /// How the list is printed.
        #[command(flatten)]
        list: PeopleArguments,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
    /// Add a contact to a customer. The password is read from standard input.
    Add {
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
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
    /// Set a new password for a contact. The contact's tokens end within five seconds. The password is read from standard
    /// input.
    SetPassword {
        /// The e-mail address that the contact signs in with.
        #[arg(long, value_name = "ADDRESS", value_parser = email)]
        email: String,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
    /// Sign a contact out everywhere: the contact's tokens end within five seconds.
    SignOut {
        /// The e-mail address that the contact signs in with.
        #[arg(long, value_name = "ADDRESS", value_parser = email)]
        email: String,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
    /// Let a contact see and manage the webhooks of its customer in the portal, and see their deliveries with payloads.
    Grant {
        /// The e-mail address that the contact signs in with.
        #[arg(long, value_name = "ADDRESS", value_parser = email)]
        email: String,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
    /// Take the right to manage webhooks from a contact.
    Revoke {
        /// The e-mail address that the contact signs in with.
        #[arg(long, value_name = "ADDRESS", value_parser = email)]
        email: String,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
    /// Deactivate a contact, who can no longer sign in. All tokens end within five seconds.
    Deactivate {
        /// The e-mail address that the contact signs in with.
        #[arg(long, value_name = "ADDRESS", value_parser = email)]
        email: String,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
    /// Activate a contact again, with the password of before.
    Activate {
        /// The e-mail address that the contact signs in with.
        #[arg(long, value_name = "ADDRESS", value_parser = email)]
        email: String,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
}

/// `docket employees …`
#[derive(Debug, Subcommand)]
pub enum EmployeeCommand {
    /// List the employees by check-in name, with their rights.
    List {
        /// How the list is printed.
        #[command(flatten)]
        list: PeopleArguments,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
    /// Add an employee. The password is read from standard input.
    Add {
        /// The check-in name to sign in with, 1 to 320 characters.
        #[arg(long, value_name = "NAME", value_parser = user_name)]
        user: String,
        /// Display name, 1 to 200 characters.
        #[arg(long, value_name = "TEXT", value_parser = name)]
        name: String,
        /// Make the employee an administrator, who may use the webhook logs and the portal.
        #[arg(long)]
        administrator: bool,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
    /// Set a new password for an employee. The employee's tokens end within five seconds. The password is read from standard
    /// input.
    SetPassword {
        /// The check-in name that the employee signs in with.
        #[arg(long, value_name = "NAME", value_parser = user_name)]
        user: String,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
    /// Sign an employee out everywhere: the employee's tokens end within five seconds.
    SignOut {
        /// The check-in name that the employee signs in with.
        #[arg(long, value_name = "NAME", value_parser = user_name)]
        user: String,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
    /// Make an employee an administrator, who may use the webhook logs and the portal.
    Grant {
        /// The check-in name that the employee signs in with.
        #[arg(long, value_name = "NAME", value_parser = user_name)]
        user: String,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
    /// Make an employee no administrator any more.
    Revoke {
        /// The check-in name that the employee signs in with.
        #[arg(long, value_name = "NAME", value_parser = user_name)]
        user: String,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
    /// Deactivate an employee, who can no longer sign in. All tokens end within five seconds.
    Deactivate {
        /// The check-in name that the employee signs in with.
        #[arg(long, value_name = "NAME", value_parser = user_name)]
        user: String,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
    /// Activate an employee again, with the password of before.
    Activate {
        /// The check-in name that the employee signs in with.
        #[arg(long, value_name = "NAME", value_parser = user_name)]
        user: String,
        /// The tenant.
        #[command(flatten)]
        at: TenantArguments,
    },
}
