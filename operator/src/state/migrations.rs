//! Pure: in which order the tenants' databases are migrated, and what a migration waits for.

use std::fmt;
use std::str::FromStr;

use docket_schema::NEWEST;
use jiff::Timestamp;

/// When the operator migrates databases that are in use. New databases are always made and migrated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigrationRules {
    /// Whether no migration begins.
    pub paused: bool,
    /// The time of day in which migrations begin; `None`: at any time.
    pub window: Option<MigrationWindow>,
}

/// A time of each day in UTC, to the minute. Its end may be on the next day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationWindow {
    /// Minutes since midnight.
    from: i64,
    /// Minutes since midnight. The window ends when this minute begins.
    to: i64,
}

const MINUTES_OF_DAY: i64 = 24 * 60;

impl MigrationWindow {
    fn contains(self, now: Timestamp) -> bool {
        let minute = now.as_second().div_euclid(60).rem_euclid(MINUTES_OF_DAY);
        match self.from < self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        }
    }
}

impl FromStr for MigrationWindow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let window = text.split_once('-').and_then(|(from, to)| Some((minutes(from)?, minutes(to)?)));
        match window {
            Some((from, to)) if from != to => Ok(Self { from, to }),
            _ => Err("must be two different times in UTC, such as 22:00-04:00".into()),
        }
    }
}

/// The minutes since midnight of a time such as `04:30`.
fn minutes(text: &str) -> Option<i64> {
    let digits = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<i64>().ok()).flatten()
    };
    let (hour, minute) = text.split_once(':')?;
    let (hour, minute) = (digits(hour)?, digits(minute)?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

impl fmt::Display for MigrationWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

/// A Tenant, as far as the migration of its database is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigratingTenant {
    /// The version of the schema that the status reports; `None`: there is no database yet.
    pub version: Option<i64>,
    /// Whether the last migration failed.
    pub has_failed: bool,
    /// Whether the Tenant has the label that puts it before all others.
    pub is_first: bool,
    /// Whether the Tenant has the annotation that pauses its migrations.
    pub is_paused: bool,
}

/// The state of a database's migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationState {
    /// The database has the schema of this version, or of a later one.
    Done,
    /// The database has an older schema.
    Pending,
    /// The last migration failed. It is tried again.
    Failed,
}

impl MigratingTenant {
    /// The state of the migration; `None`: there is no database yet.
    pub fn state(self) -> Option<MigrationState> {
        match self.version {
            None => None,
            Some(_) if self.has_failed => Some(MigrationState::Failed),
            Some(version) if version < NEWEST => Some(MigrationState::Pending),
            Some(_) => Some(MigrationState::Done),
        }
    }
}

/// The Tenants that are migrated before all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstTenants {
    /// Whether a first Tenant is not migrated yet.
    pub pending: bool,
    /// Whether the migration of one of them failed.
    pub failed: bool,
}

impl FirstTenants {
    /// Sums these Tenants up.
    pub fn of(tenants: impl IntoIterator<Item = MigratingTenant>) -> Self {
        tenants.into_iter().filter(|tenant| tenant.is_first).fold(Self::default(), |all, tenant| Self {
            pending: all.pending || tenant.state() == Some(MigrationState::Pending),
            failed: all.failed || tenant.state() == Some(MigrationState::Failed),
        })
    }
}

/// What the migration of a database waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The end of the pause of all migrations.
    Paused,
    /// The end of the pause of this Tenant's migrations.
    TenantPaused,
    /// The time of day in which migrations begin.
    Window(MigrationWindow),
    /// The Tenants that are migrated first.
    First,
    /// A Tenant that is migrated first and whose migration failed.
    FirstFailed,
    /// A place among the migrations that run at the same time.
    Place,
    /// The end of a mistake in the Tenant, which another condition reports.
    OtherConditions,
}

impl Waiting {
    /// Whether a user has chosen that the migration waits now.
    pub fn is_chosen(self) -> bool {
        matches!(self, Self::Paused | Self::TenantPaused | Self::Window(_))
    }
}

/// No names and counts, so that the message of a status stays the same while other Tenants are migrated.
impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => f.write_str("--pause-migrations (the chart's migrations.paused)"),
            Self::TenantPaused => f.write_str("the annotation docket.dev/pause-migrations of this Tenant"),
            Self::Window(window) => write!(f, "the window {window} UTC"),
            Self::First => f.write_str("the Tenants with the label docket.dev/migrate-first"),
            Self::FirstFailed => f.write_str(
                "a Tenant with the label docket.dev/migrate-first, whose migration failed; nothing else is migrated",
            ),
            Self::Place => f.write_str("migrations of other Tenants (--migrations-at-once)"),
            Self::OtherConditions => f.write_str("the other conditions"),
        }
    }
}

/// What the migration of this Tenant's database waits for; `None`: it may begin.
pub fn waits(
    rules: MigrationRules,
    first: FirstTenants,
    tenant: MigratingTenant,
    now: Timestamp,
) -> Option<Waiting> {
    if tenant.is_paused {
        return Some(Waiting::TenantPaused);
    }
    if rules.paused {
        return Some(Waiting::Paused);
    }
    if let Some(window) = rules.window.filter(|window| !window.contains(now)) {
        return Some(Waiting::Window(window));
    }
    let retries = tenant.is_first && tenant.has_failed;
    if first.failed && !retries {
        return Some(Waiting::FirstFailed);
    }
    (first.pending && !tenant.is_first).then_some(Waiting::First)
}

/// How many databases are in each state, and how many of them should progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigrationCounts {
    /// The databases with the schema of this version.
    pub done: usize,
    /// The databases with an older schema.
    pub pending: usize,
    /// The databases whose last migration failed.
    pub failed: usize,
    /// The pending databases, without those whose migration waits because a user has chosen so.
    pub expected: usize,
}

impl MigrationCounts {
    /// Whether migrations progress, compared with the counts `before`: one has ended, or none is expected to.
    pub fn progress(self, before: Self) -> bool {
        self.expected == 0 || self.pending + self.failed < before.pending + before.failed
    }
}

/// The states of all migrations, and what follows.
#[derive(Debug, PartialEq, Eq)]
pub struct Overview<K> {
    /// How many databases are in each state.
    pub counts: MigrationCounts,
    /// The Tenants whose migration may begin, the first ones first.
    pub due: Vec<K>,
    /// The other Tenants with a pending migration, and what each waits for.
    pub waiting: Vec<(K, Waiting)>,
}

/// Counts the states of all Tenants, and finds out whose migration may begin.
pub fn overview<K>(
    tenants: impl IntoIterator<Item = (K, MigratingTenant)>,
    first: FirstTenants,
    rules: MigrationRules,
    now: Timestamp,
) -> Overview<K> {
    let mut counts = MigrationCounts::default();
    let (mut due, mut others, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    for (key, tenant) in tenants {
        match tenant.state() {
            None => {}
            Some(MigrationState::Done) => counts.done += 1,
            Some(MigrationState::Failed) => counts.failed += 1,
            Some(MigrationState::Pending) => {
                counts.pending += 1;
                let waits = waits(rules, first, tenant, now);
                counts.expected += usize::from(!waits.is_some_and(Waiting::is_chosen));
                match waits {
                    Some(what) => waiting.push((key, what)),
                    None if tenant.is_first => due.push(key),
                    None => others.push(key),
                }
            }
        }
    }
    due.append(&mut others);
    Overview { counts, due, waiting }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: MigrationRules = MigrationRules { paused: false, window: None };
    const OLD: MigratingTenant =
        MigratingTenant { version: Some(NEWEST - 1), has_failed: false, is_first: false, is_paused: false };
    const FIRST: MigratingTenant = MigratingTenant { is_first: true, ..OLD };

    fn at(hour: i64, minute: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 / 86_400 * 86_400 + hour * 3600 + minute * 60).unwrap()
    }

    #[test]
    fn window_is_read_and_may_end_on_the_next_day() {
        let night: MigrationWindow = "22:00-04:30".parse().unwrap();
        assert_eq!(night.to_string(), "22:00-04:30");
        for (hour, minute, inside) in
            [(22, 0, true), (23, 59, true), (0, 0, true), (4, 29, true), (4, 30, false), (21, 59, false)]
        {
            assert_eq!(night.contains(at(hour, minute)), inside, "{hour}:{minute}");
        }
        let noon: MigrationWindow = "12:00-13:00".parse().unwrap();
        assert!(noon.contains(at(12, 0)) && !noon.contains(at(13, 0)) && !noon.contains(at(11, 59)));
        for wrong in [
            "",
            "22:00",
            "22:00-22:00",
            "24:00-01:00",
            "1:00-02:00",
            "01:60-02:00",
            "a:bc-02:00",
            "01:00-02:00 ",
        ] {
            assert!(wrong.parse::<MigrationWindow>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn migration_waits_for_pause_window_and_the_tenants_that_are_first() {
        let none = FirstTenants::default();
        let window = "22:00-04:00".parse().ok();
        let paused = MigrationRules { paused: true, window };
        let nightly = MigrationRules { window, ..ANY };
        let waiting = |rules, first, tenant| waits(rules, first, tenant, at(12, 0));
        assert_eq!(waiting(ANY, none, OLD), None);
        assert_eq!(waiting(paused, none, FIRST), Some(Waiting::Paused));
        assert_eq!(waiting(nightly, none, OLD), window.map(Waiting::Window));
        assert_eq!(waits(nightly, none, OLD, at(23, 0)), None);
        let tenant_paused = MigratingTenant { is_paused: true, ..FIRST };
        assert_eq!(waiting(paused, none, tenant_paused), Some(Waiting::TenantPaused));

        let pending = FirstTenants::of([OLD, FIRST]);
        assert_eq!(pending, FirstTenants { pending: true, failed: false });
        assert_eq!(waiting(ANY, pending, OLD), Some(Waiting::First));
        assert_eq!(waiting(ANY, pending, FIRST), None);
        let failed = MigratingTenant { has_failed: true, ..FIRST };
        let after_failure = FirstTenants::of([FIRST, failed]);
        assert_eq!(waiting(ANY, after_failure, FIRST), Some(Waiting::FirstFailed));
        assert_eq!(waiting(ANY, after_failure, OLD), Some(Waiting::FirstFailed));
        assert_eq!(waiting(ANY, after_failure, failed), None, "it is tried again");
        let done = MigratingTenant { version: Some(NEWEST), ..FIRST };
        let new = MigratingTenant { version: None, ..FIRST };
        assert_eq!(FirstTenants::of([done, new]), none);
        let other_failed = MigratingTenant { has_failed: true, ..OLD };
        assert_eq!(FirstTenants::of([other_failed]), none, "it holds nothing up");
    }

    #[test]
    fn overview_counts_states_and_begins_with_the_first() {
        let tenants = [
            (1, OLD),
            (2, FIRST),
            (3, MigratingTenant { version: Some(NEWEST + 1), ..OLD }),
            (4, MigratingTenant { version: None, ..OLD }),
            (5, MigratingTenant { has_failed: true, ..OLD }),
            (6, MigratingTenant { is_paused: true, ..OLD }),
        ];
        let seen = |first, rules| overview(tenants, first, rules, at(12, 0));
        let all = seen(FirstTenants::default(), ANY);
        assert_eq!(all.counts, MigrationCounts { done: 1, pending: 3, failed: 1, expected: 2 });
        assert_eq!((all.due, all.waiting), (vec![2, 1], vec![(6, Waiting::TenantPaused)]));
        let first = seen(FirstTenants::of([FIRST]), ANY);
        assert_eq!(first.due, [2]);
        assert_eq!(first.waiting, [(1, Waiting::First), (6, Waiting::TenantPaused)]);
        let paused = seen(FirstTenants::default(), MigrationRules { paused: true, ..ANY });
        assert_eq!((paused.counts.expected, paused.due.len(), paused.waiting.len()), (0, 0, 3));
    }

    #[test]
    fn standstill_is_no_progress_unless_it_is_chosen() {
        let counts = |pending, failed, expected| MigrationCounts { done: 0, pending, failed, expected };
        assert!(counts(9, 0, 9).progress(counts(10, 0, 10)));
        assert!(!counts(10, 0, 10).progress(counts(10, 0, 10)));
        assert!(!counts(9, 1, 9).progress(counts(10, 0, 10)), "a failure is no progress");
        assert!(counts(10, 0, 0).progress(counts(10, 0, 0)), "it is paused");
        assert!(counts(0, 1, 0).progress(counts(0, 1, 0)), "a failure alone has its own condition");
    }
}
