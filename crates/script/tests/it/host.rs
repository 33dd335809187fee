//! A host in memory, and the short ways in which the tests run scripts on it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use orrery_script::{
    Bounds, CallFacts, HostAnswer, HostOutcome, PageRequest, ProcedureCall, ProcedureResult,
    Script, ScriptError, ScriptHost, Scripts, Thrown,
};
use orrery_types::ids::Address;
use orrery_types::{Error, Etag, Result, Value};

/// Items by id. Queries return all items; the engine's tests know what they mean.
#[derive(Clone, Default)]
pub(crate) struct Items {
    pub(crate) kept: BTreeMap<String, Value>,
    /// What was asked, in order.
    pub(crate) asked: Vec<String>,
    ids: u64,
}

impl Items {
    pub(crate) fn with(items: &[&str]) -> Self {
        let mut host = Self::default();
        for text in items {
            let item = Value::parse(text.as_bytes()).expect("a test's item");
            host.create(item).expect("a test's item");
        }
        host.asked.clear();
        host
    }

    fn keep(&mut self, mut item: Value, outcome: HostOutcome) -> Result<HostAnswer> {
        let Some(id) = item.get("id").as_str().map(str::to_owned) else {
            return Err(Error::invalid("no id"));
        };
        let object = item.as_object_mut().ok_or_else(|| Error::invalid("no object"))?;
        object.set("_self", format!("dbs/AQ==/colls/AQ=C/docs/{id}/").into());
        object.set("_etag", format!("e{}", self.asked.len()).into());
        let body = item.to_json().into_bytes();
        self.kept.insert(id, item);
        Ok(HostAnswer { outcome, body, continuation: None })
    }

    fn find(&self, item: &Address) -> Result<&Value> {
        let Address::Name(id) = item else { return Err(Error::NotFound) };
        self.kept.get(id).ok_or(Error::NotFound)
    }

    fn check(&self, item: &Address, if_match: Option<&str>) -> Result<()> {
        let etag = self.find(item)?.get("_etag").as_str().unwrap_or_default();
        if if_match.is_none_or(|wanted| wanted == etag) {
            Ok(())
        } else {
            Err(Error::PreconditionFailed)
        }
    }
}

impl ScriptHost for Items {
    fn create(&mut self, item: Value) -> Result<HostAnswer> {
        self.asked.push(format!("create {}", item.to_json()));
        let id = item.get("id").as_str();
        if id.is_some_and(|id| self.kept.contains_key(id)) {
            return Err(Error::AlreadyExists);
        }
        self.keep(item, HostOutcome::Created)
    }

    fn upsert(&mut self, item: Value, if_match: Option<&str>) -> Result<HostAnswer> {
        self.asked.push(format!("upsert {} {if_match:?}", item.to_json()));
        self.keep(item, HostOutcome::Replaced)
    }

    fn read(&mut self, item: &Address, if_none_match: Option<&str>) -> Result<HostAnswer> {
        self.asked.push(format!("read {item:?}"));
        let found = self.find(item)?;
        let same = if_none_match.is_some_and(|etag| found.get("_etag").as_str() == Some(etag));
        let outcome = if same { HostOutcome::NotModified } else { HostOutcome::Read };
        Ok(HostAnswer { outcome, body: found.to_json().into_bytes(), continuation: None })
    }

    fn replace(&mut self, at: &Address, item: Value, if_match: Option<&str>) -> Result<HostAnswer> {
        self.asked.push(format!("replace {at:?} {}", item.to_json()));
        self.check(at, if_match)?;
        self.keep(item, HostOutcome::Replaced)
    }

    fn delete(&mut self, item: &Address, if_match: Option<&str>) -> Result<HostAnswer> {
        self.asked.push(format!("delete {item:?}"));
        self.check(item, if_match)?;
        if let Address::Name(id) = item {
            self.kept.remove(id);
        }
        Ok(HostAnswer { outcome: HostOutcome::Deleted, body: Vec::new(), continuation: None })
    }

    /// The continuation is the id of the last item.
    fn list(&mut self, page: &PageRequest) -> Result<HostAnswer> {
        self.asked.push(format!("list {page:?}"));
        let size = usize::try_from(page.size).unwrap_or(usize::MAX);
        let after = page.continuation.clone().unwrap_or_default();
        let rest: Vec<_> = self.kept.iter().filter(|(id, _)| **id > after).collect();
        let texts: Vec<String> = rest.iter().take(size).map(|(_, item)| item.to_json()).collect();
        let more = rest.len() > texts.len();
        let last = rest.get(texts.len().wrapping_sub(1)).map(|(id, _)| (*id).clone());
        let body = format!("[{}]", texts.join(",")).into_bytes();
        Ok(HostAnswer { outcome: HostOutcome::Read, body, continuation: last.filter(|_| more) })
    }

    fn query(&mut self, query: &Value, page: &PageRequest) -> Result<HostAnswer> {
        self.asked.push(format!("query {}", query.to_json()));
        self.list(page)
    }

    fn new_id(&mut self) -> String {
        self.ids += 1;
        format!("made-{}", self.ids)
    }
}

/// Time enough for a busy machine: only the tests of time itself may meet its end.
pub(crate) fn scripts() -> Scripts {
    Scripts::new(Bounds { run_ms: 60_000, ..Bounds::default() })
}

/// So little time that a script which runs for ever does not run for long.
pub(crate) fn hurried() -> Scripts {
    Scripts::new(Bounds { run_ms: HURRIED_MS, ..Bounds::default() })
}

pub(crate) const HURRIED_MS: u64 = 300;

pub(crate) fn facts() -> CallFacts {
    CallFacts {
        self_link: "dbs/AQ==/colls/AQ=C/".into(),
        alt_link: "dbs/shop/colls/books".into(),
        headers: vec![("x-ms-version".into(), "2020-07-15".into())],
        quota_max: "collectionSize=1;".into(),
        quota_used: "collectionSize=0;".into(),
        is_logging: true,
    }
}

/// A script that nobody has seen before.
pub(crate) fn script(body: &str) -> Script<'_> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let stamp = NEXT.fetch_add(1, Ordering::Relaxed);
    Script { name: "sp", body, version: Etag { node: 1, stamp } }
}

pub(crate) fn run_on(
    host: &mut Items,
    body: &str,
    arguments: &str,
) -> Result<ProcedureResult, ScriptError> {
    run_with(&scripts(), host, body, arguments)
}

pub(crate) fn run_with(
    scripts: &Scripts,
    host: &mut Items,
    body: &str,
    arguments: &str,
) -> Result<ProcedureResult, ScriptError> {
    let facts = facts();
    let arguments = Value::parse(arguments.as_bytes()).expect("a test's arguments");
    let call = ProcedureCall { script: script(body), facts: &facts, arguments: &arguments };
    scripts.run_procedure(&call, host, scripts.deadline())
}

/// Runs a procedure on items and returns its body.
pub(crate) fn answer(host: &mut Items, body: &str) -> String {
    run_on(host, body, "[]").unwrap_or_else(|e| panic!("{body}: {e}")).body
}

/// Runs a procedure that throws.
pub(crate) fn thrown(host: &mut Items, body: &str) -> Thrown {
    match run_on(host, body, "[]") {
        Err(ScriptError::Thrown(thrown)) => *thrown,
        other => panic!("{body}: {other:?}"),
    }
}
