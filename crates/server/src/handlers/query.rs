//! Queries over HTTP: of items, of the catalog's feeds, and the plans that SDKs ask for.

use std::time::Duration;

use base64::Engine as _;
use http::StatusCode;
use orrery_engine::query::read_feed::PageSize;
use orrery_engine::query::{Paging, PlanPath, PreparedQuery, QueryPage, QueryReport, QueryRequest};
use orrery_engine::throughput::charge;
use orrery_types::{Error, Object, Result, Value};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::Instant;

use super::item::scope;
use crate::call::Call;
use crate::execute::Budget;
use crate::wire::headers::IndexMetrics;
use crate::wire::link::ContainerAddress;
use crate::wire::reply::{Reply, ReplyNote};
use crate::wire::resources;

/// A page of a query over items, decoded.
pub(crate) struct ItemQuery {
    query: PreparedQuery,
    /// Time that parsing took.
    compiled: Duration,
}

/// Decodes a request for a page of a query over items.
pub(crate) fn decode(call: &Call, at: &ContainerAddress) -> Result<ItemQuery> {
    let container = call.container(at)?;
    let began = Instant::now();
    let request = QueryRequest::parse(call.json()?)?;
    let compiled = began.elapsed();
    if call.shared.statistics.is_on() {
        call.set_shape(request.shape());
    }
    let scope = scope(call, container)?;
    let size = PageSize::from_header(call.headers.max_item_count)?;
    let query = PreparedQuery::new(container.clone(), scope, request, size);
    Ok(ItemQuery { query, compiled })
}

/// A page of a query over items, answered whole: every clause is computed here, unless the client
/// merges partitions itself.
pub(crate) fn items(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    run_page(call, &mut decode(call, at)?)
}

/// Runs a decoded query with the budget of a page.
pub(crate) fn run_page(call: &Call, query: &mut ItemQuery) -> Result<Reply> {
    let page = try_page(call, query, Budget::Page)?;
    page.ok_or_else(|| Error::internal("a query exceeded the inline budget outside of it"))
}

/// Runs a decoded query; `None` if it exceeds the inline budget.
pub(crate) fn try_page(
    call: &Call,
    item_query: &mut ItemQuery,
    budget: Budget,
) -> Result<Option<Reply>> {
    let ItemQuery { query, compiled } = item_query;
    let paging = Paging {
        continuation: call.headers.continuation.as_deref(),
        crosses: call.headers.enable_cross_partition,
        merges: call.headers.names_capabilities,
        explains: call.headers.explain,
        expand: call.headers.model_expand.as_deref(),
        reach: super::grant::reach(call),
        cancellation: call.cancellation.as_ref(),
        ..Paging::default()
    };
    let queries = call.engine().queries();
    let page = match budget {
        Budget::Inline => queries.run_inline(query, &paging)?,
        Budget::Page => Some(queries.run(query, &paging)?),
    };
    let Some(mut page) = page else { return Ok(None) };
    let container = query.container();
    let written = Instant::now();
    let reply = resources::texts_of(container.rid_text(), "Documents", &page.rows);
    let written = written.elapsed();
    let mut reply = reply
        .continuation(page.continuation.take())
        .sessions_and_range(std::mem::take(&mut page.session_token))
        .requires_distribution(false)
        .charge(call.read_charge(page.charge))
        .of_container();
    if call.headers.populate_query_metrics {
        reply = reply.note(ReplyNote::QueryMetrics, query_metrics(&page, *compiled, written));
    }
    if let Some(form) = call.headers.populate_index_metrics {
        let metrics = match form {
            IndexMetrics::First => index_metrics(&page.report),
            IndexMetrics::Second => index_metrics_v2(&page.report),
        };
        reply = reply.note(ReplyNote::IndexUtilization, metrics);
    }
    if call.headers.populate_query_advice && paging.continuation.is_none() {
        reply = reply.note(ReplyNote::QueryAdvice, advice(query.request()));
    }
    let plan = page.report.plan.as_ref().map(|plan| percent(&plan.to_value().to_json()));
    Ok(Some(reply.note_if(ReplyNote::Plan, plan)))
}

fn percent(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A time in milliseconds, in hundredths begun: what took time does not show as none.
fn hundredths_ms(time: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a page takes seconds")]
    let hundredths = time.as_nanos().div_ceil(10_000) as f64;
    hundredths / 100.0
}

/// What a page took, as the service lists it. Functions are not measured separately.
fn query_metrics(page: &QueryPage, compiled: Duration, written: Duration) -> String {
    let report = &page.report;
    let output: usize = page.rows.iter().map(String::len).sum();
    let run_ms = hundredths_ms(Duration::from_micros(report.time_us));
    let (compile_ms, write_ms) = (hundredths_ms(compiled), hundredths_ms(written));
    let total_ms = compile_ms + run_ms + write_ms;
    let times = &report.times;
    let [bind_ms, open_ms, plan_ms, index_ms, load_ms] =
        [times.bind, times.open, times.plan, times.index, times.load].map(hundredths_ms);
    #[expect(clippy::cast_precision_loss, reason = "pages are small")]
    let ratio = match report.items {
        0 => 1.0,
        items => (page.rows.len() as f64 / items as f64).min(1.0),
    };
    format!(
        "totalExecutionTimeInMs={total_ms:.2};queryCompileTimeInMs={compile_ms:.2};\
         queryLogicalPlanBuildTimeInMs={bind_ms:.2};\
         queryPhysicalPlanBuildTimeInMs={open_ms:.2};queryOptimizationTimeInMs={plan_ms:.2};\
         VMExecutionTimeInMs={run_ms:.2};\
         indexLookupTimeInMs={index_ms:.2};instructionCount={steps};\
         documentLoadTimeInMs={load_ms:.2};\
         systemFunctionExecuteTimeInMs=0.00;userFunctionExecuteTimeInMs=0.00;\
         retrievedDocumentCount={items};retrievedDocumentSize={bytes};\
         outputDocumentCount={rows};outputDocumentSize={output};writeOutputTimeInMs={write_ms:.2};\
         indexUtilizationRatio={ratio:.2}",
        steps = report.steps,
        items = report.items,
        bytes = report.items_bytes,
        rows = page.rows.len(),
    )
}

/// Which indexes the query used, and which it could use if they were there.
fn index_metrics(report: &QueryReport) -> String {
    let object = |pairs: [(&str, Value); 5]| {
        let mut object = Object::new();
        for (name, value) in pairs {
            object.set(name, value);
        }
        Value::object(object)
    };
    let list = |indexed: bool| {
        let paths = report.paths.iter().filter(|path| path.is_indexed == indexed);
        let entry = |path: &PlanPath| {
            object([
                ("FilterExpression", "".into()),
                ("IndexSpec", path.index_spec().into()),
                ("FilterPreciseSet", path.is_exact.into()),
                ("IndexPreciseSet", path.is_exact.into()),
                ("IndexImpactScore", "High".into()),
            ])
        };
        Value::array(paths.map(entry).collect())
    };
    let mut metrics = Object::new();
    metrics.set("UtilizedSingleIndexes", list(true));
    metrics.set("PotentialSingleIndexes", list(false));
    let composite = report.composite.iter().map(|specs| {
        let mut entry = Object::new();
        let specs = specs.iter().map(|spec| spec.as_str().into()).collect();
        entry.set("IndexSpecs", Value::array(specs));
        entry.set("IndexPreciseSet", true.into());
        entry.set("IndexImpactScore", "High".into());
        Value::object(entry)
    });
    metrics.set("UtilizedCompositeIndexes", Value::array(composite.collect()));
    metrics.set("PotentialCompositeIndexes", Value::array(vec![]));
    base64::engine::general_purpose::STANDARD.encode(Value::object(metrics).to_json())
}

/// The same in their second form: the indexes alone.
fn index_metrics_v2(report: &QueryReport) -> String {
    let object = |name: &str, value: Value| {
        let mut object = Object::new();
        object.set(name, value);
        Value::object(object)
    };
    let lists = |single: Vec<Value>, composite: Vec<Value>| {
        let mut lists = Object::new();
        lists.set("SingleIndexes", Value::array(single));
        lists.set("CompositeIndexes", Value::array(composite));
        Value::object(lists)
    };
    let single = |indexed: bool| {
        let paths = report.paths.iter().filter(|path| path.is_indexed == indexed);
        paths.map(|path| object("IndexSpec", path.index_spec().into())).collect()
    };
    let composite = report.composite.iter().map(|specs| {
        let specs = specs.iter().map(|spec| spec.as_str().into()).collect();
        object("IndexSpecs", Value::array(specs))
    });
    let mut metrics = Object::new();
    metrics.set("UtilizedIndexes", lists(single(true), composite.collect()));
    metrics.set("PotentialIndexes", lists(single(false), vec![]));
    percent(&Value::object(metrics).to_json())
}

/// Advice on how the query is written.
fn advice(request: &QueryRequest) -> String {
    let entry = |rule: &str| {
        let mut object = Object::new();
        object.set("Id", rule.into());
        object.set("Params", Value::array(vec![]));
        Value::object(object)
    };
    let list = request.query().advice().into_iter().map(entry).collect();
    percent(&Value::array(list).to_json())
}

/// The plan for clients that merge over physical partitions themselves.
pub(crate) fn plan(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let container = call.container(at)?;
    let request = QueryRequest::parse(call.json()?)?;
    let scope = scope(call, container)?;
    let features = &call.headers.supported_query_features;
    let plan = call.engine().queries().query_plan_for(container, &scope, &request, features)?;
    Ok(Reply::json(StatusCode::OK, plan).charge(charge::catalog_read()).of_container())
}

/// A page of a query over resources of the catalog.
pub(crate) fn resources(call: &Call, rid: &str, list: &str, bodies: Vec<Value>) -> Result<Reply> {
    let request = QueryRequest::parse(call.json()?)?;
    let size = PageSize::from_header(call.headers.max_item_count)?;
    let (owner, token) = (format!("query {list} {rid}"), call.headers.continuation.as_deref());
    let (rows, continuation) =
        call.engine().queries().query_values(bodies, &request, size, &owner, token)?;
    Ok(resources::values(rid, list, &rows)
        .continuation(continuation)
        .charge(charge::catalog_query()))
}
