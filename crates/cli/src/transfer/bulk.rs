//! Into a running server, by bulk requests. Each lane has a connection of its own. What the server
//! has no room for now is sent again when it says; and after a lost answer everything is sent again,
//! which makes no duplicates: an item has its id.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use orrery_server::wire::headers;
use orrery_types::{Value, limits};

use super::target::{Fate, Item, OnExisting, TransferTarget};
use crate::account;
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::remote::{Remote, RemoteAnswer, RemoteArguments};

/// How often a request is sent again before it is given up.
const ATTEMPTS_MAX: u32 = 30;
/// Waits grow from the first to the last, unless the server says how long.
const WAIT_MS_FIRST: u64 = 50;
const WAIT_MS_LAST: u64 = 5000;
/// Room that an operation takes beside its item.
const OPERATION_BYTES: usize = 64;

const TOO_MANY: u16 = 429;
const CONFLICT: u16 = 409;
const TOO_LARGE: u16 = 413;
/// The answer of an operation that was not begun because another one failed.
const DEPENDENT: u16 = 424;

/// A container of a server.
pub(crate) struct Bulk {
    path: String,
    connections: Vec<Mutex<Remote>>,
}

impl Bulk {
    /// Makes as many connections as there shall be lanes.
    pub(crate) fn open(server: &RemoteArguments, container: &str, lanes: usize) -> Result<Self> {
        let connections = (0..lanes.max(1)).map(|_| server.connect().map(Mutex::new));
        let path = format!("{container}/docs");
        Ok(Self { path, connections: connections.collect::<Result<_>>()? })
    }

    /// Sends operations until each has been answered.
    fn send(&self, remote: &mut Remote, operations: &[String], keep: bool) -> Result<Vec<Fate>> {
        let mut fates: Vec<Option<Fate>> = vec![None; operations.len()];
        for attempt in 0..ATTEMPTS_MAX {
            let open: Vec<usize> = (0..fates.len()).filter(|at| fates[*at].is_none()).collect();
            if open.is_empty() {
                break;
            }
            let chosen: Vec<&str> = open.iter().map(|at| &*operations[*at]).collect();
            let body = format!("[{}]", chosen.join(","));
            let sent = [
                ("content-type", "application/json"),
                (headers::IS_BATCH, "true"),
                (headers::BATCH_ATOMIC, "false"),
                (headers::BATCH_CONTINUE_ON_ERROR, "true"),
                (headers::PREFER, "return=minimal"),
            ];
            let wait_ms = match account::send(remote, "POST", &self.path, &sent, body.as_bytes()) {
                Ok(answer) if answer.status == TOO_MANY || answer.status >= 500 => {
                    retry_after_ms(answer.header(headers::RETRY_AFTER_MS), attempt)
                }
                Ok(answer) if answer.status >= 400 => {
                    return Err(account::refusal(&self.path, &answer));
                }
                Ok(answer) => match note(&answer, keep, &open, &mut fates)? {
                    Rest::Nothing => continue,
                    Rest::After(told) => retry_after_ms(told.as_deref(), attempt),
                },
                Err(error) if attempt + 1 == ATTEMPTS_MAX => return Err(error),
                Err(_) => retry_after_ms(None, attempt),
            };
            interrupt::sleep(Duration::from_millis(wait_ms))?;
        }
        let unanswered = fates.iter().filter(|fate| fate.is_none()).count();
        if unanswered > 0 {
            return Err(no_room(unanswered));
        }
        Ok(fates.into_iter().flatten().collect())
    }
}

impl Bulk {
    /// Sends one item for which a batch has no room beside what wraps it, until it is answered.
    fn send_alone(&self, remote: &mut Remote, item: &str, existing: OnExisting) -> Result<Fate> {
        // A server may hang up in the midst of what no request may hold.
        if item.len() > limits::REQUEST_BODY_BYTES_MAX {
            let (size, most) = (item.len(), limits::ITEM_SIZE_BYTES_MAX);
            return Ok(Fate::Refused(format!("it has {size} bytes, and an item at most {most}")));
        }
        let upsert = if existing == OnExisting::Replace { "true" } else { "false" };
        let sent = [
            ("content-type", "application/json"),
            (headers::IS_UPSERT, upsert),
            (headers::PREFER, "return=minimal"),
        ];
        for attempt in 0..ATTEMPTS_MAX {
            let wait_ms = match account::send(remote, "POST", &self.path, &sent, item.as_bytes()) {
                Ok(answer) => match answer.status {
                    TOO_MANY | 449 | 500.. => {
                        retry_after_ms(answer.header(headers::RETRY_AFTER_MS), attempt)
                    }
                    201 => return Ok(Fate::Created),
                    200 => return Ok(Fate::Replaced),
                    status @ (400 | CONFLICT | 412 | TOO_LARGE) => {
                        let result = Value::parse(&answer.body).unwrap_or_default();
                        if existing == OnExisting::Keep && is_taken(status, &result) {
                            return Ok(Fate::Kept);
                        }
                        let message = account::message(&answer.body);
                        return Ok(Fate::Refused(format!("{message} ({status})")));
                    }
                    _ => return Err(account::refusal(&self.path, &answer)),
                },
                Err(error) if attempt + 1 == ATTEMPTS_MAX => return Err(error),
                Err(_) => retry_after_ms(None, attempt),
            };
            interrupt::sleep(Duration::from_millis(wait_ms))?;
        }
        Err(no_room(1))
    }
}

/// The server was asked often enough.
fn no_room(items: usize) -> anyhow::Error {
    let text = format!(
        "the server had no room for {items} items in {ATTEMPTS_MAX} attempts; raise the throughput of the container, or start again later: it goes on where it stopped"
    );
    Failure::new(Exit::Refused, text).into()
}

/// What of a request has to be sent again.
enum Rest {
    Nothing,
    /// Something, after so many milliseconds if the server named a time.
    After(Option<String>),
}

/// Notes what was answered.
fn note(
    answer: &RemoteAnswer,
    keep: bool,
    open: &[usize],
    fates: &mut [Option<Fate>],
) -> Result<Rest> {
    let results = Value::parse(&answer.body).ok();
    let results = results.as_ref().and_then(Value::as_array).unwrap_or_default();
    if results.len() != open.len() {
        bail!("the server answered {} of {} operations; is it Orrery?", results.len(), open.len());
    }
    let mut rest = Rest::Nothing;
    for (at, result) in open.iter().zip(results) {
        let status =
            result.get("statusCode").as_i64().and_then(|status| u16::try_from(status).ok());
        let fate = match status.unwrap_or(0) {
            201 => Some(Fate::Created),
            200 => Some(Fate::Replaced),
            TOO_MANY | DEPENDENT | 449 | 500.. => None,
            status if keep && is_taken(status, result) => Some(Fate::Kept),
            status => Some(Fate::Refused(refusal_text(status, result))),
        };
        if fate.is_none() {
            let told = result.get("retryAfterMilliseconds").as_i64().map(|ms| ms.to_string());
            rest = match rest {
                Rest::After(Some(known)) => Rest::After(Some(known)),
                Rest::After(None) | Rest::Nothing => Rest::After(told),
            };
        }
        fates[*at] = fate;
    }
    Ok(rest)
}

fn refusal_text(status: u16, result: &Value) -> String {
    match result.get("message").as_str() {
        Some(message) => format!("{} ({status})", message.trim_end_matches('.')),
        None => format!("the server refuses it with status {status}"),
    }
}

/// Whether an item was refused for its id, rather than for a unique key.
fn is_taken(status: u16, result: &Value) -> bool {
    let message = result.get("message").as_str().unwrap_or_default();
    status == CONFLICT && !message.to_ascii_lowercase().contains("unique")
}

fn retry_after_ms(told: Option<&str>, attempt: u32) -> u64 {
    let own = WAIT_MS_FIRST.saturating_mul(1 << attempt.min(16)).min(WAIT_MS_LAST);
    told.and_then(|text| text.parse().ok()).unwrap_or(own)
}

impl TransferTarget for Bulk {
    fn lanes(&self) -> usize {
        self.connections.len()
    }

    fn load(&self, lane: usize, items: Vec<Item>, existing: OnExisting) -> Result<Vec<Fate>> {
        let remote = &self.connections[lane % self.connections.len()];
        let remote = &mut remote.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = if existing == OnExisting::Replace { "Upsert" } else { "Create" };
        let keep = existing == OnExisting::Keep;
        let mut fates = Vec::with_capacity(items.len());
        let (mut group, mut bytes) = (Vec::new(), 0);
        for item in items {
            let text = item.value.to_json();
            let size = text.len() + OPERATION_BYTES;
            let full = group.len() >= limits::BATCH_OPERATIONS_MAX
                || bytes + size > limits::BATCH_SIZE_BYTES_MAX;
            if full && !group.is_empty() {
                fates.extend(self.send(remote, &std::mem::take(&mut group), keep)?);
                bytes = 0;
            }
            if size > limits::BATCH_SIZE_BYTES_MAX {
                fates.push(self.send_alone(remote, &text, existing)?);
                continue;
            }
            bytes += size;
            group.push(format!("{{\"operationType\":\"{kind}\",\"resourceBody\":{text}}}"));
        }
        if !group.is_empty() {
            fates.extend(self.send(remote, &group, keep)?);
        }
        Ok(fates)
    }
}
