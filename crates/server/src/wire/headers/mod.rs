//! Every header of the protocol by name, and typed reading of a request's. No other file spells
//! a header. Names are lower case, as HTTP/2 and the `http` crate have them.

#![expect(missing_docs, reason = "each constant is a header's name, and its value says it")]

mod request;

pub use orrery_engine::throughput::throttle::Priority;
pub(crate) use request::parse_date;
pub use request::{
    FeedMode, IndexMetrics, IndexingDirective, ModelVerify, ReadKeyType, ReplicaTarget,
    RequestHeaders,
};

/// How the protocol's own headers begin.
pub(crate) const PREFIX: &str = "x-ms-";

// Both ways.
pub const ACTIVITY_ID: &str = "x-ms-activity-id";
pub const CONTINUATION: &str = "x-ms-continuation";
pub const DATE: &str = "x-ms-date";
pub const PARTITION_KEY_RANGE_ID: &str = "x-ms-documentdb-partitionkeyrangeid";
pub const SESSION_TOKEN: &str = "x-ms-session-token";
pub const VERSION: &str = "x-ms-version";

// What a POST on a feed means.
pub const IS_QUERY: &str = "x-ms-documentdb-isquery";
/// The Go SDK's name for the same.
pub const IS_QUERY_GO: &str = "x-ms-documentdb-query";
pub const IS_QUERY_PLAN: &str = "x-ms-cosmos-is-query-plan-request";
pub const IS_UPSERT: &str = "x-ms-documentdb-is-upsert";
pub const IS_BATCH: &str = "x-ms-cosmos-is-batch-request";
pub const BATCH_ATOMIC: &str = "x-ms-cosmos-batch-atomic";
pub const BATCH_ORDERED: &str = "x-ms-cosmos-batch-ordered";
pub const BATCH_CONTINUE_ON_ERROR: &str = "x-ms-cosmos-batch-continue-on-error";
pub const TRANSACTION_TYPE: &str = "x-ms-cosmos-operation-type";
pub const TRANSACTION_RESOURCE: &str = "x-ms-cosmos-resource-type";
/// Both ways.
pub const IDEMPOTENCY_TOKEN: &str = "x-ms-cosmos-idempotency-token";

// Which part of a container.
pub const PARTITION_KEY: &str = "x-ms-documentdb-partitionkey";
pub const START_EPK: &str = "x-ms-start-epk";
pub const END_EPK: &str = "x-ms-end-epk";
pub const READ_KEY_TYPE: &str = "x-ms-read-key-type";
pub const INTENDED_COLLECTION_RID: &str = "x-ms-cosmos-intended-collection-rid";
pub const COLLECTION_RID: &str = "x-ms-documentdb-collection-rid";

// Feeds and queries.
pub const MAX_ITEM_COUNT: &str = "x-ms-max-item-count";
pub const ENABLE_CROSS_PARTITION: &str = "x-ms-documentdb-query-enablecrosspartition";
pub const CAPABILITIES: &str = "x-ms-cosmos-sdk-supportedcapabilities";
pub const ENABLE_SCAN: &str = "x-ms-documentdb-query-enable-scan";
/// The Go SDK's name for the same.
pub const ENABLE_SCAN_GO: &str = "x-ms-documentdb-force-query-scan";
pub const CONTINUATION_LIMIT_KB: &str = "x-ms-documentdb-responsecontinuationtokenlimitinkb";
pub const POPULATE_QUERY_METRICS: &str = "x-ms-documentdb-populatequerymetrics";
pub const POPULATE_INDEX_METRICS: &str = "x-ms-cosmos-populateindexmetrics";
pub const POPULATE_INDEX_METRICS_V2: &str = "x-ms-cosmos-populateindexmetrics-v2";
pub const POPULATE_QUERY_ADVICE: &str = "x-ms-cosmos-populatequeryadvice";
pub const POPULATE_QUOTA_INFO: &str = "x-ms-documentdb-populatequotainfo";
pub const POPULATE_RANGE_STATISTICS: &str = "x-ms-documentdb-populatepartitionstatistics";
pub const OPTIMISTIC_DIRECT_EXECUTE: &str = "x-ms-cosmos-query-optimisticdirectexecute";
pub const QUERY_VERSION: &str = "x-ms-cosmos-query-version";
pub const SUPPORTED_QUERY_FEATURES: &str = "x-ms-cosmos-supported-query-features";
pub const CORRELATED_ACTIVITY_ID: &str = "x-ms-cosmos-correlated-activityid";
pub const A_IM: &str = "a-im";
pub const CHANGE_FEED_FORMAT: &str = "x-ms-cosmos-changefeed-wire-format-version";
/// Ours: asks for the plan with the answer.
pub const EXPLAIN: &str = "x-orrery-explain";

// Conditions and writes.
pub const IF_MATCH: &str = "if-match";
pub const IF_NONE_MATCH: &str = "if-none-match";
pub const IF_MODIFIED_SINCE: &str = "if-modified-since";
pub const PREFER: &str = "prefer";
pub const CONSISTENCY_LEVEL: &str = "x-ms-consistency-level";
pub const INDEXING_DIRECTIVE: &str = "x-ms-indexing-directive";
pub const PRE_TRIGGERS: &str = "x-ms-documentdb-pre-trigger-include";
pub const POST_TRIGGERS: &str = "x-ms-documentdb-post-trigger-include";
pub const SCRIPT_LOGGING: &str = "x-ms-documentdb-script-enable-logging";
pub const PRIORITY: &str = "x-ms-cosmos-priority-level";
pub const THROUGHPUT_BUCKET: &str = "x-ms-cosmos-throughput-bucket";
pub const CONTENT_FORMAT: &str = "x-ms-documentdb-content-serialization-format";

// Throughput and permissions.
pub const OFFER_THROUGHPUT: &str = "x-ms-offer-throughput";
pub const OFFER_AUTOPILOT: &str = "x-ms-cosmos-offer-autopilot-settings";
pub const MIGRATE_TO_AUTOPILOT: &str = "x-ms-cosmos-migrate-offer-to-autopilot";
pub const MIGRATE_TO_MANUAL: &str = "x-ms-cosmos-migrate-offer-to-manual-throughput";
pub const EXPIRY_SECONDS: &str = "x-ms-documentdb-expiry-seconds";

// Responses only.
pub const REQUEST_CHARGE: &str = "x-ms-request-charge";
pub const SUB_STATUS: &str = "x-ms-substatus";
pub const RETRY_AFTER_MS: &str = "x-ms-retry-after-ms";
pub const ITEM_COUNT: &str = "x-ms-item-count";
pub const ETAG: &str = "etag";
pub const CONTENT_LOCATION: &str = "content-location";
pub const CONTENT_PATH: &str = "x-ms-content-path";
pub const ALT_CONTENT_PATH: &str = "x-ms-alt-content-path";
pub const LSN: &str = "lsn";
pub const ITEM_LSN: &str = "x-ms-item-lsn";
pub const LOCAL_LSN: &str = "x-ms-cosmos-llsn";
pub const ITEM_LOCAL_LSN: &str = "x-ms-cosmos-item-llsn";
pub const QUORUM_ACKED_LSN: &str = "x-ms-quorum-acked-lsn";
pub const QUORUM_ACKED_LOCAL_LSN: &str = "x-ms-cosmos-quorum-acked-llsn";
pub const GLOBAL_COMMITTED_LSN: &str = "x-ms-global-committed-lsn";
pub const INTERNAL_PARTITION_ID: &str = "x-ms-cosmos-internal-partition-id";
pub const PHYSICAL_PARTITION_ID: &str = "x-ms-cosmos-physical-partition-id";
pub const RESOURCE_QUOTA: &str = "x-ms-resource-quota";
pub const RESOURCE_USAGE: &str = "x-ms-resource-usage";
pub const SHARE_THROUGHPUT: &str = "x-ms-share-throughput";
pub const WRITE_QUORUM: &str = "x-ms-current-write-quorum";
pub const REPLICA_SET_SIZE: &str = "x-ms-current-replica-set-size";
pub const SCHEMA_VERSION: &str = "x-ms-schemaversion";
pub const SERVICE_VERSION: &str = "x-ms-serviceversion";
pub const GATEWAY_VERSION: &str = "x-ms-gatewayversion";
pub const LAST_STATE_CHANGE: &str = "x-ms-last-state-change-utc";
pub const READ_REGIONS: &str = "x-ms-number-of-read-regions";
pub const REQUEST_DURATION_MS: &str = "x-ms-request-duration-ms";
pub const QUERY_METRICS: &str = "x-ms-documentdb-query-metrics";
pub const INDEX_UTILIZATION: &str = "x-ms-cosmos-index-utilization";
pub const QUERY_ADVICE: &str = "x-ms-cosmos-query-advice";
pub const REQUIRES_DISTRIBUTION: &str = "x-ms-cosmos-query-requiresdistribution";
pub const MIN_THROUGHPUT: &str = "x-ms-cosmos-min-throughput";
pub const OFFER_REPLACE_PENDING: &str = "x-ms-offer-replace-pending";
pub const SCRIPT_LOG_RESULTS: &str = "x-ms-documentdb-script-log-results";
pub const INDEX_PROGRESS: &str = "x-ms-documentdb-collection-index-transformation-progress";
/// Ours: relations whose targets a read puts into the items it answers with.
pub const MODEL_EXPAND: &str = "x-model-expand";
/// Ours: a read of a model recomputes everything that the model promises, and lists what differs.
pub const MODEL_VERIFY: &str = "x-model-verify";
/// Ours: what the model of the database says about an item that was written.
pub const MODEL_WARNINGS: &str = "x-model-warnings";
/// Ours: the plan of a query, percent-encoded.
pub const PLAN: &str = "x-orrery-plan";

/// What a script logged, as a header holds it: percent-encoded; nothing if it logged nothing.
pub(crate) fn script_log(log: &str) -> Option<String> {
    const KEPT: &percent_encoding::AsciiSet =
        &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    let text = percent_encoding::utf8_percent_encode(log, KEPT).to_string();
    if text.is_empty() { None } else { Some(text) }
}

/// Version of the protocol that every response names.
pub const PROTOCOL_VERSION: &str = "2020-07-15";

/// Version of the service that every response names.
pub(crate) const SERVICE_VERSION_VALUE: &str = "version=2.14.0.0";
/// What the server calls itself.
pub(crate) const SERVER_AGENT: &str = concat!("orrery/", env!("CARGO_PKG_VERSION"));

/// What a browser may send, beside the headers it may always send.
pub const CORS_ALLOW: &[&str] = &[
    "authorization",
    "content-type",
    "cache-control",
    "user-agent",
    A_IM,
    IF_MATCH,
    IF_NONE_MATCH,
    IF_MODIFIED_SINCE,
    PREFER,
    ACTIVITY_ID,
    CONTINUATION,
    DATE,
    PARTITION_KEY_RANGE_ID,
    SESSION_TOKEN,
    VERSION,
    IS_QUERY,
    IS_QUERY_GO,
    IS_QUERY_PLAN,
    IS_UPSERT,
    IS_BATCH,
    BATCH_ATOMIC,
    BATCH_ORDERED,
    BATCH_CONTINUE_ON_ERROR,
    TRANSACTION_TYPE,
    TRANSACTION_RESOURCE,
    IDEMPOTENCY_TOKEN,
    PARTITION_KEY,
    START_EPK,
    END_EPK,
    READ_KEY_TYPE,
    INTENDED_COLLECTION_RID,
    COLLECTION_RID,
    MAX_ITEM_COUNT,
    ENABLE_CROSS_PARTITION,
    CAPABILITIES,
    ENABLE_SCAN,
    CONTINUATION_LIMIT_KB,
    POPULATE_QUERY_METRICS,
    POPULATE_INDEX_METRICS,
    POPULATE_INDEX_METRICS_V2,
    POPULATE_QUERY_ADVICE,
    POPULATE_QUOTA_INFO,
    POPULATE_RANGE_STATISTICS,
    OPTIMISTIC_DIRECT_EXECUTE,
    QUERY_VERSION,
    SUPPORTED_QUERY_FEATURES,
    CORRELATED_ACTIVITY_ID,
    CHANGE_FEED_FORMAT,
    EXPLAIN,
    CONSISTENCY_LEVEL,
    INDEXING_DIRECTIVE,
    PRE_TRIGGERS,
    POST_TRIGGERS,
    SCRIPT_LOGGING,
    PRIORITY,
    THROUGHPUT_BUCKET,
    OFFER_THROUGHPUT,
    OFFER_AUTOPILOT,
    MIGRATE_TO_AUTOPILOT,
    MIGRATE_TO_MANUAL,
    EXPIRY_SECONDS,
];

/// What a page in a browser may read of a response.
pub const CORS_EXPOSE: &[&str] = &[
    ETAG,
    LSN,
    ACTIVITY_ID,
    CONTINUATION,
    PARTITION_KEY_RANGE_ID,
    SESSION_TOKEN,
    REQUEST_CHARGE,
    SUB_STATUS,
    RETRY_AFTER_MS,
    ITEM_COUNT,
    CONTENT_PATH,
    ALT_CONTENT_PATH,
    ITEM_LSN,
    RESOURCE_QUOTA,
    RESOURCE_USAGE,
    REQUEST_DURATION_MS,
    QUERY_METRICS,
    INDEX_UTILIZATION,
    QUERY_ADVICE,
    REQUIRES_DISTRIBUTION,
    MIN_THROUGHPUT,
    OFFER_REPLACE_PENDING,
    SCRIPT_LOG_RESULTS,
    INDEX_PROGRESS,
    MODEL_WARNINGS,
    PLAN,
];
