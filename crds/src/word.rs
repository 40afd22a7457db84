//! Words: enums that are stored, sent and shown as text.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The text is not a word of the enum; the field lists the enum's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {}", .0.join(", "))]
pub struct UnknownWord(pub &'static [&'static str]);

/// The most unknown words that a process keeps: another program may store any text.
const MOST_UNKNOWN: usize = 64;
/// The longest unknown word, in bytes.
const LONGEST_UNKNOWN: usize = 40;

static UNKNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// A word that this version does not know, so that it can be shown as it is. The process keeps it until it ends. A text of more than 40
/// bytes or with other characters than letters, digits, `.`, `_` and `-`, and each word after the first 64, becomes `Unknown`.
pub fn unknown_word(text: &str) -> &'static str {
    kept(&mut UNKNOWN.lock().unwrap_or_else(PoisonError::into_inner), text)
}

fn kept(words: &mut BTreeSet<&'static str>, text: &str) -> &'static str {
    let is_word = (1..=LONGEST_UNKNOWN).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    match words.get(text).copied() {
        Some(word) => word,
        None if is_word && words.len() < MOST_UNKNOWN => {
            let word: &'static str = Box::leak(text.to_owned().into_boxed_str());
            words.insert(word);
            word
        }
        None => "Unknown",
    }
}

/// Defines an enum of words, with `ALL`, `WORDS`, `as_str`, `Display` and `FromStr`. The word of a variant is its name, or the text
/// after `=`.
///
/// ```
/// docket_crds::words! {
///     /// What a door is.
///     pub enum Door {
///         /// No one comes in.
///         Closed,
///         /// Everyone comes in.
///         WideOpen = "wide-open",
///     }
/// }
///
/// assert_eq!(Door::WideOpen.to_string(), "wide-open");
/// assert_eq!("Closed".parse(), Ok(Door::Closed));
/// assert_eq!("closed".parse::<Door>().unwrap_err().to_string(), "must be one of Closed, wide-open");
/// ```
///
/// `; else Unknown` behind the variants is for words that a newer version may have stored. It adds the variant `Unknown` with the word as
/// text, which is in neither `ALL` nor `WORDS` and can't be parsed, and the function `stored`, which reads any text.
///
/// ```
/// docket_crds::words! {
///     /// What a lock is.
///     pub enum Lock {
///         /// It needs the key.
///         Locked;
///         /// A word of a newer version.
///         else Unknown
///     }
/// }
///
/// assert_eq!(Lock::stored("Locked"), Lock::Locked);
/// assert_eq!(Lock::stored("Jammed").as_str(), "Jammed");
/// assert_eq!("Jammed".parse::<Lock>().unwrap_err().to_string(), "must be one of Locked");
/// ```
#[macro_export]
macro_rules! words {
    (@text $variant:ident) => { ::core::stringify!($variant) };
    (@text $variant:ident $text:literal) => { $text };
    ($(#[$about:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $variant:ident $(= $text:literal)?),+ $(,)? $(; $(#[$unknown_doc:meta])* else $unknown:ident)?
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name { $($(#[$doc])* $variant,)+ $($(#[$unknown_doc])* $unknown(&'static str),)? }

        impl $name {
            /// All variants, in the order of the declaration.
            $vis const ALL: [Self; [$(::core::stringify!($variant)),+].len()] = [$(Self::$variant),+];

            /// The words of [`Self::ALL`], in the same order.
            $vis const WORDS: [&'static str; Self::ALL.len()] = [$($crate::words!(@text $variant $($text)?)),+];

            /// The word that is stored, sent and shown.
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $crate::words!(@text $variant $($text)?),)+
                    $(Self::$unknown(word) => word,)?
                }
            }
        }

        $(impl $name {
            /// The variant of a stored word; a word that this version does not know stays as it is, within
            /// the limits of `docket_crds::unknown_word`.
            $vis fn stored(text: &str) -> Self {
                text.parse().unwrap_or_else(|_| Self::$unknown($crate::unknown_word(text)))
            }
        })?

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::core::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(text: &str) -> ::core::result::Result<Self, Self::Err> {
                Self::ALL.into_iter().find(|word| word.as_str() == text).ok_or($crate::UnknownWord(&Self::WORDS))
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::words! {
        /// For the test.
        enum Fruit {
            /// Red.
            Apple,
            /// Yellow.
            Quince = "quince";
            /// A word of a newer version.
            else Unknown
        }
    }

    #[test]
    fn unknown_word_is_shown_as_it_is_and_never_parsed() {
        assert_eq!(Fruit::stored("quince"), Fruit::Quince);
        assert_eq!(Fruit::stored("Medlar"), Fruit::Unknown("Medlar"));
        assert_eq!(Fruit::stored("Medlar").to_string(), "Medlar");
        assert_eq!("Medlar".parse::<Fruit>(), Err(UnknownWord(&Fruit::WORDS)));
        assert_eq!(Fruit::WORDS, ["Apple", "quince"]);
        assert_eq!(Fruit::ALL, [Fruit::Apple, Fruit::Quince]);
    }

    #[test]
    fn text_that_is_no_word_is_not_kept() {
        let (mut words, long) = (BTreeSet::new(), "x".repeat(LONGEST_UNKNOWN + 1));
        for text in ["", "two words", "<b>", "é", "a\nb", &long] {
            assert_eq!(kept(&mut words, text), "Unknown", "{text:?}");
        }
        assert!(words.is_empty());
        for number in 0..2 * MOST_UNKNOWN {
            let word = format!("word-{number}");
            let expected = if number < MOST_UNKNOWN { &word } else { "Unknown" };
            assert_eq!(kept(&mut words, &word), expected);
        }
        assert_eq!(kept(&mut words, "word-0"), "word-0", "it is kept");
    }
}
