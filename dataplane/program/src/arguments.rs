//! Parsers of command-line arguments, for clap's `value_parser`. An error lists the accepted values.

use std::net::SocketAddr;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Reads a whole number with a unit: `500ms`, `30s`, `5m`, `1h`, `30d`. Returns `None` for any other text, and for a
/// duration of more milliseconds than a `u64` can hold.
///
/// jiff's parser is not used because it accepts more than the flags document: `1.5s`, `30 s`, `1h 5m`, `2 weeks`.
pub fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(millis).map(Duration::from_millis)
}

/// Reads an IP address with a port.
///
/// # Errors
///
/// The text is something else, such as a host name.
pub fn socket(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "must be an address and a port, such as 127.0.0.1:8080 or [::1]:8080".into())
}

/// Checks a log level or a list of tracing directives, such as `info,kube=debug`.
///
/// # Errors
///
/// The text is no filter, or contains a bare word that is no level. tracing would read the word as a target and log
/// nothing else.
pub fn log_filter(text: &str) -> Result<String, String> {
    let is_level = |part: &str| part.trim().parse::<LevelFilter>().is_ok();
    let is_sound = text.split(',').all(|part| part.contains(['=', '[']) || is_level(part));
    match EnvFilter::try_new(text) {
        Ok(_) if is_sound => Ok(text.to_owned()),
        _ => {
            Err("must be error, warn, info, debug or trace, or a tracing filter such as info,kube=debug"
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_needs_a_whole_number_and_a_unit() {
        assert_eq!(duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(duration("0s"), Some(Duration::ZERO));
        assert_eq!(duration("2m"), Some(Duration::from_secs(120)));
        assert_eq!(duration("1h"), Some(Duration::from_secs(3600)));
        assert_eq!(duration("30d"), Some(Duration::from_secs(30 * 86_400)));
        for wrong in ["", "30", "s", "-1s", "+1s", "1.5s", "30 s", "1w", "1h5m", "99999999999999999999s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn socket_needs_an_address_and_a_port() {
        assert!(socket("127.0.0.1:8080").is_ok() && socket("[::1]:8080").is_ok());
        for wrong in ["", "8080", "127.0.0.1", "localhost:8080", "::1:8080"] {
            assert!(socket(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn log_filter_needs_levels_or_named_targets() {
        for good in ["info", "DEBUG", "off", "docket_operator=debug,warn", "info,kube=warn"] {
            assert!(log_filter(good).is_ok(), "{good}");
        }
        for bad in ["loud", "info,loud", "=,"] {
            assert!(log_filter(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn longest_duration_has_the_most_milliseconds() {
        let most = u64::MAX;
        assert_eq!(duration(&format!("{most}ms")), Some(Duration::from_millis(most)));
        assert_eq!(duration(&format!("{most}s")), None, "it has more than fit");
    }
}
