//! A request's headers, read once into one struct. What a client sends wrongly is refused with
//! the header's name and value; headers that mean nothing here are passed over.

use http::{HeaderMap, HeaderValue};
use orrery_types::{Error, Result, limits};

#[cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "the parent is the list of names read here")
)]
use super::*;

/// Which feed `A-IM` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedMode {
    /// `Incremental Feed`: the newest version of each item.
    Incremental,
    /// `Full-Fidelity Feed`: every version and every delete.
    FullFidelity,
}

/// In which form index metrics are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexMetrics {
    /// Four lists of indexes with what they do for the query, in base64.
    First,
    /// The indexes alone, percent-encoded.
    Second,
}

/// Whether an item that is written goes into the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexingDirective {
    Default,
    Include,
    Exclude,
}

/// What the key headers mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadKeyType {
    EffectivePartitionKeyRange,
    EffectivePartitionKey,
    ResourceId,
}

/// Every request header the server understands. Absent is `None`; an absent flag is `false`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a header of its own on the wire")]
pub struct RequestHeaders {
    pub is_query: bool,
    pub is_query_plan: bool,
    pub is_upsert: bool,
    pub is_batch: bool,
    /// `None` leaves it to the server, which keeps to all or nothing.
    pub batch_atomic: Option<bool>,
    pub batch_ordered: bool,
    pub batch_continue_on_error: bool,
    /// As sent, with the two below it: they mean something to a distributed transaction only.
    pub transaction_type: Option<String>,
    pub transaction_resource: Option<String>,
    pub idempotency_token: Option<String>,
    /// The JSON array as sent.
    pub partition_key: Option<String>,
    /// As sent: `0`, or `<container rid>,0`.
    pub partition_key_range_id: Option<String>,
    pub start_epk: Option<String>,
    pub end_epk: Option<String>,
    pub read_key_type: Option<ReadKeyType>,
    pub intended_collection_rid: Option<String>,
    /// What a client in Direct mode has sent the request to. HTTP has no such header.
    pub replica: Option<ReplicaTarget>,
    /// `-1` leaves the number to the server.
    pub max_item_count: Option<i64>,
    pub continuation: Option<String>,
    pub continuation_limit_kb: Option<u64>,
    pub session_token: Option<String>,
    pub consistency_level: Option<String>,
    pub if_match: Option<String>,
    pub if_none_match: Option<String>,
    /// Seconds since 1970.
    pub if_modified_since_s: Option<u64>,
    pub a_im: Option<FeedMode>,
    pub change_feed_format: Option<String>,
    /// `Prefer: return=minimal`.
    pub prefer_minimal: bool,
    pub pre_triggers: Vec<String>,
    pub post_triggers: Vec<String>,
    pub indexing_directive: Option<IndexingDirective>,
    pub offer_throughput: Option<i64>,
    /// The JSON object as sent.
    pub offer_autopilot: Option<String>,
    pub migrate_to_autopilot: bool,
    pub migrate_to_manual: bool,
    pub populate_quota_info: bool,
    pub populate_range_statistics: bool,
    pub populate_query_metrics: bool,
    pub populate_index_metrics: Option<IndexMetrics>,
    pub populate_query_advice: bool,
    pub enable_cross_partition: bool,
    /// Whether the client says what it can do; then it merges partitions itself.
    pub names_capabilities: bool,
    pub enable_scan: bool,
    pub optimistic_direct_execute: bool,
    pub query_version: Option<String>,
    /// Names of features, trimmed.
    pub supported_query_features: Vec<String>,
    pub expiry_seconds: Option<u64>,
    pub priority: Option<Priority>,
    pub throughput_bucket: Option<u8>,
    pub script_logging: bool,
    pub correlated_activity_id: Option<String>,
    pub explain: bool,
    /// Relations to put into whole items.
    pub model_expand: Option<String>,
    /// What a read of the model is to do about what it promises.
    pub model_verify: ModelVerify,
    pub content_type: Option<String>,
}

/// The replica that a client in Direct mode believes to have: of which container, and of which range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaTarget {
    pub container_rid: Option<String>,
    /// `None` for the replica of what is no item.
    pub range: Option<u32>,
}

/// What to do about what a model promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModelVerify {
    /// Nothing.
    #[default]
    No,
    /// Verify it and answer with what was found.
    Wait,
    /// Begin to verify it.
    Start,
    /// Tell how far that is, or what it has found.
    State,
}

impl ModelVerify {
    fn read(name: &str, value: &HeaderValue) -> Result<Self> {
        let shown = text(name, value)?;
        match () {
            () if shown.eq_ignore_ascii_case("start") => Ok(Self::Start),
            () if shown.eq_ignore_ascii_case("state") => Ok(Self::State),
            () if shown.eq_ignore_ascii_case("true") => Ok(Self::Wait),
            () if shown.is_empty() || shown.eq_ignore_ascii_case("false") => Ok(Self::No),
            () => Err(wrong(name, shown, "true, false, start or state")),
        }
    }
}

impl RequestHeaders {
    /// Reads the headers of a request. Where a header comes twice the last one counts.
    pub fn parse(headers: &HeaderMap) -> Result<Box<Self>> {
        let mut parsed = Box::<Self>::default();
        for (name, value) in headers {
            let name = name.as_str();
            parsed.read_kind(name, value)?;
            parsed.read_scope(name, value)?;
            parsed.read_condition(name, value)?;
            parsed.read_query(name, value)?;
            parsed.read_setting(name, value)?;
        }
        // The content type alone makes a query too: some clients send nothing else.
        let is_query_type =
            |kind: &String| kind.to_ascii_lowercase().starts_with("application/query+json");
        parsed.is_query |= parsed.content_type.as_ref().is_some_and(is_query_type);
        Ok(parsed)
    }

    fn read_kind(&mut self, name: &str, value: &HeaderValue) -> Result<()> {
        match name {
            IS_QUERY | IS_QUERY_GO => self.is_query |= flag(name, value)?,
            IS_QUERY_PLAN => self.is_query_plan = flag(name, value)?,
            IS_UPSERT => self.is_upsert = flag(name, value)?,
            IS_BATCH => self.is_batch = flag(name, value)?,
            BATCH_ATOMIC => self.batch_atomic = Some(flag(name, value)?),
            BATCH_ORDERED => self.batch_ordered = flag(name, value)?,
            BATCH_CONTINUE_ON_ERROR => self.batch_continue_on_error = flag(name, value)?,
            TRANSACTION_TYPE => self.transaction_type = some_text(name, value)?,
            TRANSACTION_RESOURCE => self.transaction_resource = some_text(name, value)?,
            IDEMPOTENCY_TOKEN => self.idempotency_token = some_text(name, value)?,
            "content-type" => self.content_type = some_text(name, value)?,
            _ => {}
        }
        Ok(())
    }

    fn read_scope(&mut self, name: &str, value: &HeaderValue) -> Result<()> {
        match name {
            PARTITION_KEY => self.partition_key = some_text(name, value)?,
            PARTITION_KEY_RANGE_ID => self.partition_key_range_id = some_text(name, value)?,
            // An empty start is the start of the whole range, so it is not the same as none.
            START_EPK => self.start_epk = Some(text(name, value)?.to_owned()),
            END_EPK => self.end_epk = Some(text(name, value)?.to_owned()),
            READ_KEY_TYPE => {
                let words = [
                    ("EffectivePartitionKeyRange", ReadKeyType::EffectivePartitionKeyRange),
                    ("EffectivePartitionKey", ReadKeyType::EffectivePartitionKey),
                    ("ResourceId", ReadKeyType::ResourceId),
                ];
                self.read_key_type = Some(word(name, value, &words)?);
            }
            INTENDED_COLLECTION_RID | COLLECTION_RID => {
                self.intended_collection_rid = some_text(name, value)?;
            }
            SESSION_TOKEN => self.session_token = some_text(name, value)?,
            CONSISTENCY_LEVEL => self.consistency_level = some_text(name, value)?,
            _ => {}
        }
        Ok(())
    }

    fn read_condition(&mut self, name: &str, value: &HeaderValue) -> Result<()> {
        match name {
            IF_MATCH => self.if_match = some_text(name, value)?,
            IF_NONE_MATCH => self.if_none_match = some_text(name, value)?,
            IF_MODIFIED_SINCE => self.if_modified_since_s = some_date(name, value)?,
            A_IM => {
                let words = [
                    ("Incremental Feed", FeedMode::Incremental),
                    ("Full-Fidelity Feed", FeedMode::FullFidelity),
                ];
                self.a_im = Some(word(name, value, &words)?);
            }
            CHANGE_FEED_FORMAT => self.change_feed_format = some_text(name, value)?,
            PREFER => {
                let asked = list(name, value)?;
                self.prefer_minimal |=
                    asked.iter().any(|wish| wish.eq_ignore_ascii_case("return=minimal"));
            }
            PRE_TRIGGERS => self.pre_triggers = list(name, value)?,
            POST_TRIGGERS => self.post_triggers = list(name, value)?,
            INDEXING_DIRECTIVE => {
                let words = [
                    ("Default", IndexingDirective::Default),
                    ("Include", IndexingDirective::Include),
                    ("Exclude", IndexingDirective::Exclude),
                ];
                self.indexing_directive = Some(word(name, value, &words)?);
            }
            _ => {}
        }
        Ok(())
    }

    fn read_query(&mut self, name: &str, value: &HeaderValue) -> Result<()> {
        match name {
            MAX_ITEM_COUNT => self.max_item_count = number(name, value)?,
            CONTINUATION => self.continuation = some_text(name, value)?,
            CONTINUATION_LIMIT_KB => self.continuation_limit_kb = positive(name, value)?,
            CAPABILITIES => self.names_capabilities = true,
            ENABLE_CROSS_PARTITION => self.enable_cross_partition = flag(name, value)?,
            ENABLE_SCAN | ENABLE_SCAN_GO => self.enable_scan |= flag(name, value)?,
            OPTIMISTIC_DIRECT_EXECUTE => self.optimistic_direct_execute = flag(name, value)?,
            QUERY_VERSION => self.query_version = some_text(name, value)?,
            SUPPORTED_QUERY_FEATURES => self.supported_query_features = list(name, value)?,
            POPULATE_QUOTA_INFO => self.populate_quota_info = flag(name, value)?,
            POPULATE_RANGE_STATISTICS => self.populate_range_statistics = flag(name, value)?,
            POPULATE_QUERY_METRICS => self.populate_query_metrics = flag(name, value)?,
            POPULATE_INDEX_METRICS if flag(name, value)? => {
                self.populate_index_metrics.get_or_insert(IndexMetrics::First);
            }
            POPULATE_INDEX_METRICS_V2 if flag(name, value)? => {
                self.populate_index_metrics = Some(IndexMetrics::Second);
            }
            POPULATE_QUERY_ADVICE => self.populate_query_advice = flag(name, value)?,
            CORRELATED_ACTIVITY_ID => self.correlated_activity_id = some_text(name, value)?,
            EXPLAIN => self.explain = flag(name, value)?,
            MODEL_VERIFY => self.model_verify = ModelVerify::read(name, value)?,
            MODEL_EXPAND => self.model_expand = some_text(name, value)?,
            _ => {}
        }
        Ok(())
    }

    fn read_setting(&mut self, name: &str, value: &HeaderValue) -> Result<()> {
        match name {
            OFFER_THROUGHPUT => self.offer_throughput = number(name, value)?,
            OFFER_AUTOPILOT => self.offer_autopilot = some_text(name, value)?,
            MIGRATE_TO_AUTOPILOT => self.migrate_to_autopilot = flag(name, value)?,
            MIGRATE_TO_MANUAL => self.migrate_to_manual = flag(name, value)?,
            EXPIRY_SECONDS => self.expiry_seconds = number(name, value)?,
            PRIORITY => {
                let words = [("High", Priority::High), ("Low", Priority::Low)];
                self.priority = Some(word(name, value, &words)?);
            }
            THROUGHPUT_BUCKET => self.throughput_bucket = bucket(name, value)?,
            SCRIPT_LOGGING => self.script_logging = flag(name, value)?,
            // Every answer is text, which clients read whatever they ask for.
            CONTENT_FORMAT => word(name, value, &CONTENT_FORMATS.map(|format| (format, ())))?,
            VERSION => check_version(value)?,
            _ => {}
        }
        Ok(())
    }
}

fn text<'a>(name: &str, value: &'a HeaderValue) -> Result<&'a str> {
    value.to_str().map(str::trim).map_err(|_| {
        let shown = String::from_utf8_lossy(value.as_bytes());
        Error::invalid(format!(
            "The header '{name}' holds '{shown}', which is not ASCII. Escape other characters."
        ))
    })
}

/// An empty header is no header.
fn some_text(name: &str, value: &HeaderValue) -> Result<Option<String>> {
    Ok(Some(text(name, value)?).filter(|text| !text.is_empty()).map(str::to_owned))
}

fn wrong(name: &str, shown: &str, expected: &str) -> Error {
    Error::invalid(format!("The header '{name}' holds '{shown}', which is not {expected}."))
}

fn flag(name: &str, value: &HeaderValue) -> Result<bool> {
    let shown = text(name, value)?;
    match () {
        () if shown.eq_ignore_ascii_case("true") => Ok(true),
        () if shown.is_empty() || shown.eq_ignore_ascii_case("false") => Ok(false),
        () => Err(wrong(name, shown, "true or false")),
    }
}

fn number<N: std::str::FromStr>(name: &str, value: &HeaderValue) -> Result<Option<N>> {
    let Some(shown) = some_text(name, value)? else { return Ok(None) };
    shown.parse().map(Some).map_err(|_| wrong(name, &shown, "a whole number in range"))
}

fn positive(name: &str, value: &HeaderValue) -> Result<Option<u64>> {
    let given = number(name, value)?;
    if given == Some(0) {
        return Err(wrong(name, "0", "a positive whole number"));
    }
    Ok(given)
}

/// What a client may ask the answer to be written in.
const CONTENT_FORMATS: [&str; 3] = ["JsonText", "CosmosBinary", "HybridRow"];

/// The versions of the protocol up to the last one that clients of today still send, and then any:
/// a version that is newer than this server is served as what it is known to be.
const VERSIONS: [&str; 14] = [
    "2014-08-21",
    "2015-04-08",
    "2015-06-03",
    "2015-08-06",
    "2015-12-16",
    "2016-05-30",
    "2016-07-11",
    "2016-11-14",
    "2017-01-19",
    "2017-02-22",
    "2017-05-03",
    "2017-11-15",
    "2018-06-18",
    "2018-08-31",
];

fn check_version(value: &HeaderValue) -> Result<()> {
    let shown = text(VERSION, value)?;
    let is_date = shown.len() == 10
        && shown.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let is_known = VERSIONS.contains(&shown) || (is_date && shown > "2018-08-31");
    if shown.is_empty() || is_known {
        return Ok(());
    }
    Err(Error::invalid(
        "Invalid API version. Ensure a valid x-ms-version header value is passed. Please update to \
         the latest version of Azure Cosmos DB SDK.",
    ))
}

fn bucket(name: &str, value: &HeaderValue) -> Result<Option<u8>> {
    let Some(shown) = some_text(name, value)? else { return Ok(None) };
    let id = shown.parse().ok().filter(|id| (1..=limits::THROUGHPUT_BUCKETS_MAX).contains(id));
    match id.and_then(|id| u8::try_from(id).ok()) {
        Some(id) => Ok(Some(id)),
        None => Err(wrong(name, &shown, "a whole number from 1 to 5")),
    }
}

fn some_date(name: &str, value: &HeaderValue) -> Result<Option<u64>> {
    let Some(shown) = some_text(name, value)? else { return Ok(None) };
    parse_date(&shown)
        .and_then(|date| date.duration_since(std::time::UNIX_EPOCH).ok())
        .map(|since| Some(since.as_secs()))
        .ok_or_else(|| wrong(name, &shown, "a date as in RFC 1123"))
}

/// A date as in RFC 1123, in any letter case. The Go SDK writes the zone as UTC, which is the same and
/// not what the RFC says.
pub(crate) fn parse_date(text: &str) -> Option<std::time::SystemTime> {
    if let Ok(date) = httpdate::parse_http_date(text) {
        return Some(date);
    }
    let mut standard = String::with_capacity(text.len());
    for word in text.split(' ') {
        let lower = word.to_ascii_lowercase();
        let mut letters = lower.chars();
        match (&*lower, letters.next()) {
            ("gmt" | "utc", _) => standard.push_str("GMT"),
            (_, Some(first)) => {
                standard.push(first.to_ascii_uppercase());
                standard.push_str(letters.as_str());
            }
            (_, None) => {}
        }
        standard.push(' ');
    }
    httpdate::parse_http_date(standard.trim_end()).ok()
}

fn list(name: &str, value: &HeaderValue) -> Result<Vec<String>> {
    let entries = text(name, value)?.split(',').map(str::trim);
    Ok(entries.filter(|entry| !entry.is_empty()).map(str::to_owned).collect())
}

fn word<T: Copy>(name: &str, value: &HeaderValue, words: &[(&str, T)]) -> Result<T> {
    let shown = text(name, value)?;
    let found = words.iter().find(|(word, _)| shown.eq_ignore_ascii_case(word));
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let known: Vec<_> = words.iter().map(|(word, _)| format!("'{word}'")).collect();
        wrong(name, shown, &format!("one of {}", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn parse(headers: &[(&str, &str)]) -> Result<RequestHeaders> {
        let pairs = headers.iter().map(|(name, value)| {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), value)
        });
        Ok(*RequestHeaders::parse(&pairs.collect())?)
    }

    #[track_caller]
    fn check(headers: &[(&str, &str)], expected: RequestHeaders) {
        assert_eq!(parse(headers), Ok(expected));
    }

    #[test]
    fn flags_read_in_any_case_and_under_both_names() {
        let query = || RequestHeaders { is_query: true, ..RequestHeaders::default() };
        check(&[("x-ms-documentdb-isquery", "True")], query());
        check(&[("X-MS-DocumentDB-Query", "TRUE")], query());
        check(&[(IS_QUERY, "true"), (IS_QUERY_GO, "false")], query());
        check(&[(IS_QUERY, "False")], RequestHeaders::default());
        let content_type = Some("application/query+json; charset=utf-8".to_owned());
        check(
            &[("content-type", "application/query+json; charset=utf-8")],
            RequestHeaders { content_type, ..query() },
        );
    }

    #[test]
    fn typed_headers_read_into_their_fields() {
        check(
            &[
                (MAX_ITEM_COUNT, "-1"),
                (A_IM, "incremental feed"),
                (PREFER, "respond-async, return=minimal"),
                (IF_MODIFIED_SINCE, "Thu, 27 Apr 2017 00:51:12 GMT"),
                (PRE_TRIGGERS, "a, b,,c"),
                (INDEXING_DIRECTIVE, "exclude"),
                (START_EPK, ""),
                (END_EPK, "FF"),
                (READ_KEY_TYPE, "EffectivePartitionKeyRange"),
                (POPULATE_INDEX_METRICS_V2, "true"),
                (CONTINUATION, ""),
                (PARTITION_KEY, "[\"p\"]"),
                ("x-ms-thinclient-noise", "\u{e9}"),
            ],
            RequestHeaders {
                max_item_count: Some(-1),
                a_im: Some(FeedMode::Incremental),
                prefer_minimal: true,
                if_modified_since_s: Some(1_493_254_272),
                pre_triggers: vec!["a".into(), "b".into(), "c".into()],
                indexing_directive: Some(IndexingDirective::Exclude),
                start_epk: Some(String::new()),
                end_epk: Some("FF".into()),
                read_key_type: Some(ReadKeyType::EffectivePartitionKeyRange),
                populate_index_metrics: Some(IndexMetrics::Second),
                partition_key: Some("[\"p\"]".into()),
                ..RequestHeaders::default()
            },
        );
    }

    #[test]
    fn versions_of_the_protocol_are_known_or_newer() {
        for known in ["2014-08-21", "2018-09-17", "2018-12-31", "2020-07-15", "2031-01-01", ""] {
            check(&[(VERSION, known)], RequestHeaders::default());
        }
        for unknown in ["2015-01-01", "2013-01-01", "latest", "2020-7-15", "99999999"] {
            assert!(parse(&[(VERSION, unknown)]).is_err(), "{unknown}");
        }
    }

    #[test]
    fn a_date_may_name_its_zone_as_the_go_sdk_does() {
        check(
            &[(IF_MODIFIED_SINCE, "Thu, 27 Apr 2017 00:51:12 UTC")],
            RequestHeaders {
                if_modified_since_s: Some(1_493_254_272),
                ..RequestHeaders::default()
            },
        );
        let date = parse_date("Thu, 27 Apr 2017 00:51:12 GMT");
        for text in ["thu, 27 apr 2017 00:51:12 gmt", "THU, 27 APR 2017 00:51:12 GMT"] {
            assert_eq!(parse_date(text), date, "{text}");
        }
        assert!(date.is_some() && parse_date("thu, 27 apr 2017").is_none());
    }

    #[test]
    fn a_wrong_header_is_refused_with_its_name_and_value() {
        let wrong = [
            (MAX_ITEM_COUNT, "ten"),
            (MAX_ITEM_COUNT, "99999999999999999999"),
            (OFFER_THROUGHPUT, "4.5"),
            (EXPIRY_SECONDS, "-1"),
            (IS_UPSERT, "yes"),
            (IF_MODIFIED_SINCE, "yesterday"),
            (IF_MODIFIED_SINCE, "Thu, 27 Apr 2017 00:51:12 CET"),
            (A_IM, "All Feed"),
            (INDEXING_DIRECTIVE, "Lazy"),
            (CONTINUATION_LIMIT_KB, "0"),
            (CONTENT_FORMAT, "Xml"),
            (PARTITION_KEY, "[\"\u{e9}\"]"),
            (SESSION_TOKEN, "0:-1#\u{1f600}"),
        ];
        for (name, value) in wrong {
            let error = parse(&[(name, value)]).unwrap_err();
            let Error::Invalid(text) = &error else { panic!("{name}: {error:?}") };
            assert!(text.contains(name) && text.contains(value), "{text}");
        }
    }
}
