//! Every limit, in one place: what it is, where it comes from, and the error past it. A limit
//! marked *service* is the original's; one marked *ours* protects this server.

/// Nesting of arrays and objects in an item. Service; 400.
pub const NESTING_DEPTH_MAX: usize = 128;
/// An item as UTF-8 JSON. Service; 413.
pub const ITEM_SIZE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// A request body. Service: 2 MB, and some room so that an item just over the limit gets the
/// item's own error; ours beyond that; 413.
pub const REQUEST_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A page of a feed or query. Service; the page ends with a continuation.
pub const PAGE_SIZE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Items on a page when the client names no number. Service.
pub const PAGE_ITEMS_DEFAULT: usize = 100;
/// Items on a page when the client leaves it to the server (`-1`). Service.
pub const PAGE_ITEMS_MAX: usize = 1000;

/// Id of a database, container, script, user or permission, in characters. Service; 400.
pub const RESOURCE_ID_CHARS_MAX: usize = 255;
/// Id of an item, in bytes. Service; 400.
pub const ITEM_ID_BYTES_MAX: usize = 1023;
/// Partition key value. Service; 400. Under hash version 1 the service documents 101 bytes, the
/// length that is hashed, but takes longer ones, and so do we.
pub const PARTITION_KEY_BYTES_MAX: usize = 2048;
/// Levels of a hierarchical partition key. Service; 400.
pub const PARTITION_KEY_LEVELS_MAX: usize = 3;

/// Operations of one patch. Service; 400.
pub const PATCH_OPERATIONS_MAX: usize = 10;
/// Operations of one batch. Service; 400.
pub const BATCH_OPERATIONS_MAX: usize = 100;
/// Operations of one distributed transaction. Ours, as for a batch: the service names none; 400.
pub const DISTRIBUTED_OPERATIONS_MAX: usize = 100;
/// How long the outcome of a distributed transaction answers repeated requests. Clients repeat one for 30
/// seconds. Ours; afterwards the token counts as new.
pub const TRANSACTION_OUTCOME_KEPT_S: u64 = 300;
/// Outcomes of distributed transactions that one commit removes. Ours; more take further commits.
pub const OUTCOMES_REMOVED_MAX: usize = 500;
/// Body of one batch: 2 MB and 5 % of it. Service; 413.
pub const BATCH_SIZE_BYTES_MAX: usize = 2_202_010;
/// Items that the results of one batch hold before no further read or patch is begun. Service; 413
/// with sub-status 3402.
pub const BATCH_RESPONSE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Items that one transaction of a batch has written before no further write is begun: a patch is
/// short and its item may be long. Ours; 413 with sub-status 3401, and bulk goes on in another
/// transaction.
pub const BATCH_WRITTEN_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Logical partitions that one bulk request writes at once. Ours.
pub const BULK_THREADS_MAX: usize = 4;

/// Unique keys of a container. Service; 400.
pub const UNIQUE_KEYS_MAX: usize = 10;
/// Paths of one unique key. Service; 400.
pub const UNIQUE_KEY_PATHS_MAX: usize = 16;
/// Composite indexes of a container. Service; 400.
pub const COMPOSITE_INDEXES_MAX: usize = 100;
/// Paths of one composite index. Service; 400.
pub const COMPOSITE_PATHS_MAX: usize = 8;
/// Included, and likewise excluded, paths of an indexing policy. Service; 400.
pub const INDEX_PATHS_MAX: usize = 1500;
/// Computed properties of a container. Service; 400.
pub const COMPUTED_PROPERTIES_MAX: usize = 20;
/// Global secondary indexes of one source container. Service; 400.
pub const SECONDARY_INDEXES_MAX: usize = 5;
/// Paths of the definition of a global secondary index. Ours; 400.
pub const SECONDARY_INDEX_PATHS_MAX: usize = 100;
/// Source items that one commit brings to a global secondary index. Ours; more take further commits.
pub const SECONDARY_INDEX_ITEMS_MAX: usize = 256;
/// Bytes of source items that are read for one such commit, but for the last few. Ours.
pub const SECONDARY_INDEX_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The text that is kept of why an index cannot hold an item. Ours; the rest is cut off.
pub const SECONDARY_INDEX_REASON_BYTES_MAX: usize = 1024;
/// Source items that one turn tries again to bring to an index that could not hold them. Ours.
pub const SECONDARY_INDEX_HELD_TRIED_MAX: usize = 256;
/// Dimensions of a vector under `quantizedFlat` and `diskANN`. Service; 400.
pub const VECTOR_DIMENSIONS_MAX: i64 = 4096;
/// Dimensions of a vector under `flat`. Service; 400.
pub const VECTOR_DIMENSIONS_FLAT_MAX: i64 = 505;
/// Stored procedures of a container. Service; 400.
pub const PROCEDURES_MAX: usize = 100;
/// User-defined functions of a container. Service; 400.
pub const UDFS_MAX: usize = 50;
/// Triggers of a container. Service; 400.
pub const TRIGGERS_MAX: usize = 25;

/// Text of one script. Ours; 413.
pub const SCRIPT_SOURCE_BYTES_MAX: usize = 512 * 1024;
/// Run of one script, or of all user-defined functions of one page of a query. Service; 408.
pub const SCRIPT_RUN_MS_MAX: u64 = 5000;
/// Calls in a row of one script that may run out of time; the next ones are refused. Service (how many is not
/// documented); 403.
pub const SCRIPT_OVERRUNS_MAX: u32 = 3;
/// For how long, or until the script is replaced. Ours.
pub const SCRIPT_BLOCKED_MS: u64 = 10 * 60 * 1000;
/// Scripts of which it is remembered. Ours.
pub const SCRIPT_OVERRUNS_KEPT: usize = 1024;
/// Share of that time after which a script's operations are no longer queued, in percent: it shall
/// have time to end well. Ours; the operation is not accepted.
pub const SCRIPT_ACCEPT_PERCENT: u64 = 80;
/// Memory of one script. Ours; 400.
pub const SCRIPT_MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Stack of one script; threads have four times as much. Ours; 400.
pub const SCRIPT_STACK_BYTES_MAX: usize = 512 * 1024;
/// Operations that one script may queue. Ours; the operation is not accepted.
pub const SCRIPT_OPERATIONS_MAX: usize = 10_000;
/// Arguments of one procedure. Ours; 400.
pub const SCRIPT_ARGUMENTS_MAX: usize = 10_000;
/// Body that a script may answer with, or give to the operation that it precedes. Service; 413.
pub const SCRIPT_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Text that a script may log. Service; 413.
pub const SCRIPT_LOG_BYTES_MAX: usize = 4096;
/// Text of what a script threw, with its stack; the rest is cut off. Ours.
pub const SCRIPT_MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// Triggers that one request may name to run before the operation, and as many after it. Ours (the service
/// runs one); 400.
pub const TRIGGERS_PER_REQUEST_MAX: usize = 10;
/// Compiled scripts that are kept, all together. Ours; beyond, they are compiled anew.
pub const SCRIPTS_COMPILED_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// JavaScript runtimes that are kept for the next call. Ours; more are created and dropped as needed.
pub const SCRIPT_RUNTIMES_KEPT: usize = 32;

/// Time to live, in seconds. Service; 400.
pub const TTL_SECONDS_MAX: i64 = 2_147_483_647;
/// Least manual throughput. Service; 400.
pub const THROUGHPUT_MIN: i64 = 400;
/// Least maximum of autoscale throughput. Service; 400.
pub const AUTOSCALE_MIN: i64 = 1000;
/// Greatest throughput of one resource. Service (1,000,000 on request); 400.
pub const THROUGHPUT_MAX: i64 = 1_000_000;
/// Throughput buckets of a container, numbered from 1. Service; 400.
pub const THROUGHPUT_BUCKETS_MAX: usize = 5;
/// How far one request may overdraw the throughput of its container: nobody waits longer for it. Ours.
pub const THROUGHPUT_DEBT_S_MAX: u64 = 10;
/// Offers whose requests are watched at once; beyond, all begin anew. Ours.
pub const THROUGHPUT_OFFERS_KEPT: usize = 100_000;
/// Allowances of one offer, by physical partition and bucket; beyond, all begin anew. Ours.
pub const THROUGHPUT_BUCKETS_KEPT: usize = 10_000;
/// Throughput that one physical partition serves; beyond, it is split. Service.
pub const PARTITION_THROUGHPUT: i64 = 10_000;
/// Throughput of a new container for each physical partition that it begins with, from
/// [`PARTITION_THROUGHPUT`] on: below, it begins with one. Service.
pub const PARTITION_THROUGHPUT_FIRST: i64 = 6_000;

/// Data that one physical partition holds before it is split, unless a setting says otherwise.
/// Service.
pub const PARTITION_SIZE_BYTES_MAX: u64 = 50 * 1024 * 1024 * 1024;
/// Physical partitions that a setting may give a new container. Ours; the server does not start.
pub const PARTITIONS_FIRST_MAX: u32 = 100;
/// Bytes that may be written to a partition while it is copied, and that the copy has not yet
/// followed. Ours; the split or merge is given up: 503.
pub const COPY_JOURNAL_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Entries of a store that one answer holds while the whole store is copied. Ours; the rest is asked for again.
pub const STORE_COPY_PAGE_ROWS: usize = 8192;
/// Bytes of such an answer, but for the entry that exceeds it. Ours.
pub const STORE_COPY_PAGE_BYTES: usize = 2 * 1024 * 1024;
/// Keys that are asked for by name at once when a copy is compared with its source. Ours.
pub const STORE_COPY_KEYS: usize = 512;
/// Keys that were written while a copy was compared with its source, and are compared once more. Ours; beyond them
/// everything is.
pub const STORE_COPY_KEYS_MAX: usize = 1_000_000;
/// Time for which a copy of the whole store that nobody reads is kept. Ours; 404 afterwards.
pub const STORE_COPY_IDLE_S_MAX: u64 = 60;
/// Entries, and bytes of them, that are copied at once. Ours.
pub const COPY_CHUNK_ENTRIES: usize = 8192;
/// See [`COPY_CHUNK_ENTRIES`].
pub const COPY_CHUNK_BYTES: usize = 1024 * 1024;
/// Bytes that are gathered into files of the new partitions before they take them. Ours.
pub const COPY_RUN_BYTES: usize = 128 * 1024 * 1024;
/// Bytes that a copy may be behind when writers are made to wait for the rest of it. Ours.
pub const CUTOVER_REST_BYTES: usize = 256 * 1024;
/// How often a copy tries to come so near to its writers before they are made to wait all the same.
/// Ours.
pub const COPY_ROUNDS_MAX: usize = 64;
/// Time for which the data of a partition that was split or merged stays for reads that began before:
/// longer than any read takes. Ours.
pub const SHARD_RETIRED_S: u64 = 60;

/// Time for which clients can see that a range is being split before its children take its place,
/// however little there is to copy. Ours.
pub const SPLIT_ANNOUNCED_MS: u64 = 2_000;

/// Text of a query. Service; 400.
pub const QUERY_TEXT_BYTES_MAX: usize = 512 * 1024;
/// JOINs in a query. Service; 400.
pub const QUERY_JOINS_MAX: usize = 10;
/// References to user-defined functions in a query. Service; 400.
pub const QUERY_UDFS_MAX: usize = 10;
/// Nesting of expressions and subqueries in a query's text. Ours; 400.
pub const QUERY_NESTING_MAX: usize = 128;
/// Levels of one expression's tree. Ours; 400. Higher than the nesting of the text, because a chain
/// of `a + b + c` grows a level with each operator.
pub const QUERY_TREE_HEIGHT_MAX: u16 = 400;
/// Steps of evaluation, about one per expression and row, of one execution. Ours; the page ends
/// early, or 400 where it cannot.
pub const QUERY_STEPS_MAX: u64 = 200_000_000;
/// Memory for what an execution keeps: rows to sort, group or compare, built values, postings and
/// batches. Ours; 400.
pub const QUERY_MEMORY_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Which part of the memory of the process all queries together may use, where the settings do not
/// say. Ours; 429.
pub const QUERY_MEMORY_SHARE: u64 = 4;
/// The same where the system does not tell its memory. Ours; 429.
pub const QUERY_MEMORY_TOTAL_BYTES_DEFAULT: usize = 1024 * 1024 * 1024;
/// When to try again if it is used up. Ours.
pub const QUERY_MEMORY_RETRY_MS: u64 = 1000;
/// Partition keys that a filter may name to confine a query; beyond, it reads everywhere. Ours.
pub const QUERY_KEYS_MAX: usize = 256;
/// Values of all paths that a query may look up in the index; beyond, it reads the items. Ours.
pub const QUERY_TERMS_MAX: usize = 10_000;
/// Rows that a query may gather from the index to bring them into order; beyond, it goes another
/// way. Ours.
pub const QUERY_ROWS_GATHERED_MAX: usize = 2_000_000;
/// Items of the ranges that a query or feed reads, up to which they come in the order of insertion.
/// To load an item by row takes a search, and beyond this most searches miss the row cache. Ours.
pub const QUERY_ROW_ORDER_ITEMS_MAX: u64 = 100_000;
/// Items, and bytes of them, that a query without ORDER BY may look through at once for the few that it
/// gives next, instead of loading them one by one in order: about a second's work. Ours.
pub const QUERY_LOOK_AHEAD_ITEMS_MAX: u64 = QUERY_ROW_ORDER_ITEMS_MAX;
/// See [`QUERY_LOOK_AHEAD_ITEMS_MAX`].
pub const QUERY_LOOK_AHEAD_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Rows that such a page may still need. Ours.
pub const QUERY_LOOK_AHEAD_ROWS_MAX: u64 = 100_000;
/// Items whose numbers are sorted at once, where a small part of a range is read in order. Ours.
pub const QUERY_ROWS_SORTED_MAX: usize = 4_096;
/// Items that a query loads at once before it knows how large they are. Ours.
pub const QUERY_FIRST_BATCH_MAX: usize = 64;
/// What a logical partition may hold to be read whole before another way is looked for. Ours.
pub const QUERY_SMALL_PARTITION_BYTES_MAX: usize = 256 * 1024;
/// What it loads at once when it knows. Ours.
pub const QUERY_BATCH_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Time for one page of a query that may stop anywhere: then it ends, with what it found and a
/// continuation. Clients in Direct mode give up on an answer after five seconds. Ours.
pub const QUERY_PAGE_MS_MAX: u64 = 4_000;
/// Time for one execution of a query that cannot stop before its end, as one that sorts or groups.
/// Clients give up on an answer after about a minute. Ours; 408.
pub const QUERY_EXECUTION_MS_MAX: u64 = 60_000;
/// Keys of ORDER BY in a continuation token; beyond, it counts rows. Ours.
pub const QUERY_TOKEN_KEYS_BYTES_MAX: usize = 600;
/// The same where a `resumeFilter` leaves nothing to count. Ours; 400.
pub const QUERY_TOKEN_LONG_KEYS_BYTES_MAX: usize = 16 * 1024;
/// Size of a string that a function may make. Ours; 400.
pub const QUERY_STRING_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Size of one compiled regular expression. Ours; undefined.
pub const REGEX_COMPILED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Text that a pattern with look-around or back-references is matched against: the time that takes
/// grows with the square of it, whatever the steps. Ours; 400.
pub const REGEX_BACKTRACK_SUBJECT_BYTES_MAX: usize = 16 * 1024;
/// Steps of one backtracking search. Ours; 400.
pub const REGEX_BACKTRACK_STEPS_MAX: usize = 1_000_000;
/// Steps of each backtracking search of `RegexExtractAll`, and how many such searches one call may
/// make. Ours; 400.
pub const REGEX_EXTRACT_STEPS_MAX: usize = 100_000;
/// See [`REGEX_EXTRACT_STEPS_MAX`].
pub const REGEX_EXTRACT_BACKTRACK_MATCHES_MAX: usize = 1_000;
/// Matches of one call of `RegexExtractAll` times the bytes of the text: each search may read the
/// text to its end. Ours; 400.
pub const REGEX_EXTRACT_WORK_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Points of one polygon. Service; undefined.
pub const POLYGON_POINTS_MAX: usize = 4096;
/// Characters that REPLICATE may make. Service; undefined.
pub const REPLICATE_CHARS_MAX: usize = 10_000;

/// Difference between a request's date and the server's. Service; 403.
pub const CLOCK_SKEW_S_MAX: u64 = 15 * 60;
/// Life of a resource token unless the client says otherwise. Service.
pub const TOKEN_LIFE_S_DEFAULT: u64 = 3600;
/// Shortest and longest life of a resource token. Service; 400.
pub const TOKEN_LIFE_S: std::ops::RangeInclusive<u64> = 10..=86_400;

/// Bytes of a request's head: its line and headers. Ours; 431, and the connection closes.
pub const REQUEST_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the head of a frame in Direct mode: its codes and tokens. Ours; the connection closes.
pub const DIRECT_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Requests of one connection in Direct mode that run at once; more wait to be read. Ours.
pub const DIRECT_REQUESTS_MAX: usize = 64;
/// Bytes of answers that wait for such a client to read them; then nothing more of it is read. Ours.
pub const DIRECT_OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Time without a request after which a connection in Direct mode is closed: longer than the hour for
/// which clients keep one. Ours.
pub const DIRECT_IDLE_MS_MAX: u64 = 2 * 60 * 60 * 1000;
/// The same for a connection on which no request has shown a key or token: clients open some before
/// they need them. Ours.
pub const DIRECT_UNAUTHENTICATED_IDLE_MS_MAX: u64 = 60_000;
/// Headers of one request. Ours; 431, and the connection closes.
pub const REQUEST_HEADERS_MAX: usize = 128;
/// Time for a client to send a request's head. Ours; the connection closes.
pub const REQUEST_HEAD_MS_MAX: u64 = 10_000;
/// Time for a client to send a request's body. Ours; 408.
pub const REQUEST_BODY_MS_MAX: u64 = 30_000;
/// Time for a TLS handshake. Ours; the connection closes.
pub const TLS_HANDSHAKE_MS_MAX: u64 = 10_000;
/// Connections served at once. When none is free, the oldest one that has not authenticated, and for which
/// the service does not work, is evicted. Ours.
pub const CONNECTIONS_MAX: usize = 4096;
/// Of those, how many are reserved for clients on the server's own machine. Ours.
pub const LOOPBACK_CONNECTIONS_MIN: usize = 64;
/// Connections of other machines that wait for a slot, and of this machine, for as long as a head may
/// take. More of other machines are closed; more of this machine wait in the system's backlog. Ours.
pub const WAITING_CONNECTIONS_MAX: usize = 256;
/// Streams of one HTTP/2 connection served at once. Ours.
pub const HTTP2_STREAMS_MAX: u32 = 256;
/// Time that a response may take after the client has closed its sending side; then the connection is
/// closed and its queries are cancelled. Ours.
pub const HALF_CLOSED_MS_MAX: u64 = 1_000;
/// Time without a request after which a kept connection is closed. Ours.
pub const CONNECTION_IDLE_MS_MAX: u64 = 180_000;
/// The same for a connection that has not authenticated. Ours.
pub const UNAUTHENTICATED_IDLE_MS_MAX: u64 = 5_000;
/// Bytes of a body past the limit that are read and thrown away, so that the client gets to read
/// the refusal instead of a reset connection. Ours.
pub const DISCARD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of request bodies in memory at once. Bodies are read before the credentials over them are
/// checked. Ours; 503.
pub const BODIES_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Least length of an account key: fewer bytes than the hash has could be guessed before the
/// signature is. Ours; the server does not start.
pub const KEY_BYTES_MIN: usize = 32;
/// Operations running on blocking threads at once; more wait. Ours.
pub const BLOCKING_OPERATIONS_MAX: usize = 256;
/// Body of a write that is read on the thread of its connection; a larger one would hold up the
/// others there. Ours.
pub const INLINE_BODY_BYTES_MAX: usize = 64 * 1024;
/// Text of a query that may be answered on the thread of its connection. Ours.
pub const INLINE_QUERY_BYTES_MAX: usize = 4 * 1024;
/// What such a query may be expected to cost, in index entries: about a millisecond. Ours.
pub const IN_PLACE_QUERY_COST_MAX: f64 = 8000.0;
/// Steps of evaluation that it may take: about a millisecond. Ours.
pub const INLINE_QUERY_STEPS_MAX: u64 = 16 * 1024;
/// What it may read, in index entries: twice what it may be expected to cost. Ours.
pub const INLINE_QUERY_READS_MAX: u64 = 16_000;
/// Physical partitions that such a query may read. Ours.
pub const IN_PLACE_QUERY_PARTITIONS_MAX: usize = 4;
/// Items to which relations may lead such a query. Ours.
pub const IN_PLACE_EXPAND_ITEMS_MAX: usize = 64;
/// Rounds of the key derivation of a PKCS #12 file; OpenSSL and .NET use 2,048 to 100,000. Ours, so that a
/// file cannot hold up the start for hours.
pub const PFX_ITERATIONS_MAX: u32 = 10_000_000;
/// Time that requests in flight get to end when the server stops. Ours.
pub const DRAIN_MS_MAX: u64 = 10_000;

/// Lines of the statistics: a container, an operation, and the shape of a query. Ours; beyond, requests
/// are counted as others.
pub const STATISTICS_ROWS_MAX: usize = 4096;

/// Readings of the metrics that are kept, one every ten seconds for an hour, and how many samples that
/// changed they keep in all. Ours; beyond, the oldest reading is forgotten.
pub const METRICS_READINGS_MAX: usize = 360;
/// See [`METRICS_READINGS_MAX`]; 4 MiB.
pub const METRICS_CHANGES_MAX: usize = 262_144;

/// Pause between two looks at the catalog of a store that several processes share. Ours.
pub const CATALOG_POLL_MS: u64 = 500;
/// Time for which a writer waits while another process replaces the partition that it writes to. Ours; 503.
pub const CUTOVER_WAIT_MS: u64 = 5000;
/// Row numbers that a process reserves at once in a physical partition. Ours.
pub const ROW_BLOCK: u64 = 1 << 16;
/// The same where several processes do, of which each leaves the rest of a block when it ends. Ours.
pub const ROW_BLOCK_SHARED: u64 = 1 << 12;
/// Attempts at a commit whose checks fail because another writer was faster. Ours; 449.
pub const COMMIT_ATTEMPTS_MAX: usize = 50;
/// Attempts that a writer makes under the shared lock; after them it takes the lock exclusively. Ours.
pub const COMMIT_ATTEMPTS_SHARED: usize = 4;
/// Stripes of the lock of a physical partition; each serves a share of its logical partitions. Ours.
pub const LOCK_STRIPES_PER_PARTITION: usize = 256;
/// Keys and values of one commit. Ours, far above what one request may write; it bounds the memory
/// and the log record that a single commit takes.
pub const COMMIT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Feed entries of one part of a commit: their places are numbered in 16 bits. Ours.
pub const COMMIT_FEED_ENTRIES_MAX: usize = 1 << 16;
/// Commits whose outcome an embedded engine can be asked for afterwards. Ours.
pub const COMMIT_LOG_ENTRIES: usize = 4096;
/// Bytes of a key that `PostgreSQL` indexes as it is; longer ones are folded. Its index entries hold 2,704 bytes.
pub const POSTGRES_KEY_BYTES_MAX: usize = 2048;
/// Milliseconds that a caller waits for a connection to `PostgreSQL`. Ours; 503.
pub const POSTGRES_WAIT_MS_MAX: u64 = 2000;
/// Milliseconds that a lost answer is asked about before its outcome counts as unknown. Ours; 503.
pub const POSTGRES_RESOLVE_MS_MAX: u64 = 10_000;
/// Connections that a node may open to `PostgreSQL`, unless the settings say otherwise. Ours.
pub const POSTGRES_CONNECTIONS: usize = 46;
/// The least that the settings may say. Ours.
pub const POSTGRES_CONNECTIONS_MIN: usize = 8;
/// Entries of a range that are counted in `PostgreSQL`; of more the planner's estimate is taken. Ours.
pub const POSTGRES_COUNTED_MAX: u64 = 512;
/// Commits that go to `PostgreSQL` together, and their bytes. Ours.
pub const POSTGRES_GROUP_MAX: usize = 64;
/// See [`POSTGRES_GROUP_MAX`].
pub const POSTGRES_GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Commits of a shard that the commit log of `PostgreSQL` keeps at least, and how many come before it is trimmed. A
/// transaction that read a range longer ago runs again. Ours.
pub const POSTGRES_LOG_COMMITS: u64 = 32_768;
/// See [`POSTGRES_LOG_COMMITS`].
pub const POSTGRES_TRIM_COMMITS: u64 = 1024;
/// Milliseconds after which a node uses the session again by which the server knows it. Ours.
pub const POSTGRES_RENEWAL_MS: u64 = 2000;
/// Milliseconds between two looks at the heads of shards that are watched, and as many while nothing happens. Ours.
pub const POSTGRES_WATCH_MS_MIN: u64 = 100;
/// See [`POSTGRES_WATCH_MS_MIN`].
pub const POSTGRES_WATCH_MS_MAX: u64 = 1000;
/// Milliseconds after which the server ends the session of a node that stopped in the middle of a commit over several
/// shards, and frees their heads. Ours.
pub const POSTGRES_LOCKED_MS_MAX: u64 = 2000;
/// Seconds after which a journal ends that nobody has read. Ours.
pub const POSTGRES_JOURNAL_S: f64 = 120.0;
/// Expired items removed in one commit of the sweeper. Ours.
pub const SWEEP_ITEMS_MAX: usize = 256;
/// Entries of the change feed that one request looks at. Ours; the page ends there, and the next one
/// goes on.
pub const CHANGES_EXAMINED_MAX: usize = 200_000;
/// How far the time of a write may lie behind that of one committed before it, for a feed that starts
/// at a time to find it, in seconds. Ours.
pub const FEED_CLOCK_SLACK_S: u64 = 300;

/// Value of an index term; a longer string is cut, and queries look at the item. Ours.
pub const INDEX_TERM_BYTES_MAX: usize = 256;
/// Name of a property that is indexed; queries on a longer one read the items. Ours.
pub const INDEX_NAME_BYTES_MAX: usize = 1024;
/// Property paths that a partition keeps in memory; beyond, it forgets them and reads again those
/// that are needed. Ours.
pub const INDEX_PATHS_CACHED_MAX: usize = 16 * 1024;
/// Terms of a partition whose number of rows is remembered. Ours.
pub const INDEX_TERM_SIZES_MAX: usize = 1024;
/// Sets of paths that a partition tells apart; items with further ones are looked at. Ours; stored
/// terms depend on it, so another number requires the index to be rebuilt.
pub const INDEX_SHAPES_MAX: usize = 1024;
/// Paths of such a set; items with more are looked at. Ours; the same holds.
pub const INDEX_SHAPE_PATHS_MAX: usize = 256;
/// Numbers of an item that are kept beside its shape; of items with more, none are. Ours.
pub const INDEX_NUMBERS_MAX: usize = 64;
/// Shapes in which rows are searched for one by one, to add up their numbers without the items. Ours.
pub const INDEX_SHAPES_SOUGHT_MAX: usize = 2;
/// Shapes that are walked along for the same, where most rows are wanted. Ours.
pub const INDEX_SHAPES_WALKED_MAX: usize = 64;
/// Indexing policies in effect at once: that of now and those whose terms are still there. Ours; a
/// further change has to wait: 429.
pub const INDEX_POLICIES_MAX: usize = 8;
/// Items whose terms are built in one commit, and bytes of the items. Ours.
pub const REBUILD_ITEMS_MAX: usize = 128;
/// See [`REBUILD_ITEMS_MAX`].
pub const REBUILD_BYTES_MAX: usize = 1024 * 1024;

/// Types, and likewise relations, aggregates and buckets, of one model. Ours; 400.
pub const MODEL_RULES_MAX: usize = 100;
/// Items in other partitions that one write may change by the model, unless the rule says otherwise.
/// Ours; 400, or the change follows later.
pub const MODEL_FANOUT_DEFAULT: usize = 100;
/// The most that a rule may say. Ours; 400 when the model is stored.
pub const MODEL_FANOUT_MAX: usize = 1000;
/// Ids that a stored inverse may hold. Ours; 400.
pub const MODEL_INVERSE_ITEMS_MAX: usize = 10_000;
/// Elements that `recent` of a bucket may keep. Ours; 400.
pub const MODEL_RECENT_MAX: usize = 1000;
/// Elements of one bucket. Ours; 400.
pub const MODEL_BUCKET_ITEMS_MAX: usize = 10_000;
/// Items that a write may change by the model in all. Ours; 400, or the changes follow later.
pub const MODEL_ITEMS_MAX: usize = 10_000;
/// Items that a commit changes, the client's own among them, up to which it takes in what follows in
/// the logical partition of a write by rules under which it may follow later. Ours; if there are more,
/// all that follows by the rule does so later.
pub const MODEL_EFFECTS_BESIDE_MAX: usize = 1000;
/// Referring items that a refused delete names. Ours.
pub const MODEL_HOLDERS_MAX: usize = 10;
/// Relations that a query may follow one after another. Ours; 400.
pub const MODEL_EXPAND_DEPTH_MAX: usize = 3;
/// Items that relations lead to, for one page of a query or one read. Ours; a page of a query that can
/// go on ends there, otherwise 400.
pub const MODEL_EXPAND_ITEMS_MAX: usize = 1000;
/// Bytes of such items. Ours; the same holds.
pub const MODEL_EXPAND_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Buckets of one array that a query goes through. Ours; 400.
pub const MODEL_BUCKETS_MAX: usize = 100_000;
/// References that a filter on a relation is followed by; beyond, the items are looked at. Ours.
pub const MODEL_SEMI_JOIN_MAX: usize = 20_000;
/// Characters of the header that names what to expand. Ours; 400.
pub const MODEL_EXPAND_CHARS_MAX: usize = 2000;
/// Bytes of a string that MIN and MAX of a model order by; a longer one makes them undefined. Ours.
pub const MODEL_EXTREME_BYTES_MAX: usize = 1000;
/// Items that are brought under a new model before it is answered; the rest follows. Ours.
pub const MODEL_BUILD_ITEMS_INLINE: usize = 2000;
/// Steps of evaluation of an expression of the model over one item. Ours; it is undefined then.
pub const MODEL_STEPS_MAX: u64 = 1_000_000;
/// Wait after the second failure of a unit of background work; it doubles with each further one. The
/// first retry comes with the next round. Ours.
pub const BACKGROUND_RETRY_MS_FIRST: u64 = 1000;
/// The longest wait between two attempts. Ours.
pub const BACKGROUND_RETRY_MS_MAX: u64 = 300_000;
/// Failures in a row after which a unit of background work is quarantined. Ours.
pub const BACKGROUND_ATTEMPTS_MAX: u32 = 10;
/// Time between two heartbeats of a node of a shared store. Ours.
pub const NODE_HEARTBEAT_MS: u64 = 2_000;
/// Time after its last heartbeat at which a node counts as dead: its leases go to others. Ours.
pub const NODE_EXPIRY_MS: u64 = 10_000;
/// Time between two looks for shards that are no longer in use, on a shared store. Ours.
pub const UNUSED_SHARDS_MS: u64 = 5_000;
/// Leases that a node takes or gives back in one commit. Ours.
pub const LEASES_PER_COMMIT: usize = 256;
/// Sentences that are stored of what a verification has found on a shared store; their number is stored in full. Ours.
pub const VERIFICATION_DRIFT_KEPT: usize = 100;
/// Offers whose demand a node publishes with a heartbeat, those that are asked most. Ours.
pub const NODE_DEMANDS_MAX: usize = 1_000;
/// Bytes of what a node says of itself: its host, its version, each of its addresses. Ours.
pub const NODE_TEXT_BYTES_MAX: usize = 256;
/// Failing units of background work that are kept track of; further ones are tried in every round. Ours.
pub const BACKGROUND_UNITS_KEPT: usize = 100_000;
/// Schemas that the JSON Schema of a type has. Ours; 400 when the model is stored.
pub const MODEL_SCHEMA_NODES_MAX: usize = 5000;
/// Evaluations of schemas that one value of an item may take, by the bound that follows from the JSON
/// Schema of its type. Ours; 400 when the model is stored.
pub const MODEL_SCHEMA_VISITS_MAX: u64 = 5000;
/// Evaluations of schemas that one item may take by the same bound, and all items that one write
/// changes. Ours; 400.
pub const MODEL_SCHEMA_STEPS_MAX: u64 = 10_000_000;
/// Evaluations up to which every failure is looked for; beyond, the first one is reported. Ours.
pub const MODEL_SCHEMA_REPORT_STEPS_MAX: u64 = 50_000;
/// Bytes of a compiled pattern of a JSON Schema. Ours; 400 when the model is stored.
pub const MODEL_SCHEMA_PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// Evaluations that are done on the thread of a connection; more are done on another. Ours.
pub const IN_PLACE_SCHEMA_STEPS_MAX: u64 = 20_000;
/// Deletes by partition key that a container has not done yet. Ours; 429.
pub const ERASURES_PENDING_MAX: usize = 1000;
/// Characters of the header that names what a model warns of. Ours; the rest is cut off.
pub const MODEL_WARNINGS_CHARS_MAX: usize = 2000;
/// Time for which a delete by partition key that is done goes on hiding what it removed: longer
/// than any read takes. Ours.
pub const ERASURE_KEPT_S: u64 = 30;
/// Backups that may be read at the same time. Ours; 429.
pub const BACKUPS_MAX: usize = 4;
/// Bytes of a backup's file that one answer holds. Ours; the rest is asked for again.
pub const BACKUP_PIECE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Time for which a backup that nobody reads is kept. Ours; 404 afterwards.
pub const BACKUP_IDLE_S_MAX: u64 = 600;

/// Items that one report of the advisor reads, and the time it takes for it. Ours; it says so.
pub const ADVISOR_ITEMS_MAX: usize = 1_000_000;
/// See [`ADVISOR_ITEMS_MAX`].
pub const ADVISOR_MS_MAX: u64 = 30_000;
/// Notes on requests: containers; of each, texts of queries, paths, and heaviest partition keys. Ours;
/// the lightest makes room.
pub const WORKLOAD_CONTAINERS_MAX: usize = 500;
/// See [`WORKLOAD_CONTAINERS_MAX`].
pub const WORKLOAD_TEXTS_MAX: usize = 100;
/// See [`WORKLOAD_CONTAINERS_MAX`].
pub const WORKLOAD_PATHS_MAX: usize = 200;
/// See [`WORKLOAD_CONTAINERS_MAX`].
pub const WORKLOAD_KEYS_MAX: usize = 64;
/// Answers that are watched for reads that follow, values of each, bytes of one of its rows, and chains
/// that are remembered. Ours.
pub const WORKLOAD_WATCHED_MAX: usize = 32;
/// Answers of one second that are watched: more would tell no more, and each costs the reads after it.
pub const WORKLOAD_WATCHED_PER_S_MAX: usize = 32;
/// See [`WORKLOAD_WATCHED_MAX`].
pub const WORKLOAD_VALUES_MAX: usize = 500;
/// See [`WORKLOAD_WATCHED_MAX`].
pub const WORKLOAD_ROW_BYTES_MAX: usize = 64 * 1024;
/// See [`WORKLOAD_WATCHED_MAX`].
pub const WORKLOAD_CHAINS_MAX: usize = 500;

/// Role definitions of an account, without the built-in ones. Service; 400.
pub const ROLE_DEFINITIONS_MAX: usize = 100;
/// Role assignments of an account. Service; 400.
pub const ROLE_ASSIGNMENTS_MAX: usize = 2000;
/// Name of a role. Ours; 400.
pub const ROLE_NAME_CHARS_MAX: usize = 255;
/// Assignable scopes of a role, and permissions that it lists. Ours; 400.
pub const ROLE_SCOPES_MAX: usize = 100;
/// Data actions of one permission of a role. Ours; 400.
pub const ROLE_ACTIONS_MAX: usize = 64;
/// Scope of an assignment or id of its role, with the account in front. Ours; 400.
pub const ROLE_RESOURCE_ID_CHARS_MAX: usize = 2048;
/// Principal of an assignment, or of a token. Ours; 400, and 401 for a token.
pub const PRINCIPAL_ID_BYTES_MAX: usize = 256;

/// An Entra ID token. Ours; 401 with sub-status 5003.
pub const JWT_BYTES_MAX: usize = 32 * 1024;
/// Characters of what a token without a valid signature says that a refusal repeats. Ours.
pub const JWT_QUOTED_CHARS_MAX: usize = 100;
/// Groups of a token that are looked at. Service, whose tokens name 200 at most; further ones do not count.
pub const JWT_GROUPS_MAX: usize = 200;
/// Verified tokens that are remembered until they expire; beyond, the oldest are verified anew. Ours.
pub const JWTS_KEPT_MAX: usize = 4096;
/// Seconds by which the clocks of the issuer and the server may differ, unless the settings say. Service.
pub const JWT_LEEWAY_S_DEFAULT: u64 = 300;
/// The most that the settings may say. Ours; the server does not start.
pub const JWT_LEEWAY_S_MAX: u64 = 900;
/// A document of signing keys. Ours; the keys before stay in use.
pub const JWKS_BYTES_MAX: usize = 1024 * 1024;
/// Signing keys of all documents; further ones are left out. Ours.
pub const JWKS_KEYS_MAX: usize = 256;
/// Sources of signing keys. Ours; the server does not start.
pub const JWKS_SOURCES_MAX: usize = 16;
/// Time to fetch one document of signing keys. Ours; the keys before stay in use.
pub const JWKS_FETCH_MS_MAX: u64 = 10_000;
/// Time after which signing keys are fetched again. Ours.
pub const JWKS_REFRESH_S: u64 = 600;
/// Least time between two fetches, however many tokens name an unknown key. Ours.
pub const JWKS_PAUSE_S_MIN: u64 = 60;
