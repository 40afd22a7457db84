//! Bundles of certificates in PEM.

use docket_crds::compile::ca_bundle_warning;
use docket_crds::pem;

pub(crate) fn run(input: &[u8]) {
    let warning = ca_bundle_warning(input);
    match pem::certificates(input) {
        Ok(certificates) => {
            assert!(!certificates.is_empty());
            let text = pem::text(&certificates);
            assert_eq!(pem::certificates(text.as_bytes()).as_ref(), Ok(&certificates), "{text}");
            assert_eq!(ca_bundle_warning(text.as_bytes()), warning);
        }
        Err(bad) => {
            // The error names the block and quotes nothing.
            assert!(warning.is_none() && bad.to_string().len() <= 200, "{bad}");
        }
    }
}
