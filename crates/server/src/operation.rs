//! The operations of the protocol: what a request does, by its method, target and headers. The table
//! below has the access that each needs and the resource tokens that permit it; `dispatch` runs what was
//! authorized, because both read the same [`Operation`].
//!
//! `golden/auth/matrix.txt` shows the answer to every operation under every kind of credential.
//! The test that writes it has a request for each operation, by a match without wildcard.

use http::Method;

use crate::auth::Access;
use crate::wire::headers::RequestHeaders;
use crate::wire::link::{ScriptKind, Target};

/// Which resource tokens permit an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenScope {
    /// None: it needs a key of the account.
    None,
    /// Every valid token. SDKs read the account first.
    Any,
    /// A token for the container or anything in it. SDKs read the container's definition and ranges
    /// before they address an item.
    Around,
    /// A token for the container that is not confined to a partition key.
    Container,
    /// A token for the container; if it is confined to a partition key, for requests under that key.
    Keyed,
    /// As `Keyed`, and a token for the item.
    Item,
    /// As `Container`, and a token for the script that is not confined to a partition key. Code
    /// that is replaced runs under every key.
    Script,
    /// As `Keyed`, and a token for the script, confined to a partition key or not.
    KeyedScript,
}

macro_rules! operations {
    ($($name:ident: $access:ident, $scope:ident;)*) => {
        /// What a request does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum Operation { $($name,)* }

        impl Operation {
            /// Every operation.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What it does to data.
            pub const fn access(self) -> Access {
                match self { $(Self::$name => Access::$access,)* }
            }

            pub(crate) const fn token_scope(self) -> TokenScope {
                match self { $(Self::$name => TokenScope::$scope,)* }
            }
        }
    };
}

operations! {
    ReadAccount: Read, Any;
    ListAddresses: Read, Around;

    ListDatabases: Read, None;
    QueryDatabases: Read, None;
    CreateDatabase: Write, None;
    ReadDatabase: Read, None;
    ReplaceDatabase: Write, None;
    DeleteDatabase: Write, None;

    ListContainers: Read, None;
    QueryContainers: Read, None;
    CreateContainer: Write, None;
    ReadContainer: Read, Around;
    ReplaceContainer: Write, Container;
    DeleteContainer: Write, Container;

    ListItems: Read, Keyed;
    ReadChanges: Read, Keyed;
    PlanQuery: Read, Keyed;
    QueryItems: Read, Keyed;
    RunBatch: Write, Keyed;
    CreateItem: Write, Keyed;
    UpsertItem: Write, Keyed;
    ReadItem: Read, Item;
    ReplaceItem: Write, Item;
    PatchItem: Write, Item;
    DeleteItem: Write, Item;
    DeletePartitionKey: Write, Keyed;

    ListRanges: Read, Around;
    QueryRanges: Read, Around;
    SplitRange: Write, None;
    MergeRanges: Write, None;

    ListScripts: Read, Keyed;
    QueryScripts: Read, Keyed;
    CreateScript: Write, Container;
    ReadScript: Read, KeyedScript;
    ReplaceScript: Write, Script;
    DeleteScript: Write, Script;
    ExecuteProcedure: Write, KeyedScript;

    ListConflicts: Read, Container;
    QueryConflicts: Read, Container;
    ReadConflict: Read, Container;
    DeleteConflict: Write, Container;
    Attachments: Read, None;

    ListUsers: Read, None;
    QueryUsers: Read, None;
    CreateUser: Write, None;
    ReadUser: Read, None;
    ReplaceUser: Write, None;
    DeleteUser: Write, None;

    ListPermissions: ReadSecret, None;
    QueryPermissions: ReadSecret, None;
    CreatePermission: Write, None;
    ReadPermission: ReadSecret, None;
    ReplacePermission: Write, None;
    DeletePermission: Write, None;

    ListEncryptionKeys: Read, None;
    QueryEncryptionKeys: Read, None;
    CreateEncryptionKey: Write, None;
    ReadEncryptionKey: Read, None;
    ReplaceEncryptionKey: Write, None;
    DeleteEncryptionKey: Write, None;

    ListOffers: Read, None;
    QueryOffers: Read, None;
    ReadOffer: Read, None;
    ReplaceOffer: Write, None;

    ReadStatistics: Read, None;
    ListTasks: Read, None;
    RetryTasks: Write, None;
    BeginBackup: Write, None;
    EndBackup: Write, None;
    ReadBackupFile: ReadSecret, None;
    ReadModel: Read, None;
    StoreModel: Write, None;
    DeleteModel: Write, None;
    ReadAdvice: Read, None;

    Unsupported: Write, None;
}

impl Operation {
    /// The operation of a request. A HEAD is a GET whose body is not sent. A header that says "query" has
    /// an effect only where there are queries.
    pub fn of(method: &Method, target: &Target, headers: &RequestHeaders) -> Self {
        let method = match method.as_str() {
            "HEAD" => "GET",
            method => method,
        };
        let query = headers.is_query || headers.is_query_plan;
        match target {
            Target::Items(_) | Target::Item(..) => Self::of_items(method, target, headers),
            Target::Databases
            | Target::Database(_)
            | Target::Containers(_)
            | Target::Container(_) => Self::of_containers(method, target, query),
            Target::Users(_)
            | Target::User(_)
            | Target::Permissions(_)
            | Target::Permission(..) => Self::of_users(method, target, query),
            Target::Scripts(..) | Target::Script(..) => Self::of_scripts(method, target, query),
            _ => Self::of_rest(method, target, query),
        }
    }

    fn of_items(method: &str, target: &Target, headers: &RequestHeaders) -> Self {
        match (method, target) {
            ("GET", Target::Item(..)) => Self::ReadItem,
            ("PUT", Target::Item(..)) => Self::ReplaceItem,
            ("PATCH", Target::Item(..)) => Self::PatchItem,
            ("DELETE", Target::Item(..)) => Self::DeleteItem,
            ("GET", Target::Items(_)) if headers.a_im.is_some() => Self::ReadChanges,
            ("GET", Target::Items(_)) => Self::ListItems,
            ("POST", Target::Items(_)) if headers.is_query_plan => Self::PlanQuery,
            ("POST", Target::Items(_)) if headers.is_batch => Self::RunBatch,
            ("POST", Target::Items(_)) if headers.is_query => Self::QueryItems,
            ("POST", Target::Items(_)) if headers.is_upsert => Self::UpsertItem,
            ("POST", Target::Items(_)) => Self::CreateItem,
            _ => Self::Unsupported,
        }
    }

    fn of_containers(method: &str, target: &Target, query: bool) -> Self {
        match (method, target) {
            ("GET", Target::Databases) => Self::ListDatabases,
            ("POST", Target::Databases) if query => Self::QueryDatabases,
            ("POST", Target::Databases) => Self::CreateDatabase,
            ("GET", Target::Database(_)) => Self::ReadDatabase,
            ("PUT", Target::Database(_)) => Self::ReplaceDatabase,
            ("DELETE", Target::Database(_)) => Self::DeleteDatabase,
            ("GET", Target::Containers(_)) => Self::ListContainers,
            ("POST", Target::Containers(_)) if query => Self::QueryContainers,
            ("POST", Target::Containers(_)) => Self::CreateContainer,
            ("GET", Target::Container(_)) => Self::ReadContainer,
            ("PUT", Target::Container(_)) => Self::ReplaceContainer,
            ("DELETE", Target::Container(_)) => Self::DeleteContainer,
            _ => Self::Unsupported,
        }
    }

    fn of_users(method: &str, target: &Target, query: bool) -> Self {
        match (method, target) {
            ("GET", Target::Users(_)) => Self::ListUsers,
            ("POST", Target::Users(_)) if query => Self::QueryUsers,
            ("POST", Target::Users(_)) => Self::CreateUser,
            ("GET", Target::User(_)) => Self::ReadUser,
            ("PUT", Target::User(_)) => Self::ReplaceUser,
            ("DELETE", Target::User(_)) => Self::DeleteUser,
            ("GET", Target::Permissions(_)) => Self::ListPermissions,
            ("POST", Target::Permissions(_)) if query => Self::QueryPermissions,
            ("POST", Target::Permissions(_)) => Self::CreatePermission,
            ("GET", Target::Permission(..)) => Self::ReadPermission,
            ("PUT", Target::Permission(..)) => Self::ReplacePermission,
            ("DELETE", Target::Permission(..)) => Self::DeletePermission,
            _ => Self::Unsupported,
        }
    }

    fn of_scripts(method: &str, target: &Target, query: bool) -> Self {
        match (method, target) {
            ("GET", Target::Scripts(..)) => Self::ListScripts,
            ("POST", Target::Scripts(..)) if query => Self::QueryScripts,
            ("POST", Target::Scripts(..)) => Self::CreateScript,
            ("GET", Target::Script(..)) => Self::ReadScript,
            ("PUT", Target::Script(..)) => Self::ReplaceScript,
            ("DELETE", Target::Script(..)) => Self::DeleteScript,
            ("POST", Target::Script(_, ScriptKind::Procedure, _)) => Self::ExecuteProcedure,
            _ => Self::Unsupported,
        }
    }

    fn of_rest(method: &str, target: &Target, query: bool) -> Self {
        match (method, target) {
            ("GET", Target::Account) => Self::ReadAccount,
            ("GET", Target::Addresses(_)) => Self::ListAddresses,
            ("POST", Target::PartitionKeyDelete(_)) => Self::DeletePartitionKey,
            ("GET", Target::Ranges(_)) => Self::ListRanges,
            ("POST", Target::Ranges(_)) if query => Self::QueryRanges,
            ("POST", Target::Split(_)) => Self::SplitRange,
            ("POST", Target::Merge(_)) => Self::MergeRanges,
            ("GET", Target::Conflicts(_)) => Self::ListConflicts,
            ("POST", Target::Conflicts(_)) if query => Self::QueryConflicts,
            ("GET", Target::Conflict(..)) => Self::ReadConflict,
            ("DELETE", Target::Conflict(..)) => Self::DeleteConflict,
            (_, Target::Attachments(..) | Target::Attachment(..)) => Self::Attachments,
            ("GET", Target::EncryptionKeys(_)) => Self::ListEncryptionKeys,
            ("POST", Target::EncryptionKeys(_)) if query => Self::QueryEncryptionKeys,
            ("POST", Target::EncryptionKeys(_)) => Self::CreateEncryptionKey,
            ("GET", Target::EncryptionKey(..)) => Self::ReadEncryptionKey,
            ("PUT", Target::EncryptionKey(..)) => Self::ReplaceEncryptionKey,
            ("DELETE", Target::EncryptionKey(..)) => Self::DeleteEncryptionKey,
            ("GET", Target::Offers) => Self::ListOffers,
            ("POST", Target::Offers) if query => Self::QueryOffers,
            ("GET", Target::Offer(_)) => Self::ReadOffer,
            ("PUT", Target::Offer(_)) => Self::ReplaceOffer,
            ("GET", Target::Statistics) => Self::ReadStatistics,
            ("GET", Target::Tasks) => Self::ListTasks,
            ("POST", Target::Tasks) => Self::RetryTasks,
            ("POST", Target::Backups) => Self::BeginBackup,
            ("DELETE", Target::Backup(_)) => Self::EndBackup,
            ("GET", Target::BackupFile(..)) => Self::ReadBackupFile,
            ("GET", Target::Model(_)) => Self::ReadModel,
            ("PUT", Target::Model(_)) => Self::StoreModel,
            ("DELETE", Target::Model(_)) => Self::DeleteModel,
            ("GET", Target::Advisor(_)) => Self::ReadAdvice,
            _ => Self::Unsupported,
        }
    }

    /// Whether it only reads.
    pub const fn reads(self) -> bool {
        matches!(self.access(), Access::Read | Access::ReadSecret)
    }
}
