//! The keys for session tokens and their rotation. Pure.
//!
//! A new key is distributed before it signs. An old key verifies until the last token that it signed has expired:
//! `made -> (distributed) -> signs -> verifies only -> gone`.

use docket_crds::{SecretBytes, SigningKey};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// How long the data plane has a key before it signs. Pods need seconds; this allows for a pod that was cut off.
const DISTRIBUTION: SignedDuration = SignedDuration::from_mins(10);
/// How long an old key verifies: the longest validity of a token (24 h, whatever `lifetimeMinutes` was when it was
/// signed), and some minutes.
const OVERLAP: SignedDuration = SignedDuration::from_mins(24 * 60 + 5);
const KEY_BYTES: usize = 32;
const KID_BYTES: usize = 8;

/// Fills a slice with random bytes for keys.
pub type Random<'a> = &'a mut (dyn FnMut(&mut [u8]) + Send);

/// A signing key and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownKey {
    #[serde(flatten)]
    pub(crate) key: SigningKey,
    /// When the key was made.
    pub(crate) made_at: Timestamp,
    /// When the key began to sign; absent while it is being distributed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signs_since: Option<Timestamp>,
}

/// The keys after a rotation, the signing key first, and when the next step is due.
#[derive(Debug, PartialEq, Eq)]
pub struct Rotated {
    /// The keys, at least one.
    pub keys: Vec<KnownKey>,
    /// When the next step is due.
    pub next: Timestamp,
}

/// Takes the step that is due. `distributed`: no pod is known to serve older keys than these.
pub fn rotate(
    mut keys: Vec<KnownKey>,
    rotation_days: u32,
    distributed: bool,
    now: Timestamp,
    random: Random<'_>,
) -> Rotated {
    if keys.iter().all(|key| key.signs_since.is_none()) {
        // There are no tokens of an earlier key, so the new key need not wait.
        match keys.first_mut() {
            Some(key) => key.signs_since = Some(now),
            None => keys.push(make(now, Some(now), random)),
        }
    }
    if let Some(next) = keys.iter_mut().find(|key| key.signs_since.is_none())
        && distributed
        && next.made_at + DISTRIBUTION <= now
    {
        next.signs_since = Some(now);
    }
    // The newest signing key comes first, then keys that are being distributed, then keys that only verify.
    keys.sort_by_key(|key| std::cmp::Reverse(key.signs_since));
    let signs_since = keys[0].signs_since.unwrap_or(now);
    let ends = signs_since + SignedDuration::from_hours(24 * i64::from(rotation_days));
    if keys.iter().all(|key| key.signs_since.is_some()) && ends - DISTRIBUTION <= now {
        keys.push(make(now, None, random));
    }
    let mut newer = None;
    keys.retain(|key| {
        let successor = newer;
        newer = key.signs_since.or(newer);
        key.signs_since.is_none() || successor.is_none_or(|successor| now < successor + OVERLAP)
    });
    keys.sort_by_key(|key| match key.signs_since {
        Some(since) if since == signs_since => (0, 0),
        None => (1, 0),
        Some(since) => (2, -since.as_second()),
    });
    let next = next_step(&keys, ends, now);
    Rotated { keys, next }
}

fn make(now: Timestamp, signs_since: Option<Timestamp>, random: Random<'_>) -> KnownKey {
    let (mut kid, mut secret) = ([0; KID_BYTES], vec![0; KEY_BYTES]);
    random(&mut kid);
    random(&mut secret);
    let key = SigningKey { kid: hex::encode(kid), secret: SecretBytes::from(secret) };
    KnownKey { key, made_at: now, signs_since }
}

fn next_step(keys: &[KnownKey], ends: Timestamp, now: Timestamp) -> Timestamp {
    let waiting = keys.iter().find(|key| key.signs_since.is_none());
    // An overdue step waits for pods, so it is tried again soon.
    let handover = match waiting {
        Some(key) => (key.made_at + DISTRIBUTION).max(now + SignedDuration::from_mins(1)),
        None => ends - DISTRIBUTION,
    };
    let mut signers: Vec<_> = keys.iter().filter_map(|key| key.signs_since).collect();
    signers.sort();
    let first_end = signers.get(1).map(|successor| *successor + OVERLAP);
    first_end.map_or(handover, |end| end.min(handover))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: SignedDuration = SignedDuration::from_hours(24);
    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn counter() -> impl FnMut(&mut [u8]) + Send {
        let mut count = 0;
        move |bytes: &mut [u8]| {
            count += 1;
            bytes.fill(count);
        }
    }

    fn kids(rotated: &Rotated) -> Vec<&str> {
        rotated.keys.iter().map(|key| &key.key.kid[..2]).collect()
    }

    #[test]
    fn the_first_key_signs_at_once() {
        let rotated = rotate(Vec::new(), 90, true, START, &mut counter());
        assert_eq!(kids(&rotated), ["01"]);
        assert_eq!(rotated.keys[0].signs_since, Some(START));
        assert_eq!(rotated.keys[0].key.secret.expose().len(), 32);
        assert_eq!(rotated.next, START + DAY * 90 - DISTRIBUTION);
        assert_eq!(DISTRIBUTION, SignedDuration::from_secs(600), "pods that were cut off come back");
        assert_eq!(OVERLAP, DAY + SignedDuration::from_secs(300), "no token is valid for longer than a day");
    }

    #[test]
    fn nothing_changes_until_a_step_is_due() {
        let mut random = counter();
        let first = rotate(Vec::new(), 90, true, START, &mut random);
        let later = rotate(first.keys.clone(), 90, true, START + DAY * 89, &mut random);
        assert_eq!(later, first);
    }

    #[test]
    fn new_key_is_distributed_then_signs_while_the_old_one_verifies() {
        let mut random = counter();
        let first = rotate(Vec::new(), 1, true, START, &mut random);
        let made_at = first.next;
        let second = rotate(first.keys, 1, true, made_at, &mut random);
        assert_eq!(kids(&second), ["01", "03"], "the new one does not sign yet");
        assert_eq!(second.next, made_at + DISTRIBUTION);

        let signs = second.next;
        let held = rotate(second.keys.clone(), 1, false, signs, &mut random);
        assert_eq!(kids(&held), ["01", "03"], "a pod does not know it yet");
        assert_eq!(
            held.next,
            signs + SignedDuration::from_mins(1),
            "it is tried again soon, and not at once"
        );
        let third = rotate(second.keys, 1, true, signs, &mut random);
        assert_eq!(kids(&third), ["03", "01"]);

        let almost = signs + OVERLAP - SignedDuration::from_secs(1);
        let fourth = rotate(third.keys.clone(), 90, true, almost, &mut random);
        assert_eq!(kids(&fourth), ["03", "01"]);
        assert_eq!(fourth.next, signs + OVERLAP);
        let fifth = rotate(fourth.keys, 90, true, fourth.next, &mut random);
        assert_eq!(kids(&fifth), ["03"]);
    }

    #[test]
    fn daily_rotation_keeps_few_keys_and_every_signer_was_distributed() {
        let mut random = counter();
        let mut rotated = rotate(Vec::new(), 1, true, START, &mut random);
        let mut now = START;
        for _ in 0..40 {
            let known: Vec<_> = kids(&rotated).into_iter().map(str::to_owned).collect();
            now = rotated.next;
            rotated = rotate(rotated.keys, 1, true, now, &mut random);
            assert!(known.iter().any(|kid| kid == kids(&rotated)[0]), "{known:?}");
            assert!(rotated.keys.len() <= 4, "{}", rotated.keys.len());
            assert!(rotated.next > now);
        }
        assert!(now > START + DAY * 10);
    }

    #[test]
    fn known_key_reads_back_from_json() {
        let keys = rotate(Vec::new(), 1, true, START, &mut counter()).keys;
        let json = serde_json::to_string(&keys).unwrap();
        assert_eq!(serde_json::from_str::<Vec<KnownKey>>(&json).unwrap(), keys);
        assert!(!format!("{keys:?}").contains(&hex::encode(keys[0].key.secret.expose())));
    }
}
