//! The errors of calls to Redis.

/// Redis is unavailable, refused a command or is not suitable. The text names servers and settings, but never a password.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No usable server responded in time. Calls work again once one responds.
    #[error("Redis is not available: {0}")]
    Away(String),
    /// Redis responded with an error.
    #[error("Redis refused: {0}")]
    Refused(String),
    /// This Redis is not suitable for Docket. An operator has to change a setting.
    #[error("Redis can't be used: {0}")]
    Unfit(String),
}
