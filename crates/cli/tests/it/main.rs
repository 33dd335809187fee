//! The binary as people and scripts start, stop and kill it, and the server behind it as clients of
//! every kind talk to it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod advise;
mod auth_golden;
mod backup;
mod bench;
mod client;
#[path = "../../../storage/tests/it/cluster.rs"]
mod cluster;
mod copy;
mod demo;
mod direct;
mod emulator;
mod entra;
mod full_disk;
mod golden_http;
mod hybrid_row;
#[cfg(unix)]
mod interrupt;
mod isolation;
mod issuer;
mod kill;
mod layout;
mod local;
mod log_damage;
mod malformed;
mod model_access;
mod model_kill;
mod model_remote;
mod nodes;
#[cfg(unix)]
mod nodes_shared;
mod moving;
#[cfg(target_os = "linux")]
mod patroni;
mod place;
mod plan_texts;
#[path = "../../../storage/tests/it/postgres_store.rs"]
mod postgres_store;
#[cfg(target_os = "linux")]
mod power_cut;
#[cfg(target_os = "linux")]
mod procedure_kill;
mod process;
mod query;
mod random;
mod ready;
mod refused_start;
mod resources;
mod resume;
mod roles_golden;
mod secondary_index;
mod resume_filter;
#[cfg(unix)]
mod shell;
mod small_disk;
mod soak;
mod start;
mod store_start;
mod statistics;
mod tasks;
#[cfg(unix)]
mod terminal;
mod throughput;
mod tool;
mod transaction_kill;
mod transfer;
mod wire_batch;
mod wire_checks;
mod wire_feeds;
mod wire_headers;
mod wire_ids;
mod wire_session;
mod wire_transaction;
