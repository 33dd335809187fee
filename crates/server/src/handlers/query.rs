//! Queries over HTTP: of items, of the catalog's feeds, and the plans that SDKs ask for.

use base64::Engine as _;
use http::StatusCode;
use orrery_engine::charge;
use orrery_engine::feed::PageSize;
use orrery_engine::query::{Paging, PlanPath, QueryPage, QueryRequest, Report};
use orrery_types::{Error, Object, Result, Value};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::item::{range_of, scope};
use crate::api::Call;
use crate::headers::{self, IndexMetrics};
use crate::link::ContainerAddress;
use crate::reply::Reply;
use crate::wire;

/// A page of a query over items, answered whole: every clause is computed here, unless the client
/// merges partitions itself.
pub(crate) fn items(call: &Call, at: &ContainerAddress) -> Result<Reply> {
    let page = items_page(call, at, false)?;
    page.ok_or_else(|| Error::internal("a query was not answered"))
}

/// The same if it takes next to nothing; `None` if it takes more, or may.
pub(crate) fn items_if_cheap(call: &Call, at: &ContainerAddress) -> Result<Option<Reply>> {
    items_page(call, at, true)
}

fn items_page(call: &Call, at: &ContainerAddress, if_cheap: bool) -> Result<Option<Reply>> {
    let container = call.container(at)?;
    let request = QueryRequest::parse(&call.json()?)?;
    if call.shared.statistics.is_on() {
        call.set_shape(request.shape());
    }
    let scope = scope(call, container)?;
    let size = PageSize::from_header(call.headers.max_item_count)?;
    let paging = Paging {
        continuation: call.headers.continuation.as_deref(),
        crosses: call.headers.enable_cross_partition,
        merges: call.headers.names_capabilities,
        explains: call.headers.explain,
        if_cheap,
        expand: call.headers.model_expand.as_deref(),
        reach: super::grant::reach(call),
        left: call.left.as_deref(),
        ..Paging::default()
    };
    let page = call.engine().try_query_items(container, &scope, &request, size, &paging)?;
    let Some(page) = page else { return Ok(None) };
    let session = Some(&*page.session_token).filter(|t| !t.is_empty());
    let mut reply = wire::texts_of(container.rid_text(), "Documents", &page.rows)
        .header_if(headers::CONTINUATION, page.continuation.as_deref())
        .header_if(headers::SESSION_TOKEN, session)
        .header_if(headers::PARTITION_KEY_RANGE_ID, session.and_then(range_of))
        .header(headers::REQUIRES_DISTRIBUTION, "False")
        .charge(call.read_charge(page.charge))
        .container(container);
    if call.headers.populate_query_metrics {
        reply = reply.header(headers::QUERY_METRICS, &query_metrics(&page));
    }
    if let Some(form) = call.headers.populate_index_metrics {
        reply = reply.header(headers::INDEX_UTILIZATION, &index_metrics(&page.report, form));
    }
    if call.headers.populate_query_advice && paging.continuation.is_none() {
        reply = reply.header(headers::QUERY_ADVICE, &advice(&request));
    }
    let plan = page.report.plan.as_ref().map(|plan| percent(&plan.to_value().to_json()));
    Ok(Some(reply.header_if(headers::PLAN, plan.as_deref())))
}

fn percent(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// What a page took, as the service lists it. Times within the whole are not told apart.
fn query_metrics(page: &QueryPage) -> String {
    let report = &page.report;
    let output: usize = page.rows.iter().map(String::len).sum();
    #[expect(clippy::cast_precision_loss, reason = "a page takes seconds")]
    let total_ms = report.time_us as f64 / 1000.0;
    #[expect(clippy::cast_precision_loss, reason = "pages are small")]
    let ratio = match report.items {
        0 => 1.0,
        items => (page.rows.len() as f64 / items as f64).min(1.0),
    };
    format!(
        "totalExecutionTimeInMs={total_ms:.2};queryCompileTimeInMs=0.00;\
         queryLogicalPlanBuildTimeInMs=0.00;queryPhysicalPlanBuildTimeInMs=0.00;\
         queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs={total_ms:.2};\
         indexLookupTimeInMs=0.00;instructionCount={steps};documentLoadTimeInMs=0.00;\
         systemFunctionExecuteTimeInMs=0.00;userFunctionExecuteTimeInMs=0.00;\
         retrievedDocumentCount={items};retrievedDocumentSize={bytes};\
         outputDocumentCount={rows};outputDocumentSize={output};writeOutputTimeInMs=0.00;\
         indexUtilizationRatio={ratio:.2}",
        steps = report.steps,
        items = report.items,
        bytes = report.items_bytes,
        rows = page.rows.len(),
    )
}

/// Which indexes the query used, and which it could use if they were there.
fn index_metrics(report: &Report, form: IndexMetrics) -> String {
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
    let text = Value::object(metrics).to_json();
    match form {
        IndexMetrics::Base64 => base64::engine::general_purpose::STANDARD.encode(text),
        IndexMetrics::Percent => percent(&text),
    }
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
    let request = QueryRequest::parse(&call.json()?)?;
    let scope = scope(call, container)?;
    let features = &call.headers.supported_query_features;
    let plan = call.engine().query_plan_for(container, &scope, &request, features)?;
    Ok(Reply::json(StatusCode::OK, plan).charge(charge::catalog_read()).container(container))
}

/// A query over resources of the catalog, whole.
pub(crate) fn resources(call: &Call, rid: &str, list: &str, bodies: Vec<Value>) -> Result<Reply> {
    let request = QueryRequest::parse(&call.json()?)?;
    let rows = call.engine().query_values(bodies, &request)?;
    Ok(wire::values(rid, list, &rows).charge(charge::catalog_query()))
}
