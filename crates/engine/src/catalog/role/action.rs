//! Data actions: what a role permits, by the names that the service has for them. An operation of the
//! protocol that has none is open to keys alone.

/// What every name of an action begins with.
const ACCOUNT: &str = "Microsoft.DocumentDB/databaseAccounts/";
/// The same for actions on a container and its items.
const CONTAINERS: &str = "sqlDatabases/containers/";
const ITEMS: &str = "items/";

macro_rules! data_actions {
    ($($name:ident = $group:ident $text:literal;)*) => {
        /// One thing that a role may permit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum DataAction { $($name,)* }

        impl DataAction {
            /// Every action.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            const fn group(self) -> ActionGroup {
                match self { $(Self::$name => ActionGroup::$group,)* }
            }

            const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

/// What an action is about. A wildcard covers a group and not the group below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActionGroup {
    Account,
    Container,
    Item,
}

data_actions! {
    ReadMetadata = Account "readMetadata";
    ExecuteQuery = Container "executeQuery";
    ReadChangeFeed = Container "readChangeFeed";
    ExecuteStoredProcedure = Container "executeStoredProcedure";
    ManageConflicts = Container "manageConflicts";
    CreateItem = Item "create";
    ReadItem = Item "read";
    ReplaceItem = Item "replace";
    UpsertItem = Item "upsert";
    DeleteItem = Item "delete";
    // Nothing is masked here, so it permits nothing more.
    UnmaskItem = Item "unmask";
}

impl DataAction {
    /// The whole name, as refusals and role definitions have it.
    pub fn name(self) -> String {
        match self.group() {
            ActionGroup::Account => format!("{ACCOUNT}{}", self.text()),
            ActionGroup::Container => format!("{ACCOUNT}{CONTAINERS}{}", self.text()),
            ActionGroup::Item => format!("{ACCOUNT}{CONTAINERS}{ITEMS}{}", self.text()),
        }
    }
}

/// A set of actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActionSet(u16);

impl ActionSet {
    /// The set of these.
    pub fn of(actions: impl IntoIterator<Item = DataAction>) -> Self {
        Self(actions.into_iter().fold(0, |bits, action| bits | 1 << action as u16))
    }

    /// What a name in a role definition stands for; names are compared without regard to case, as the
    /// service compares them.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let group = |wanted: ActionGroup| {
            Self::of(DataAction::ALL.iter().copied().filter(|action| action.group() == wanted))
        };
        let is = |name: &str| text.eq_ignore_ascii_case(name);
        if is(&format!("{ACCOUNT}{CONTAINERS}*")) {
            return Some(group(ActionGroup::Container));
        }
        if is(&format!("{ACCOUNT}{CONTAINERS}{ITEMS}*")) {
            return Some(group(ActionGroup::Item));
        }
        let found = DataAction::ALL.iter().copied().find(|action| is(&action.name()))?;
        Some(Self::of([found]))
    }

    /// Whether an action is in it.
    pub fn contains(self, action: DataAction) -> bool {
        self.0 & 1 << action as u16 != 0
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_read_by_its_own_name() {
        for action in DataAction::ALL {
            assert_eq!(ActionSet::parse(&action.name()), Some(ActionSet::of([*action])));
            let other = action.name().to_uppercase();
            assert_eq!(ActionSet::parse(&other), Some(ActionSet::of([*action])));
        }
        assert_eq!(
            DataAction::ReadItem.name(),
            "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/read"
        );
    }

    #[test]
    fn a_wildcard_covers_its_own_level_only() {
        let parse = |text: &str| ActionSet::parse(&format!("{ACCOUNT}{text}"));
        let container = parse("sqlDatabases/containers/*").unwrap();
        assert!(container.contains(DataAction::ExecuteQuery));
        assert!(!container.contains(DataAction::ReadItem));
        assert!(!container.contains(DataAction::ReadMetadata));
        let items = parse("sqlDatabases/containers/items/*").unwrap();
        assert!(items.contains(DataAction::DeleteItem));
        assert!(!items.contains(DataAction::ExecuteQuery));
        for unknown in ["*", "", "sqlDatabases/*", "sqlDatabases/write", "read*", "readMetadata "] {
            assert_eq!(parse(unknown), None, "{unknown}");
        }
    }
}
