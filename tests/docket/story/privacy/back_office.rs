//! Notes, service of process and invoices under watch.

use docket_tests::server::Client;
use rusqlite::Connection;
use serde_json::json;

use super::Watched;

/// The fields that `ProcessStatus/Search` shows to the owner of the work order: all of these, and what identifies the order.
const OF_PROCESS: [&str; 6] = ["comments", "address", "person served", "served on", "server", "description"];

impl Watched {
    /// Notes, attempts and invoices, well and badly.
    pub(super) async fn back_office(&mut self, client: &Client) {
        let report = self.canaries.text("report");
        let refused = self.canaries.text("a refused report");
        let note = |report: &str, more: &str| {
            format!(
                "{{\"workOrder\":\"PC1000001\",\"workOrderType\":\"PhotoCopy\",\"report\":\"{report}\"{more}}}"
            )
        };
        let body = note(&report, ",\"facilityLineItem\":1,\"milestoneCode\":210");
        let added = client.try_post("/Notes/Add", &body, &[]).await.expect("an answer");
        assert_eq!(added.status, 200, "{added:?}");
        self.canaries.assert_absent("a note's answer", &format!("{added:?}"), &[]);
        let found = client.get("/Notes/Search").await;
        self.canaries.assert_absent("a search for notes", found.text(), &["report"]);
        assert!(found.text().contains(&report), "{found:?}");
        let wrong = [
            note(&format!("{refused} 078-05-1120"), ""),
            note(&format!("{refused} 4111 1111 1111 1111"), ""),
            note(&refused, ",\"milestoneCode\":1"),
            note(&refused, &format!(",\"facilityLineItem\":\"{refused}\"")),
            note(&refused, &format!(",\"milestone\":\"{refused}\"")),
            note(&refused, "").replace("PC1000001", &refused),
            note(&refused, "").replace("PhotoCopy", &refused),
            note(&refused, "").replace("}", ""),
        ];
        for body in wrong {
            let reply = self.refused(client, ("POST", "/Notes/Add"), &[], &body, &[]).await;
            // The random id of the request may have these digits.
            let problem = reply.json();
            let text = reply.text().replace(problem["requestId"].as_str().expect("an id"), "");
            assert!(!text.contains("078-05") && !text.contains("4111"), "{reply:?}");
        }
        self.service(client).await;
        for route in ["Notes", "ProcessStatus", "Invoices"] {
            let query = ["workOrder", "servee", "from", "cursor", "pageSize", "invoiceNumber", "orderType"];
            let query: Vec<String> = query.iter().map(|name| format!("{name}={refused}")).collect();
            let target = format!("/{route}/Search?{}", query.join("&"));
            self.refused(client, ("GET", &target), &[], "", &[]).await;
        }
    }

    /// An attempt to serve that another program writes.
    async fn service(&mut self, client: &Client) {
        let texts = OF_PROCESS.map(|field| self.canaries.text(field));
        let database = Connection::open(self.home.database("ACME")).expect("a database");
        database.busy_timeout(std::time::Duration::from_secs(5)).expect("settable");
        let sql = "INSERT INTO process_attempt (work_order, sequence, attempted_at_ms, outcome, comments, address, \
                   person_served_name, person_served_relationship, server_name, person_served_description, \
                   recorded_at_ms) VALUES ('PR1000001', 1, 0, 'NotIn', ?1, ?2, ?3, ?4, ?5, ?6, 0)";
        database.execute(sql, texts.clone()).expect("an attempt");
        let sql = "INSERT INTO photo_copy_invoice (invoice_number, work_order, amount_cents, created_at_ms) \
                   VALUES ('INV-1', 'PC1000001', 100, unixepoch() * 1000)";
        database.execute(sql, []).expect("an invoice");
        drop(database);
        let found = client.get("/ProcessStatus/Search?workOrder=PR1000001").await;
        assert!(texts.iter().all(|text| found.text().contains(text)), "{found:?}");
        let known = [
            &OF_PROCESS[..],
            &["caseNumber", "caption", "plaintiff", "defendant", "firstName", "middleName", "lastName"],
            &["suffix", "organizationName"],
            // The first address of the person.
            &["street1", "street2", "city", "state", "postalCode"],
        ];
        let value = json!(found.json()["items"][0]);
        self.canaries.assert_absent("process status", &value.to_string(), &known.concat());
    }
}
