//! The operations of the protocol: what a request does, by its method, target and headers. The table
//! below has the access that each needs, the resource tokens that permit it, and the data action that a
//! role must have; `dispatch` runs what was authorized, because both read the same [`Operation`]. An
//! operation without an action does not compile.
//!
//! `golden/auth/matrix.txt` shows the answer to every operation under every kind of credential, and
//! `golden/auth/roles.txt` under every role at every scope. The tests that write them have a request for
//! each operation, by a match without wildcard.

use http::Method;
use orrery_engine::catalog::role::DataAction;

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
    /// Tokens that permit each of the operations that the body lists.
    Listed,
}

/// What a role must permit for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredAction {
    /// Nothing does: it needs a key of the account.
    KeyOnly,
    /// An action, wherever the role is assigned. SDKs read the account first.
    Anywhere(DataAction),
    /// An action, where the operation takes place.
    One(DataAction),
    /// The actions of the operations that its body lists, each in its place.
    Listed,
}

macro_rules! operations {
    ($($name:ident: $access:ident, $scope:ident, $action:expr;)*) => {
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

            /// What a role must permit for it.
            pub const fn required_action(self) -> RequiredAction {
                use DataAction as A;
                use RequiredAction::{Anywhere, KeyOnly, Listed, One};
                match self { $(Self::$name => $action,)* }
            }
        }
    };
}

operations! {
    ReadAccount: Read, Any, Anywhere(A::ReadMetadata);
    ListAddresses: Read, Around, One(A::ReadMetadata);

    ListDatabases: Read, None, One(A::ReadMetadata);
    QueryDatabases: Read, None, One(A::ReadMetadata);
    CreateDatabase: Write, None, KeyOnly;
    ReadDatabase: Read, None, One(A::ReadMetadata);
    ReplaceDatabase: Write, None, KeyOnly;
    DeleteDatabase: Write, None, KeyOnly;

    ListContainers: Read, None, One(A::ReadMetadata);
    QueryContainers: Read, None, One(A::ReadMetadata);
    CreateContainer: Write, None, KeyOnly;
    ReadContainer: Read, Around, One(A::ReadMetadata);
    ReplaceContainer: Write, Container, KeyOnly;
    DeleteContainer: Write, Container, KeyOnly;

    ListItems: Read, Keyed, One(A::ReadChangeFeed);
    ReadChanges: Read, Keyed, One(A::ReadChangeFeed);
    PlanQuery: Read, Keyed, One(A::ExecuteQuery);
    QueryItems: Read, Keyed, One(A::ExecuteQuery);
    RunBatch: Write, Keyed, Listed;
    CreateItem: Write, Keyed, One(A::CreateItem);
    UpsertItem: Write, Keyed, One(A::UpsertItem);
    ReadItem: Read, Item, One(A::ReadItem);
    ReplaceItem: Write, Item, One(A::ReplaceItem);
    PatchItem: Write, Item, One(A::ReplaceItem);
    DeleteItem: Write, Item, One(A::DeleteItem);
    DeletePartitionKey: Write, Keyed, One(A::DeleteItem);
    ReadTransaction: Read, Listed, Listed;
    CommitTransaction: Write, Listed, Listed;

    ListRanges: Read, Around, One(A::ReadMetadata);
    QueryRanges: Read, Around, One(A::ReadMetadata);
    SplitRange: Write, None, KeyOnly;
    MergeRanges: Write, None, KeyOnly;

    ListScripts: Read, Keyed, KeyOnly;
    QueryScripts: Read, Keyed, KeyOnly;
    CreateScript: Write, Container, KeyOnly;
    ReadScript: Read, KeyedScript, KeyOnly;
    ReplaceScript: Write, Script, KeyOnly;
    DeleteScript: Write, Script, KeyOnly;
    ExecuteProcedure: Write, KeyedScript, One(A::ExecuteStoredProcedure);

    ListConflicts: Read, Container, One(A::ManageConflicts);
    QueryConflicts: Read, Container, One(A::ManageConflicts);
    ReadConflict: Read, Container, One(A::ManageConflicts);
    DeleteConflict: Write, Container, One(A::ManageConflicts);
    Attachments: Read, None, KeyOnly;

    ListUsers: Read, None, KeyOnly;
    QueryUsers: Read, None, KeyOnly;
    CreateUser: Write, None, KeyOnly;
    ReadUser: Read, None, KeyOnly;
    ReplaceUser: Write, None, KeyOnly;
    DeleteUser: Write, None, KeyOnly;

    ListPermissions: ReadSecret, None, KeyOnly;
    QueryPermissions: ReadSecret, None, KeyOnly;
    CreatePermission: Write, None, KeyOnly;
    ReadPermission: ReadSecret, None, KeyOnly;
    ReplacePermission: Write, None, KeyOnly;
    DeletePermission: Write, None, KeyOnly;

    ListEncryptionKeys: Read, None, KeyOnly;
    QueryEncryptionKeys: Read, None, KeyOnly;
    CreateEncryptionKey: Write, None, KeyOnly;
    ReadEncryptionKey: Read, None, KeyOnly;
    ReplaceEncryptionKey: Write, None, KeyOnly;
    DeleteEncryptionKey: Write, None, KeyOnly;

    ListOffers: Read, None, KeyOnly;
    QueryOffers: Read, None, KeyOnly;
    ReadOffer: Read, None, KeyOnly;
    ReplaceOffer: Write, None, KeyOnly;

    ListRoleDefinitions: Read, None, KeyOnly;
    CreateRoleDefinition: Write, None, KeyOnly;
    ReadRoleDefinition: Read, None, KeyOnly;
    StoreRoleDefinition: Write, None, KeyOnly;
    DeleteRoleDefinition: Write, None, KeyOnly;
    ListRoleAssignments: Read, None, KeyOnly;
    CreateRoleAssignment: Write, None, KeyOnly;
    ReadRoleAssignment: Read, None, KeyOnly;
    StoreRoleAssignment: Write, None, KeyOnly;
    DeleteRoleAssignment: Write, None, KeyOnly;

    ReadStatistics: Read, None, KeyOnly;
    ListTasks: Read, None, KeyOnly;
    RetryTasks: Write, None, KeyOnly;
    ListNodes: Read, None, KeyOnly;
    BeginBackup: Write, None, KeyOnly;
    EndBackup: Write, None, KeyOnly;
    ReadBackupFile: ReadSecret, None, KeyOnly;
    BeginCopy: Write, None, KeyOnly;
    ContinueCopy: Write, None, KeyOnly;
    EndCopy: Write, None, KeyOnly;
    ReadModel: Read, None, KeyOnly;
    StoreModel: Write, None, KeyOnly;
    DeleteModel: Write, None, KeyOnly;
    ReadAdvice: Read, None, KeyOnly;

    Unsupported: Write, None, KeyOnly;
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
            Target::Transactions => match (method, headers.transaction_type.as_deref()) {
                ("POST", Some(kind)) if kind.eq_ignore_ascii_case("Read") => Self::ReadTransaction,
                ("POST", _) => Self::CommitTransaction,
                _ => Self::Unsupported,
            },
            Target::Databases
            | Target::Database(_)
            | Target::Containers(_)
            | Target::Container(_) => Self::of_containers(method, target, query),
            Target::Users(_)
            | Target::User(_)
            | Target::Permissions(_)
            | Target::Permission(..) => Self::of_users(method, target, query),
            Target::Scripts(..) | Target::Script(..) => Self::of_scripts(method, target, query),
            Target::RoleDefinitions
            | Target::RoleDefinition(_)
            | Target::RoleAssignments
            | Target::RoleAssignment(_) => Self::of_roles(method, target),
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

    fn of_roles(method: &str, target: &Target) -> Self {
        match (method, target) {
            ("GET", Target::RoleDefinitions) => Self::ListRoleDefinitions,
            ("POST", Target::RoleDefinitions) => Self::CreateRoleDefinition,
            ("GET", Target::RoleDefinition(_)) => Self::ReadRoleDefinition,
            ("PUT", Target::RoleDefinition(_)) => Self::StoreRoleDefinition,
            ("DELETE", Target::RoleDefinition(_)) => Self::DeleteRoleDefinition,
            ("GET", Target::RoleAssignments) => Self::ListRoleAssignments,
            ("POST", Target::RoleAssignments) => Self::CreateRoleAssignment,
            ("GET", Target::RoleAssignment(_)) => Self::ReadRoleAssignment,
            ("PUT", Target::RoleAssignment(_)) => Self::StoreRoleAssignment,
            ("DELETE", Target::RoleAssignment(_)) => Self::DeleteRoleAssignment,
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
            ("GET", Target::Nodes) => Self::ListNodes,
            ("POST", Target::Backups) => Self::BeginBackup,
            ("DELETE", Target::Backup(_)) => Self::EndBackup,
            ("GET", Target::BackupFile(..)) => Self::ReadBackupFile,
            ("POST", Target::Copies) => Self::BeginCopy,
            ("POST", Target::CopyStep(..)) => Self::ContinueCopy,
            ("DELETE", Target::Copy(_)) => Self::EndCopy,
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
