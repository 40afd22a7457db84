//! `docket customers`, `docket contacts` and `docket employees`.

use clap::{Args, Subcommand};
use docket_commands::arguments::OutputArguments;
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
        /// How the result is printed.
        #[command(flatten)]
        printed: OutputArguments,
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
        /// Only contacts of this customer.
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
    Add(NewContact),
    /// Set a new password for a contact. The contact's tokens end within five seconds. The password is read from standard
    /// input.
    SetPassword(OneContact),
    /// Sign a contact out everywhere: the contact's tokens end within five seconds.
    SignOut(OneContact),
    /// Let a contact see and manage the webhooks of its customer in the portal, and see their deliveries with payloads.
    Grant(OneContact),
    /// Take the right to manage webhooks from a contact.
    Revoke(OneContact),
    /// Deactivate a contact, who can no longer sign in. All tokens end within five seconds.
    Deactivate(OneContact),
    /// Activate a contact again, with the earlier password.
    Activate(OneContact),
}

/// A contact to add.
#[derive(Debug, Args)]
pub struct NewContact {
    /// The customer's code.
    #[arg(long, value_name = "CUSTOMER_CODE", value_parser = code)]
    pub customer: String,
    /// The e-mail address to sign in with.
    #[arg(long, value_name = "ADDRESS", value_parser = new_email)]
    pub email: String,
    /// Display name, 1 to 200 characters.
    #[arg(long, value_name = "TEXT", value_parser = name)]
    pub name: String,
    /// The contact's code, 1 to 64 characters [default: the next number].
    #[arg(long, value_name = "CONTACT_CODE", value_parser = code)]
    pub code: Option<String>,
    /// Let the contact see and manage the webhooks of its customer in the portal, and see their deliveries with
    /// payloads.
    #[arg(long)]
    pub webhooks: bool,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
    /// The tenant.
    #[command(flatten)]
    pub at: TenantArguments,
}

/// A contact of the tenant.
#[derive(Debug, Args)]
pub struct OneContact {
    /// The e-mail address that the contact signs in with.
    #[arg(long, value_name = "ADDRESS", value_parser = email)]
    pub email: String,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
    /// The tenant.
    #[command(flatten)]
    pub at: TenantArguments,
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
    Add(NewEmployee),
    /// Set a new password for an employee. The employee's tokens end within five seconds. The password is read from standard
    /// input.
    SetPassword(OneEmployee),
    /// Sign an employee out everywhere: the employee's tokens end within five seconds.
    SignOut(OneEmployee),
    /// Make an employee an administrator, who may use the webhook logs and the portal.
    Grant(OneEmployee),
    /// Make an employee no administrator any more.
    Revoke(OneEmployee),
    /// Deactivate an employee, who can no longer sign in. All tokens end within five seconds.
    Deactivate(OneEmployee),
    /// Activate an employee again, with the earlier password.
    Activate(OneEmployee),
}

/// An employee to add.
#[derive(Debug, Args)]
pub struct NewEmployee {
    /// The check-in name to sign in with, 1 to 320 characters.
    #[arg(long, value_name = "NAME", value_parser = user_name)]
    pub user: String,
    /// Display name, 1 to 200 characters.
    #[arg(long, value_name = "TEXT", value_parser = name)]
    pub name: String,
    /// Make the employee an administrator, who may use the webhook logs and the portal.
    #[arg(long)]
    pub administrator: bool,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
    /// The tenant.
    #[command(flatten)]
    pub at: TenantArguments,
}

/// An employee of the tenant.
#[derive(Debug, Args)]
pub struct OneEmployee {
    /// The check-in name that the employee signs in with.
    #[arg(long, value_name = "NAME", value_parser = user_name)]
    pub user: String,
    /// How the result is printed.
    #[command(flatten)]
    pub printed: OutputArguments,
    /// The tenant.
    #[command(flatten)]
    pub at: TenantArguments,
}
