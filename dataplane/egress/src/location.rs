//! The part of a redirect's Location that is kept.

use docket_domain::failure::{Cause, Explanation};
use http::HeaderValue;
use url::Url;

/// Where a redirect of `target` leads: an absolute URL without userinfo and fragment. A query is replaced by `?…`:
/// the query of the target URL may contain a token, and many redirects repeat it.
pub(crate) fn explain(target: &Url, location: Option<&HeaderValue>) -> Explanation {
    let nowhere = Explanation::of(Cause::NoLocation);
    let Some(text) = location.and_then(|value| std::str::from_utf8(value.as_bytes()).ok()) else {
        return nowhere;
    };
    let Ok(url) = target.join(text.trim()) else { return nowhere };
    if !matches!(url.scheme(), "http" | "https") || text.trim().is_empty() {
        return nowhere;
    }
    let [mut url, from] = [url, target.clone()].map(|mut url| {
        let _ = (url.set_username(""), url.set_password(None)); // this fails only for a URL without a host
        url.set_fragment(None);
        url
    });
    if url == from {
        return Explanation::of(Cause::RedirectToItself);
    }
    let cause = (url.scheme() == "http").then_some(Cause::RedirectToHttp);
    let mark = if url.query().is_some() { "?…" } else { "" };
    url.set_query(None);
    Explanation::with(cause, &format!("{url}{mark}"))
}

#[cfg(test)]
mod tests {
    use docket_domain::failure::KEPT_DETAIL_CHARS;

    use super::*;

    fn explained(location: &[u8]) -> (Option<Cause>, Option<String>) {
        let target = Url::parse("https://r.example/hook?key=secret-1").expect("a url");
        let value = HeaderValue::from_bytes(location).expect("a value");
        let explanation = explain(&target, Some(&value));
        (explanation.cause, explanation.detail)
    }

    #[test]
    fn location_is_absolute_and_holds_no_secret() {
        for (location, detail) in [
            ("https://new.example/a/", "https://new.example/a/"),
            ("/hook/?key=secret-1", "https://r.example/hook/?…"),
            ("//cdn.example", "https://cdn.example/"),
            ("https://u:pw@new.example/#part", "https://new.example/"),
            ("hook/", "https://r.example/hook/"),
            (" /a b\\é ", "https://r.example/a%20b/%C3%A9"),
            ("?key=other", "https://r.example/hook?…"),
        ] {
            assert_eq!(explained(location.as_bytes()), (None, Some(detail.to_owned())), "{location}");
        }
    }

    #[test]
    fn location_that_can_not_be_a_target_url_has_a_cause() {
        let http = Some("http://r.example/hook?…".to_owned());
        assert_eq!(explained(b"http://r.example/hook?key=secret-1"), (Some(Cause::RedirectToHttp), http));
        for itself in [
            "/hook?key=secret-1",
            "https://r.example:443/hook?key=secret-1#a",
            "https://u@r.example/hook?key=secret-1",
        ] {
            assert_eq!(explained(itself.as_bytes()), (Some(Cause::RedirectToItself), None), "{itself}");
        }
        for nowhere in
            [&b""[..], b"javascript:alert(1)", b"https://", b"http://[::1", b"\xff\xfe", b"mailto:a@b"]
        {
            assert_eq!(explained(nowhere), (Some(Cause::NoLocation), None), "{nowhere:?}");
        }
        let target = Url::parse("https://r.example/").expect("a url");
        assert_eq!(explain(&target, None), Explanation::of(Cause::NoLocation));
    }

    #[test]
    fn long_location_is_cut() {
        let (_, detail) = explained(format!("/{}", "a".repeat(5_000)).as_bytes());
        assert_eq!(detail.expect("a location").chars().count(), KEPT_DETAIL_CHARS);
    }
}
