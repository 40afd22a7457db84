//! Changes of a user's right and state, the end of its tokens, and the search for users. For the command line and the portal.

use docket_domain::audit::AuditEvent;
use docket_domain::fold::folded;
use docket_domain::token::UserKind;
use docket_store::contacts::{self, ListedContact};
use docket_store::employees::{self, ListedEmployee};
use docket_store::people::{self, Person, UserState};
use docket_store::{Connection, StoreError, Transaction};

use crate::refusal::Refusal;

/// The most users that one search reads. The next page continues behind them.
pub const MOST_READ: i64 = 10_000;
/// The number of users that a search reads first. A word that many have is found among them; else the search reads all others at once.
const FIRST_READ: i64 = 1_000;

/// A change of a user that needs no password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// All tokens end.
    SignOut,
    /// The right of a contact to manage webhooks, or of an employee to be an administrator.
    Right(bool),
    /// Whether the user can sign in. Its tokens end.
    Active(bool),
}

impl Change {
    /// Whether this change may have led to this state of the user.
    pub const fn agrees(self, state: &UserState) -> bool {
        match self {
            Self::SignOut => state.sign_outs > 0,
            Self::Right(right) => state.has_right == right,
            Self::Active(active) => state.active == active,
        }
    }

    /// How the audit records it.
    pub const fn event(self) -> AuditEvent {
        match self {
            Self::SignOut => AuditEvent::SignedOut,
            Self::Right(true) => AuditEvent::RightGranted,
            Self::Right(false) => AuditEvent::RightRevoked,
            Self::Active(true) => AuditEvent::UserActivated,
            Self::Active(false) => AuditEvent::UserDeactivated,
        }
    }
}

/// Changes a user. `by`: the code of the administrator who does it; `None`: a command does, which may do everything.
///
/// Administrators can't take their own right away or deactivate themselves, and must have the right while the change is made. So the
/// tenant always has an administrator, unless a command removes the last administrator.
pub async fn change(
    transaction: &mut Transaction,
    person: Person<'_>,
    change: Change,
    by: Option<&str>,
) -> Result<(), Refusal> {
    if let Some(by) = by {
        if let Some(why) = forbidden(by, person, change) {
            return Err(Refusal::Conflict(why));
        }
        employees::lock_administrators(transaction).await?;
        if employees::administrator(transaction, by).await?.is_none() {
            return Err(Refusal::Conflict("Your own right to do this was taken a moment ago"));
        }
    }
    let is_found = match change {
        Change::SignOut => people::end_tokens(transaction, person).await?,
        Change::Right(has_right) => people::set_right(transaction, person, has_right).await?,
        Change::Active(active) => people::set_active(transaction, person, active).await?,
    };
    if is_found { Ok(()) } else { Err(Refusal::NotFound("There is no such user")) }
}

/// Why this administrator may not make this change; `None`: it is allowed.
fn forbidden(by: &str, person: Person<'_>, change: Change) -> Option<&'static str> {
    match change {
        _ if person != (Person { kind: UserKind::Employee, code: by }) => None,
        Change::Right(false) => {
            Some("You can't take your own right of an administrator; another administrator can")
        }
        Change::Active(false) => Some("You can't deactivate yourself; another administrator can"),
        Change::Right(true) | Change::Active(true) | Change::SignOut => None,
    }
}

/// Users of one kind that can be listed.
pub trait Listed: Sized + Send {
    /// The users after the one with the key `after`, in the order of their keys; at most `limit`.
    fn read(
        connection: &mut Connection,
        after: Option<&str>,
        limit: i64,
    ) -> impl Future<Output = Result<Vec<Self>, StoreError>> + Send;

    /// What the list is ordered by.
    fn key(&self) -> &str;

    /// The texts that a search reads.
    fn texts(&self) -> Vec<&str>;
}

impl Listed for ListedContact {
    async fn read(
        connection: &mut Connection,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<Self>, StoreError> {
        contacts::list(connection, None, after, limit).await
    }

    fn key(&self) -> &str {
        &self.email_key
    }

    fn texts(&self) -> Vec<&str> {
        vec![&self.name, &self.email, &self.code, &self.customer_code, &self.customer_name]
    }
}

impl Listed for ListedEmployee {
    async fn read(
        connection: &mut Connection,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<Self>, StoreError> {
        employees::list(connection, after, limit).await
    }

    fn key(&self) -> &str {
        &self.user_key
    }

    fn texts(&self) -> Vec<&str> {
        vec![&self.name, &self.user_name, &self.code]
    }
}

/// A page of users.
#[derive(Debug, PartialEq, Eq)]
pub struct Found<T> {
    /// The users, in the order of their keys.
    pub people: Vec<T>,
    /// The key after which the search continues; `None`: there is no more. A search that has read [`MOST_READ`] users may have found
    /// fewer than were asked for, even none.
    pub next: Option<String>,
}

/// Finds users whose texts contain each word of `words`, without regard to case and accents; all users if there is no word. At most
/// `size`, after the one with the key `after`.
pub async fn find<T: Listed>(
    connection: &mut Connection,
    words: &str,
    mut after: Option<String>,
    size: usize,
) -> Result<Found<T>, StoreError> {
    let words = folded(words);
    let words: Vec<&str> = words.split_whitespace().collect();
    let first = if words.is_empty() { size as i64 + 1 } else { FIRST_READ };
    let mut people = Vec::new();
    for chunk in [first, MOST_READ - first] {
        let read = T::read(connection, after.as_deref(), chunk).await?;
        let is_last = (read.len() as i64) < chunk;
        after = read.last().map(|last| last.key().to_owned());
        people.extend(read.into_iter().filter(|person| has_all(&person.texts(), &words)));
        if people.len() > size {
            people.truncate(size);
            let next = people.last().map(|last: &T| last.key().to_owned());
            return Ok(Found { people, next });
        }
        if is_last {
            return Ok(Found { people, next: None });
        }
    }
    Ok(Found { people, next: after })
}

/// Whether each of these folded words is a part of one of the texts.
fn has_all(texts: &[&str], words: &[&str]) -> bool {
    if words.is_empty() {
        return true;
    }
    let texts: Vec<String> = texts.iter().map(|text| folded(text)).collect();
    words.iter().all(|word| texts.iter().any(|text| text.contains(word)))
}

#[cfg(test)]
mod tests {
    use docket_program::clock::Clock;
    use docket_rig::scratch::Folder;
    use docket_store::Database;
    use docket_store::sqlite::Sqlite;

    use super::*;

    #[test]
    fn administrator_can_neither_take_the_own_right_nor_deactivate_itself() {
        let person = |kind, code| Person { kind, code };
        let (own, other) = (person(UserKind::Employee, "52"), person(UserKind::Employee, "51"));
        let namesake = person(UserKind::Contact, "52");
        for change in [Change::Right(false), Change::Active(false)] {
            assert!(forbidden("52", own, change).is_some(), "{change:?}");
            assert_eq!((forbidden("52", other, change), forbidden("52", namesake, change)), (None, None));
        }
        for change in [Change::Right(true), Change::Active(true), Change::SignOut] {
            assert_eq!(forbidden("52", own, change), None, "{change:?}");
        }
    }

    #[test]
    fn user_is_found_by_each_text_of_the_list() {
        let text = str::to_owned;
        let contact = ListedContact {
            code: text("17"),
            email: text("ada@quillfeather.example"),
            email_key: text("key"),
            name: text("Bea"),
            customer_code: text("C-1"),
            customer_name: text("Quill & Moss"),
            manages_webhooks: false,
            active: true,
        };
        for word in ["17", "ada@", "bea", "c-1", "moss"] {
            assert!(has_all(&contact.texts(), &[word]), "{word}");
        }
        assert!(!has_all(&contact.texts(), &["bea", "key"]), "each word is in a text that is shown");
        let employee = ListedEmployee {
            code: text("52"),
            user_name: text("Mo.Ito"),
            user_key: text("key"),
            name: text("Monica"),
            administrator: false,
            active: true,
        };
        for word in ["52", "mo.ito", "monica"] {
            assert!(has_all(&employee.texts(), &[word]), "{word}");
        }
    }

    /// A database with this many employees, of whom the first two are administrators.
    async fn database(count: i64) -> (Database, Folder) {
        let folder = Folder::new("people");
        let database = Database::Sqlite(Sqlite::new(folder.path().join("tenant.db")));
        database.migrate(&Clock::System).await.expect("a file");
        let mut transaction = database.begin(&Clock::System).await.expect("a file");
        let insert = "WITH RECURSIVE row (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM row WHERE n + 1 < $1) \
                      INSERT INTO employee (code, user_name, user_key, name, administrator, active, created_at_ms) \
                      SELECT CAST(n AS TEXT), printf('user-%05d', n), printf('user-%05d', n), \
                      CASE WHEN n + 1 = $1 THEN 'Zoë Last' ELSE 'Ann' END, n < 2, TRUE, 0 FROM row";
        transaction.execute(insert, vec![count.into()]).await.expect("a statement");
        transaction.commit().await.expect("committed");
        (database, folder)
    }

    async fn changed(database: &Database, person: &str, what: Change, by: Option<&str>) -> bool {
        let mut transaction = database.begin(&Clock::System).await.expect("a file");
        let changed =
            change(&mut transaction, Person { kind: UserKind::Employee, code: person }, what, by).await;
        match &changed {
            Ok(()) => transaction.commit().await.expect("committed"),
            Err(Refusal::Conflict(_) | Refusal::NotFound(_)) => drop(transaction),
            Err(other) => panic!("{other}"),
        }
        changed.is_ok()
    }

    #[tokio::test]
    async fn last_administrator_stays_unless_a_command_takes_the_right() {
        let (database, _folder) = database(3).await;
        assert!(!changed(&database, "9", Change::SignOut, Some("0")).await, "there is no such user");
        assert!(!changed(&database, "0", Change::Right(false), Some("2")).await, "2 is no administrator");
        assert!(changed(&database, "1", Change::Right(false), Some("0")).await);
        // At the same time, the other administrator wanted the same change.
        assert!(!changed(&database, "0", Change::Active(false), Some("1")).await);
        assert!(!changed(&database, "0", Change::Right(false), Some("0")).await);
        assert!(changed(&database, "0", Change::Right(false), None).await);
    }

    #[tokio::test]
    async fn search_ignores_case_and_accents_and_continues_where_it_stopped() {
        let (database, _folder) = database(MOST_READ + 10).await;
        let mut reader = database.reader().await.expect("a connection");
        let page = find::<ListedEmployee>(&mut reader, "", None, 50).await.expect("a search");
        assert_eq!((page.people.len(), page.next.as_deref()), (50, Some("user-00049")));
        let page = find::<ListedEmployee>(&mut reader, "", page.next, 50).await.expect("a search");
        assert_eq!(page.people[0].user_name, "user-00050");
        // The first search reads as many as it may, and finds none of them.
        let none = find::<ListedEmployee>(&mut reader, "LAST zoe", None, 50).await.expect("a search");
        assert_eq!((none.people.len(), none.next.as_deref()), (0, Some("user-09999")));
        let rest = find::<ListedEmployee>(&mut reader, "LAST zoe", none.next, 50).await.expect("a search");
        assert_eq!((rest.people.len(), rest.next), (1, None));
        assert_eq!(rest.people[0].name, "Zoë Last");
        // A search of many matches has pages of the same size.
        let many = find::<ListedEmployee>(&mut reader, "ann", None, 50).await.expect("a search");
        assert_eq!((many.people.len(), many.next.as_deref()), (50, Some("user-00049")));
    }
}
