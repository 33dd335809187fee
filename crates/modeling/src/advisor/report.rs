//! The report: the window that was looked at, types and links that were inferred, findings, and what
//! there was too little data for.

use orrery_types::{Object, Value};

use super::finding::{Finding, count, object};
use super::links::{self, Link};
use super::tree::KINDS;
use super::{Advisor, ITEMS_MIN, TypeStats, arrays, drift};
use crate::document::Model;

/// What was looked at.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Window {
    pub items: u64,
    /// Later versions of items that had come before.
    pub versions: u64,
    /// The first and the last `_ts`, if the items have one.
    pub from_s: Option<i64>,
    pub to_s: Option<i64>,
}

/// A type as the data shows it.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct InferredType {
    pub name: Box<str>,
    pub container: Box<str>,
    pub items: u64,
    /// Top-level paths with their usual JSON type.
    pub paths: Vec<(Box<str>, &'static str)>,
}

/// A reference as the data shows it.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct InferredLink {
    pub from: Box<str>,
    pub path: Box<str>,
    pub to: Box<str>,
    /// Share of the values that lead somewhere.
    pub rate: f64,
    pub declared: bool,
}

/// Everything the advisor has to say.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Report {
    pub window: Window,
    pub types: Vec<InferredType>,
    pub links: Vec<InferredLink>,
    pub findings: Vec<Finding>,
    pub too_little_data: Vec<String>,
}

pub(crate) fn make(advisor: &Advisor, model: Option<&Model>) -> Report {
    let links = links::find(advisor, model);
    let (mut findings, mut lacking) = (vec![], vec![]);
    let moved: Vec<&Link> =
        links.iter().filter(|link| links::is_wrong_side(advisor, &links, link)).collect();
    for (index, stats) in advisor.stats.iter().enumerate() {
        if stats.items < ITEMS_MIN {
            lacking.push(format!(
                "'{}' has {} items; fewer than {ITEMS_MIN} say nothing about their type",
                stats.name, stats.items
            ));
        }
        if stats.tree.overflowed {
            lacking.push(format!(
                "'{}' has more paths than are looked at; names that are keys should be values",
                stats.name
            ));
        }
        let own: Vec<&Link> = moved.iter().filter(|link| link.from == index).copied().collect();
        arrays::unbounded(stats, &own, &mut findings, &mut lacking);
        arrays::size(stats, &mut findings);
        arrays::duplicates(stats, &mut findings);
        findings.extend(links::join(advisor, &links, index));
        links::array_counters(stats, &mut findings);
        drift::find(stats, &mut findings);
    }
    findings.extend(moved.iter().filter_map(|link| links::wrong_side(advisor, link)));
    findings.extend(links.iter().filter_map(|link| links::weak(advisor, link)));
    links::counters(advisor, &links, &mut findings);
    findings.sort_by(|a, b| {
        (b.severity, a.rule, &a.item_type, &a.path).cmp(&(
            a.severity,
            b.rule,
            &b.item_type,
            &b.path,
        ))
    });
    let seen = |s: i64| (s != i64::MAX && s != i64::MIN).then_some(s);
    Report {
        window: Window {
            items: advisor.items,
            versions: advisor.versions,
            from_s: seen(advisor.first_s),
            to_s: seen(advisor.last_s),
        },
        types: advisor.stats.iter().map(inferred_type).collect(),
        links: links.iter().map(|link| inferred_link(advisor, link)).collect(),
        findings,
        too_little_data: lacking,
    }
}

fn inferred_type(stats: &TypeStats) -> InferredType {
    let top = stats.tree.nodes.iter().filter(|node| node.path.steps().len() == 1);
    let paths = top.map(|node| {
        let usual = (0..KINDS.len()).max_by_key(|kind| node.kinds[*kind]).unwrap_or(0);
        (node.path.to_string().into(), KINDS[usual])
    });
    InferredType {
        name: stats.name.clone(),
        container: stats.container.clone(),
        items: stats.items,
        paths: paths.collect(),
    }
}

fn inferred_link(advisor: &Advisor, link: &Link) -> InferredLink {
    let (from, to) = (&advisor.stats[link.from], &advisor.stats[link.to]);
    InferredLink {
        from: from.name.clone(),
        path: from.tree.nodes[link.node].path.to_string().into(),
        to: to.name.clone(),
        rate: link.rate(),
        declared: link.declared,
    }
}

/// The `types` of a patch: one type, with more properties if need be.
pub(crate) fn type_patch(stats: &TypeStats, more: Vec<(&str, Value)>) -> Value {
    let filter = stats.filter.as_deref().map_or(Value::Undefined, Value::from);
    let own = [("container", Value::from(&*stats.container)), ("where", filter)];
    let own = object(own.into_iter().chain(more));
    let mut types = Object::new();
    types.set(&stats.name, own);
    Value::object(types)
}

impl Window {
    fn to_value(self) -> Value {
        let time = |s: Option<i64>| s.map_or(Value::Undefined, Value::from);
        object([
            ("items", count(self.items)),
            ("versions", count(self.versions)),
            ("from", time(self.from_s)),
            ("to", time(self.to_s)),
        ])
    }
}

impl Report {
    /// As JSON. Every finding carries the window too, so that it can be passed on by itself.
    pub fn to_value(&self) -> Value {
        let window = self.window.to_value();
        let findings = self.findings.iter().map(|finding| {
            let mut value = finding.to_value();
            if let Some(object) = value.as_object_mut() {
                object.set("window", window.clone());
            }
            value
        });
        let types = self.types.iter().map(|t| {
            let paths = t.paths.iter().map(|(path, kind)| (&**path, Value::from(*kind)));
            object([
                ("name", (&*t.name).into()),
                ("container", (&*t.container).into()),
                ("items", count(t.items)),
                ("paths", object(paths)),
            ])
        });
        let links = self.links.iter().map(|l| {
            object([
                ("from", (&*l.from).into()),
                ("path", (&*l.path).into()),
                ("to", (&*l.to).into()),
                ("matchRate", l.rate.into()),
                ("declared", l.declared.into()),
            ])
        });
        let lacking = self.too_little_data.iter().map(|text| text.as_str().into());
        object([
            ("window", window.clone()),
            ("types", Value::array(types.collect())),
            ("links", Value::array(links.collect())),
            ("findings", Value::array(findings.collect())),
            ("tooLittleData", Value::array(lacking.collect())),
        ])
    }
}
