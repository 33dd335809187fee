//! The numbers of resource types and operation types at the head of a request.

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum $name { $($variant,)* }

        impl $name {
            /// Every one of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The one with this number.
            pub const fn from_code(code: u16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its number.
            pub const fn code(self) -> u16 {
                match self { $(Self::$variant => $code,)* }
            }
        }
    };
}

codes! {
    /// What a request is about.
    ResourceCode {
        Connection = 0x00,
        Database = 0x01,
        Container = 0x02,
        Item = 0x03,
        Attachment = 0x04,
        User = 0x05,
        Permission = 0x06,
        Procedure = 0x07,
        Conflict = 0x08,
        Trigger = 0x09,
        Udf = 0x0a,
        Offer = 0x0f,
        Account = 0x14,
        Range = 0x16,
        PartitionKey = 0x20,
        EncryptionKey = 0x23,
    }
}

codes! {
    /// What a request does.
    OperationCode {
        Connect = 0x00,
        Create = 0x01,
        Patch = 0x02,
        Read = 0x03,
        ReadFeed = 0x04,
        Delete = 0x05,
        Replace = 0x06,
        Execute = 0x08,
        SqlQuery = 0x09,
        Query = 0x0f,
        Head = 0x11,
        HeadFeed = 0x12,
        Upsert = 0x13,
        Batch = 0x25,
        QueryPlan = 0x42,
    }
}
