//! URLs of databases.

use std::sync::Arc;

use docket_crds::DatabaseUrl;
use docket_schema::postgres::{DatabaseTarget, ExternalDatabases};

use super::names_secret_once;
use crate::SECRET;

pub(crate) fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let is_password = names_secret_once(text)
        && url::Url::parse(text).is_ok_and(|url| url.password().is_some_and(|word| word.contains(SECRET)));
    if let Ok(url) = DatabaseUrl::parse(text) {
        assert!(!format!("{url:?}").contains(SECRET));
        assert!(url.is_same_server(&url) && url.is_same_database(&url));
    }
    // A folder that is not there: no file is read.
    let databases = Arc::new(ExternalDatabases::new(Vec::new(), Some("/nowhere".into())));
    match DatabaseTarget::external(text, &databases) {
        Ok(target) => {
            assert!(target.is_external());
            assert!(target.config.get_hosts().len() == 1 && target.config.get_ports().len() < 2);
            assert!(!is_password || !format!("{:?}", target.config).contains(SECRET));
        }
        Err(error) => {
            assert!(!is_password || !format!("{error} {error:?}").contains(SECRET), "{error}");
            assert!(error.to_string().len() <= 4_096, "{error}");
        }
    }
    let _ = DatabaseTarget::database_name(text);
}
