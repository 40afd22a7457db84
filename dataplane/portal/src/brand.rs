//! The tenant's own mark beside its name: its logo, or a letter in its colour.

use docket_crds::look::Color;
use maud::{Markup, html};

use crate::ROOT;

/// What a tenant's pages have of its own. Each version changes with what it names, so browsers keep both for long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Brand {
    /// The version of the styles with the tenant's colour; `None`: the tenant has no colour.
    pub color: Option<String>,
    /// The version of the tenant's logo; `None`: the tenant has no logo.
    pub logo: Option<String>,
}

/// The styles with the tenant's colour, at `/portal/brand.css`. Text on the colour is black or white, whichever has more contrast.
pub fn stylesheet(color: Color) -> String {
    format!(":root {{ --brand: {color}; --on-brand: {}; }}\n", ink(color))
}

/// The link to the styles with the tenant's colour, for the head of a page.
pub(crate) fn link(brand: &Brand) -> Markup {
    html! {
        @if let Some(version) = &brand.color { link rel="stylesheet" href={ (ROOT) "/brand.css?v=" (version) }; }
    }
}

/// The tenant's mark and name.
pub(crate) fn mark(tenant: &str, brand: &Brand) -> Markup {
    html! {
        @match &brand.logo {
            Some(version) => { img.logo src={ (ROOT) "/logo?v=" (version) } alt="" width="32" height="32"; }
            None => {
                span.logo aria-hidden="true" { (tenant.chars().find(|first| first.is_alphanumeric()).unwrap_or('·')) }
            }
        }
        span { (tenant) }
    }
}

fn ink(color: Color) -> &'static str {
    let luminance = luminance(color);
    let (on_white, on_black) = (1.05 / (luminance + 0.05), (luminance + 0.05) / 0.05);
    if on_white >= on_black { "#fff" } else { "#000" }
}

/// The relative luminance (WCAG 2.2): 0 is black, 1 is white.
fn luminance(Color(parts): Color) -> f64 {
    let linear = |part: u8| match f64::from(part) / 255.0 {
        part if part <= 0.04045 => part / 12.92,
        part => ((part + 0.055) / 1.055).powf(2.4),
    };
    let [red, green, blue] = parts.map(linear);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ink_has_enough_contrast_on_every_color() {
        let contrast = |one: f64, other: f64| (one.max(other) + 0.05) / (one.min(other) + 0.05);
        let steps = || (0..=255).step_by(17);
        for (red, green, blue) in
            steps().flat_map(|red| steps().flat_map(move |green| steps().map(move |blue| (red, green, blue))))
        {
            let color = Color([red, green, blue]);
            let of_ink = if ink(color) == "#fff" { 1.0 } else { 0.0 };
            assert!(contrast(luminance(color), of_ink) >= 4.5, "{color} {}", ink(color));
        }
        assert_eq!((ink(Color([0x2f, 0x5b, 0xd0])), ink(Color([0xff, 0xd2, 0x4a]))), ("#fff", "#000"));
        assert_eq!(stylesheet(Color([0, 0, 0])), ":root { --brand: #000000; --on-brand: #fff; }\n");
    }

    #[test]
    fn mark_is_the_logo_or_the_first_letter() {
        let plain = mark("(Acme) <b>", &Brand::default()).into_string();
        assert_eq!(plain, "<span class=\"logo\" aria-hidden=\"true\">A</span><span>(Acme) &lt;b&gt;</span>");
        let brand = Brand { color: Some("c0".into()), logo: Some("10".into()) };
        let own = mark("Acme", &brand).into_string();
        assert!(own.contains("<img class=\"logo\" src=\"/portal/logo?v=10\" alt=\"\""), "{own}");
        let link = link(&brand).into_string();
        assert_eq!(link, "<link rel=\"stylesheet\" href=\"/portal/brand.css?v=c0\">");
        assert_eq!(super::link(&Brand::default()).into_string(), "");
    }
}
