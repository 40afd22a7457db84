//! E-mail to people who subscribed to changes of webhooks: the texts, and one connection to an SMTP server.
//!
//! [`text`] writes a message from plain values, and [`Smtp`] sends it. Neither knows a payload or a database.
//!
//! ```
//! use docket_mail::{Outgoing, Smtp, SmtpUrl};
//!
//! async fn send(smtp: &Smtp, mail: &Outgoing) -> bool {
//!     smtp.send(mail).await.is_ok()
//! }
//!
//! let url = SmtpUrl::parse("smtps://docket:secret@mail.example").expect("a URL");
//! assert!(!format!("{url:?}").contains("secret"));
//! // Connects when it sends.
//! let smtp = Smtp::new(&url, None, "Docket <docket@example.com>").expect("an address");
//! # let _ = |mail: Outgoing| async move { send(&smtp, &mail).await };
//! ```

mod smtp;
pub mod text;

pub use smtp::{NotSent, Outgoing, SEND_TIME, Smtp, WrongSettings};
pub use url::{Encryption, SmtpUrl, WrongSmtpUrl};

mod url;
