//! Words: enums that are stored, sent and shown as text.

/// The text is not one of the words that this version knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown word")]
pub struct UnknownWord;

/// Defines an enum whose variants are their words, with `ALL`, `as_str` and `FromStr`.
macro_rules! words {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$about:meta])* $word:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$about])* $word),+ }

        impl $name {
            /// All of them, in their order.
            pub const ALL: [Self; [$(stringify!($word)),+].len()] = [$(Self::$word),+];

            /// The word that is stored, sent and shown.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$word => stringify!($word)),+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::word::UnknownWord;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.into_iter().find(|word| word.as_str() == text).ok_or($crate::word::UnknownWord)
            }
        }
    };
}
pub(crate) use words;
