//! Words: enums that are stored, sent and shown as text.

/// The text is not a word of the enum; the field lists the enum's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {}", .0.join(", "))]
pub struct UnknownWord(pub &'static [&'static str]);

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
#[macro_export]
macro_rules! words {
    (@text $variant:ident) => { ::core::stringify!($variant) };
    (@text $variant:ident $text:literal) => { $text };
    ($(#[$about:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident $(= $text:literal)?),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            /// All variants, in the order of the declaration.
            $vis const ALL: [Self; [$(::core::stringify!($variant)),+].len()] = [$(Self::$variant),+];

            /// The words of [`Self::ALL`], in the same order.
            $vis const WORDS: [&'static str; Self::ALL.len()] = [$($crate::words!(@text $variant $($text)?)),+];

            /// The word that is stored, sent and shown.
            $vis const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $crate::words!(@text $variant $($text)?)),+ }
            }
        }

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
