//! A browser without JavaScript, as far as the cases need one: a host, a cookie, links and forms.

use docket_domain::token::{Session, TokenKey, TokenSubject, UserFingerprint, issue, issue_for_session};
use docket_tests::server::{Home, PASSWORD, Reply, Server, request};
use docket_tests::stores;
use jiff::Timestamp;

use crate::api::rig::{Rig, SigningKey};

/// `Content-Type` of a form.
pub(super) const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
/// What the portal sends with each page.
pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                                 connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A PNG of 8 by 8 pixels, in base64.
pub(super) const LOGO: &str = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAALklEQVR42mPgzvOHo/+XvOCIAasokMuAVRQqgSkKksAqi\
                               iKB5goGrKJQCawuBgAmhFxhON7RLgAAAABJRU5ErkJggg==";

/// The YAML of a Tenant with this colour and [`LOGO`].
pub(super) fn with_look(yaml: &str, color: &str) -> String {
    yaml.replacen("spec:\n", &format!("spec:\n  portal: {{color: \"{color}\", logo: {LOGO}}}\n"), 1)
}

/// The cookie of a session with this token. The name depends on TLS: `docket dev` at loopback is plain HTTP, and `docket serve`
/// never is.
pub(super) fn session_cookie(token: &str) -> String {
    let name = if stores::are_servers() { "__Host-docket" } else { "docket" };
    format!("{name}={token}")
}

/// The attributes of a session's cookie that lasts this many seconds.
pub(super) fn cookie_attributes(seconds: u32) -> String {
    let secure = if stores::are_servers() { "; Secure" } else { "" };
    format!("Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// Whether an answer makes the browser forget its session.
pub(super) fn forgets_session(reply: &Reply) -> bool {
    let forgotten = format!("{}; {}", session_cookie(""), cookie_attributes(0));
    reply.headers.get("set-cookie").is_some_and(|cookie| *cookie == forgotten)
}

/// A browser at the host of a tenant.
pub(super) struct Browser<'a> {
    server: &'a Server,
    host: String,
    pub(super) cookie: String,
}

impl<'a> Browser<'a> {
    /// A browser without a session.
    pub(super) fn new(server: &'a Server, tenant: &str) -> Self {
        let host = format!("{tenant}.localhost:{}", server.api.port());
        Self { server, host, cookie: String::new() }
    }

    /// Returns a browser with the session of an employee, or of a contact if the user id is an e-mail address.
    pub(super) async fn signed_in(server: &'a Server, tenant: &str, user: &str) -> Self {
        let mut browser = Self::new(server, tenant);
        let reply = browser.sign_in(user, PASSWORD, "").await;
        assert_eq!((reply.status, &*reply.headers["location"]), (303, "/portal"), "{reply:?}");
        let cookie = reply.headers["set-cookie"].split(';').next().expect("a pair");
        browser.cookie = cookie.to_owned();
        browser
    }

    pub(super) fn origin(&self) -> String {
        format!("http://{}", self.host)
    }

    pub(super) async fn sign_in(&self, user: &str, password: &str, to: &str) -> Reply {
        let kind = if user.contains('@') { "contact" } else { "employee" };
        let fields = [("kind", kind), ("userId", user), ("password", password), ("to", to)];
        self.post("/portal/sign-in", &fields).await
    }

    pub(super) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "").await
    }

    /// Follows redirects within the host.
    pub(super) async fn open(&self, path: &str) -> Reply {
        let mut reply = self.get(path).await;
        while reply.status == 303 {
            reply = self.get(&reply.headers["location"].clone()).await;
        }
        reply
    }

    /// Sends a form as a page of this host does.
    pub(super) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        self.post_from(&[("origin", &self.origin())], path, fields).await
    }

    /// Sends a form with these headers.
    pub(super) async fn post_from(
        &self,
        headers: &[(&str, &str)],
        path: &str,
        fields: &[(&str, &str)],
    ) -> Reply {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.send("POST", path, &[headers, &[FORM]].concat(), &body).await
    }

    pub(super) async fn send(&self, method: &str, path: &str, more: &[(&str, &str)], body: &str) -> Reply {
        let mut headers = vec![("host", self.host.as_str())];
        if !self.cookie.is_empty() {
            headers.push(("cookie", &self.cookie));
        }
        headers.extend(more);
        request(self.server.api, method, path, &headers, body).await.expect("an answer")
    }
}

/// A token of ALEX that was issued this many seconds ago, for an hour. `session`: it is of a session whose user signed in this many
/// seconds ago; else it is for the API.
#[expect(clippy::disallowed_methods, reason = "the server reads the same clock")]
pub(super) fn token_of_before(rig: &Rig, seconds: i64, session: Option<i64>) -> String {
    let SigningKey { uid, kid, secret } = rig.signing_key("ACME");
    let sql = "SELECT password_hash, sign_outs FROM employee WHERE code = '52'";
    let row = rig.database("ACME").rows(sql, &[]).remove(0);
    let hash: Option<String> = row.get(0);
    let owner = UserFingerprint::new(None, hash.as_deref(), row.get(1));
    let subject = TokenSubject::Employee { employee_code: "52".into(), administrator: true };
    let now = Timestamp::now().as_second();
    let at = Timestamp::from_second(now - seconds).expect("in range");
    let (key, owned) = (TokenKey { kid: &kid, secret: &secret }, (subject, &owner));
    match session {
        None => issue(key, &uid, owned, at, 60),
        Some(since) => {
            let session = Session { id: "0123456789abcdef".into(), since: now - since };
            issue_for_session(key, &uid, owned, at, 60, &session)
        }
    }
}

/// The value of a hidden field of a page.
pub(super) fn hidden(page: &Reply, name: &str) -> String {
    let before = format!("name=\"{name}\" value=\"");
    let text = page.text();
    let (_, after) = text.split_once(&before).unwrap_or_else(|| panic!("no field {name}: {page:?}"));
    after.split('"').next().expect("a value").to_owned()
}

/// Sends a form of the page at `path`, with its hidden fields.
pub(super) async fn send(browser: &Browser<'_>, path: &str, action: &str, fields: &[(&str, &str)]) -> Reply {
    let page = browser.get(path).await;
    assert_eq!(page.status, 200, "{page:?}");
    let csrf = hidden(&page, "csrf");
    let mut all = vec![("csrf", csrf.as_str())];
    let version;
    if page.text().contains("name=\"version\"") {
        version = hidden(&page, "version");
        all.push(("version", &version));
    }
    browser.post(action, &[&all, fields].concat()).await
}

/// Copies a webhook that the portal declares in `docket dev`, by its page, to one that is not served for its URL; returns its page.
pub(super) fn unserved_copy(home: &Home, page: &str, name: &str) -> String {
    let own = page.rsplit('/').next().expect("a name");
    let file = |name: &str| home.config().join("portal").join(format!("default.{name}.yaml"));
    let text = std::fs::read_to_string(file(own)).expect("the portal's file");
    let copy = text.replace(own, name).replace("https://", "http://");
    let hidden = home.config().join(format!("portal/.{name}"));
    std::fs::write(&hidden, copy).expect("writable");
    std::fs::rename(hidden, file(name)).expect("renamable");
    format!("/portal/webhooks/default/{name}")
}

/// The page of the webhook that the answer to a form leads to.
pub(super) fn page_of(made: &Reply) -> String {
    let text = made.text();
    let (_, after) = text.split_once("class=\"button\" href=\"").expect("a link");
    after.split('"').next().expect("it ends").to_owned()
}

/// The secret that a page shows.
pub(super) fn shown(page: &Reply) -> String {
    let text = page.text();
    let (_, after) = text.split_once("For X-Service-Signature</dt><dd><code>").expect("a secret");
    after.split('<').next().expect("a value").to_owned()
}

/// Holds a page against the headers that protect it.
#[track_caller]
pub(super) fn is_protected(page: &Reply) {
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-frame-options", "DENY"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(page.headers.get(name).map(String::as_str), Some(value), "{name}: {page:?}");
    }
    assert!(page.headers["permissions-policy"].contains("camera=()"), "{page:?}");
}
