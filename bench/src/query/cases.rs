//! The queries, each in the dialect of either side, for the item with a number.

use orrery_types::Value;

use super::goods;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    Equality,
    TwoEqualities,
    RangeOrderTop,
    CountByEquality,
    Aggregate,
    PageByContinuation,
    SinglePartition,
}

/// What was answered, for comparing: rows, or the one value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    Rows(usize),
    Value(f64),
}

impl Found {
    /// Whether both sides found the same; sums may differ in their last digits.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Rows(a), Self::Rows(b)) => a == b,
            (Self::Value(a), Self::Value(b)) => (a - b).abs() <= a.abs() * 1e-9,
            _ => false,
        }
    }
}

/// Rows of a page.
pub(crate) const PAGE: usize = 100;

impl Case {
    pub(crate) const ALL: [Self; 7] = [
        Self::Equality,
        Self::TwoEqualities,
        Self::RangeOrderTop,
        Self::CountByEquality,
        Self::Aggregate,
        Self::PageByContinuation,
        Self::SinglePartition,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Equality => "equality on an indexed path, 1 row",
            Self::TwoEqualities => "two equalities, 10 rows",
            Self::RangeOrderTop => "range, ORDER BY, TOP 20",
            Self::CountByEquality => "COUNT by equality, 10,000 items",
            Self::Aggregate => "SUM over 10,000 items",
            Self::PageByContinuation => "the second page of 100 of 10,000",
            Self::SinglePartition => "25 rows of one logical partition",
        }
    }

    /// Whether the answer is one value.
    pub(crate) fn is_value(self) -> bool {
        matches!(self, Self::CountByEquality | Self::Aggregate)
    }

    /// The query and its parameter, for the server.
    pub(crate) fn query(self, number: u64) -> String {
        let (text, value): (&str, Value) = match self {
            Self::Equality => ("SELECT * FROM c WHERE c.sku = @v", (&*goods::sku(number)).into()),
            Self::TwoEqualities => {
                let brand = goods::brand(number);
                let text = "SELECT * FROM c WHERE c.category = @v AND c.brand = @b";
                return body(
                    text,
                    &[("@v", (&*goods::category(number)).into()), ("@b", (&*brand).into())],
                );
            }
            Self::RangeOrderTop => (
                "SELECT TOP 20 * FROM c WHERE c.price >= @v ORDER BY c.price",
                goods::price(number).into(),
            ),
            Self::CountByEquality => (
                "SELECT VALUE COUNT(1) FROM c WHERE c.category = @v",
                (&*goods::category(number)).into(),
            ),
            Self::Aggregate => (
                "SELECT VALUE SUM(c.price) FROM c WHERE c.category = @v",
                (&*goods::category(number)).into(),
            ),
            Self::PageByContinuation => {
                ("SELECT * FROM c WHERE c.category = @v", (&*goods::category(number)).into())
            }
            Self::SinglePartition => {
                ("SELECT * FROM c WHERE c.kind = @v", goods::kind(number).into())
            }
        };
        body(text, &[("@v", value)])
    }

    /// The statement for `PostgreSQL`; its parameters are texts.
    pub(crate) fn statement(self) -> &'static str {
        match self {
            Self::Equality | Self::TwoEqualities => {
                "SELECT doc::text FROM items WHERE doc @> $1::text::jsonb"
            }
            Self::RangeOrderTop => {
                "SELECT doc::text FROM items WHERE (doc->>'price')::float8 >= $1::text::float8 \
                 ORDER BY (doc->>'price')::float8 LIMIT 20"
            }
            Self::CountByEquality => {
                "SELECT COUNT(*)::float8 FROM items WHERE doc @> $1::text::jsonb"
            }
            Self::Aggregate => {
                "SELECT SUM((doc->>'price')::float8) FROM items WHERE doc @> $1::text::jsonb"
            }
            Self::PageByContinuation => {
                "SELECT doc::text FROM items WHERE doc @> $1::text::jsonb AND id > $2 \
                 ORDER BY id LIMIT 100"
            }
            Self::SinglePartition => {
                "SELECT doc::text FROM items WHERE pk = $2 AND doc @> $1::text::jsonb"
            }
        }
    }

    /// The parameters of the statement.
    pub(crate) fn parameters(self, number: u64) -> Vec<String> {
        let category = || format!(r#"{{"category":"{}"}}"#, goods::category(number));
        match self {
            Self::Equality => vec![format!(r#"{{"sku":"{}"}}"#, goods::sku(number))],
            Self::TwoEqualities => vec![format!(
                r#"{{"category":"{}","brand":"{}"}}"#,
                goods::category(number),
                goods::brand(number)
            )],
            Self::RangeOrderTop => vec![goods::price(number).to_string()],
            Self::CountByEquality | Self::Aggregate => vec![category()],
            Self::PageByContinuation => {
                // Where the first page by id ends.
                let first = number / goods::CATEGORY_ITEMS * goods::CATEGORY_ITEMS;
                vec![category(), format!("item-{:09}", first + PAGE as u64 - 1)]
            }
            Self::SinglePartition => {
                vec![format!(r#"{{"kind":"{}"}}"#, goods::kind(number)), goods::partition(number)]
            }
        }
    }
}

fn body(query: &str, parameters: &[(&str, Value)]) -> String {
    let parameter = |(name, value): &(&str, Value)| {
        format!(r#"{{"name":"{name}","value":{}}}"#, value.to_json())
    };
    let parameters: Vec<String> = parameters.iter().map(parameter).collect();
    format!(r#"{{"query":"{query}","parameters":[{}]}}"#, parameters.join(","))
}
