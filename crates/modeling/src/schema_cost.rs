//! An upper bound on the work of evaluating a JSON Schema, computed from the schema before it is
//! compiled. The bound is the number of schema evaluations that one value of an item can take, by
//! the depth at which the value stands: references are followed, so a schema whose definitions
//! double at each step is counted as what it unfolds to. What is reached through `properties` counts
//! once, for the heaviest of them, because a value has one name.

use std::collections::HashMap;

use orrery_types::{Value, limits};

/// The bound for each depth of an item.
#[derive(Debug)]
pub(crate) struct SchemaCost {
    visits: Vec<u64>,
    /// Whether a failure may be composed of failures of several branches.
    pub(crate) branches: bool,
}

/// A schema with the schemas that it applies: to the same value, or to values within it.
#[derive(Default)]
struct Node {
    own: u64,
    /// To the same value, and how often.
    same: Vec<(usize, u64)>,
    /// To a member or an element, at most one of each list.
    one_of: Vec<Vec<usize>>,
    /// To every member or element, and how often.
    every: Vec<(usize, u64)>,
    /// Patterns that the name of every member is compared with.
    names: u64,
}

/// Keywords whose value is a list of schemas for the same value.
const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords whose value is one schema for the same value.
const SINGLE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords whose value is a map of schemas for the same value.
const MAPS: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords whose value is a schema for every member or element.
const EVERY: [&str; 5] =
    ["additionalProperties", "propertyNames", "items", "additionalItems", "contains"];
/// The same, for what no other keyword has looked at.
const REST: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];
/// Schemas that apply to one value, one within another.
const NESTING_MAX: usize = 64;
/// Bytes of a string or a name that count as one more value.
const BYTES_PER_STEP: usize = 32;
/// Characters of a pattern that count as one more evaluation.
const CHARS_PER_STEP: usize = 8;

impl SchemaCost {
    /// The bound for a schema; the error says why there is none, or why it is too high.
    pub(crate) fn of(schema: &Value) -> Result<Self, String> {
        let mut graph = Graph::new(schema);
        graph.reach(schema)?;
        let order = graph.order()?;
        let mut visits = Vec::with_capacity(limits::NESTING_DEPTH_MAX + 1);
        let mut level: Vec<u64> = Vec::new();
        for depth in 0..=limits::NESTING_DEPTH_MAX {
            level = graph.level(&order, depth, &level);
            let most = level.first().copied().unwrap_or(0);
            if most > limits::MODEL_SCHEMA_VISITS_MAX {
                return Err(format!(
                    "one value at depth {depth} of an item may take more than {} evaluations of \
                     schemas; nest 'anyOf', 'oneOf', 'not' and 'if' less deeply, and refer to a \
                     definition from fewer branches",
                    limits::MODEL_SCHEMA_VISITS_MAX
                ));
            }
            visits.push(most);
        }
        let branches = graph.nodes.iter().any(|node| node.same.iter().any(|(_, n)| *n > 1));
        Ok(Self { visits, branches })
    }

    /// The most evaluations that an item takes.
    pub(crate) fn steps(&self, item: &Value) -> u64 {
        self.steps_at(item, 0)
    }

    fn steps_at(&self, value: &Value, depth: usize) -> u64 {
        let visits = self.visits.get(depth).copied().unwrap_or(u64::MAX);
        if visits == 0 {
            return 0;
        }
        let size = |text: &str| 1 + (text.len() / BYTES_PER_STEP) as u64;
        match value {
            Value::String(text) => visits.saturating_mul(size(text)),
            Value::Array(elements) => elements
                .iter()
                .fold(visits, |sum, element| sum.saturating_add(self.steps_at(element, depth + 1))),
            Value::Object(object) => object.iter().fold(visits, |sum, (name, member)| {
                let below = self.steps_at(member, depth + 1);
                sum.saturating_add(below.saturating_mul(size(name)))
            }),
            Value::Undefined | Value::Null | Value::Bool(_) | Value::Number(_) => visits,
        }
    }
}

/// The schemas of a document that are reached from its root, by their addresses in memory.
struct Graph<'s> {
    root: &'s Value,
    known: HashMap<*const Value, usize>,
    found: Vec<&'s Value>,
    nodes: Vec<Node>,
    /// How often a branch is evaluated: once for the verdict and once for the failures, and once
    /// more where it must be known which members it has looked at.
    branch: u64,
    plain: u64,
}

impl<'s> Graph<'s> {
    fn new(root: &'s Value) -> Self {
        let (mut pending, mut rest) = (vec![root], false);
        while let Some(value) = pending.pop() {
            rest |= REST.iter().any(|name| !value.get(name).is_undefined());
            pending.extend(members(value).map(|(_, member)| member));
            pending.extend(value.as_array().unwrap_or_default());
        }
        let (branch, plain) = if rest { (3, 3) } else { (2, 1) };
        let (known, found, nodes) = (HashMap::new(), vec![], vec![]);
        Self { root, known, found, nodes, branch, plain }
    }

    /// The number of a schema.
    fn number(&mut self, schema: &'s Value) -> usize {
        let next = self.found.len();
        let number = *self.known.entry(std::ptr::from_ref(schema)).or_insert(next);
        if number == next {
            self.found.push(schema);
        }
        number
    }

    /// Finds everything that a schema applies.
    fn reach(&mut self, schema: &'s Value) -> Result<(), String> {
        self.number(schema);
        while let Some(schema) = self.found.get(self.nodes.len()).copied() {
            let node = self.node(schema)?;
            self.nodes.push(node);
            if self.found.len() > limits::MODEL_SCHEMA_NODES_MAX {
                let max = limits::MODEL_SCHEMA_NODES_MAX;
                return Err(format!("it has more than {max} schemas"));
            }
        }
        Ok(())
    }

    fn node(&mut self, schema: &'s Value) -> Result<Node, String> {
        let mut node = Node { own: own_work(schema), ..Node::default() };
        if schema.as_object().is_none() {
            return Ok(node);
        }
        if ["$dynamicRef", "$recursiveRef"].iter().any(|name| !schema.get(name).is_undefined()) {
            return Err("'$dynamicRef' and '$recursiveRef' are not supported; use '$ref'".into());
        }
        if !std::ptr::eq(schema, self.root) && !schema.get("$id").is_undefined() {
            return Err(NESTED_ID.into());
        }
        if let Some(reference) = schema.get("$ref").as_str() {
            let target = resolve(self.root, reference)?;
            node.same.push((self.number(target), self.plain));
        }
        self.same_value(schema, &mut node);
        self.within(schema, &mut node);
        Ok(node)
    }

    fn same_value(&mut self, schema: &'s Value, node: &mut Node) {
        let weight = |name: &str, graph: &Self| match name {
            "allOf" | "then" | "else" => graph.plain,
            _ => graph.branch,
        };
        for name in LISTS {
            for schema in schema.get(name).as_array().unwrap_or_default() {
                node.same.push((self.number(schema), weight(name, self)));
            }
        }
        for name in SINGLE {
            if !schema.get(name).is_undefined() {
                node.same.push((self.number(schema.get(name)), weight(name, self)));
            }
        }
        for (_, schema) in MAPS.iter().flat_map(|name| members(schema.get(name))) {
            // A list of names is no schema; it is compared with the members.
            node.own = node.own.saturating_add(size(schema));
            node.same.push((self.number(schema), self.branch));
        }
    }

    fn within(&mut self, schema: &'s Value, node: &mut Node) {
        let properties = members(schema.get("properties"));
        let properties = properties.map(|(_, schema)| self.number(schema)).collect();
        let mut lists = vec![properties];
        for name in ["prefixItems", "items"] {
            let list = schema.get(name).as_array().unwrap_or_default();
            lists.push(list.iter().map(|schema| self.number(schema)).collect());
        }
        node.one_of = lists;
        for (pattern, schema) in members(schema.get("patternProperties")) {
            node.names = node.names.saturating_add(pattern_work(pattern));
            node.every.push((self.number(schema), self.plain));
        }
        for name in EVERY.into_iter().chain(REST) {
            let schema = schema.get(name);
            if !schema.is_undefined() && schema.as_array().is_none() {
                let times = if name == "contains" { self.branch } else { self.plain };
                node.every.push((self.number(schema), times));
            }
        }
    }

    /// All schemas, each behind those that it applies to the same value.
    fn order(&self) -> Result<Vec<usize>, String> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut state = vec![State::New; self.nodes.len()];
        for start in 0..self.nodes.len() {
            // The way to the schema at hand, and which of those that it applies is next.
            let mut way = vec![(start, 0)];
            while let Some((at, next)) = way.pop() {
                if next == 0 {
                    match state[at] {
                        State::Done => continue,
                        State::Open => {
                            return Err(
                                "a '$ref' leads back to itself for the same value, so that \
                                        evaluating it would not end"
                                    .into(),
                            );
                        }
                        State::New => state[at] = State::Open,
                    }
                    if way.len() > NESTING_MAX {
                        return Err(format!(
                            "more than {NESTING_MAX} schemas apply to one value, one within another"
                        ));
                    }
                }
                if let Some((below, _)) = self.nodes[at].same.get(next) {
                    way.push((at, next + 1));
                    way.push((*below, 0));
                } else {
                    state[at] = State::Done;
                    order.push(at);
                }
            }
        }
        Ok(order)
    }

    /// For each schema the evaluations of a value so deep below the one that it applies to; `above`
    /// is the same for one step less.
    fn level(&self, order: &[usize], depth: usize, above: &[u64]) -> Vec<u64> {
        let mut level = vec![0_u64; self.nodes.len()];
        for at in order {
            let node = &self.nodes[*at];
            let mut sum = if depth == 0 { node.own } else { 0 };
            if depth == 1 {
                sum = sum.saturating_add(node.names);
            }
            for (below, times) in &node.same {
                sum = sum.saturating_add(level[*below].saturating_mul(*times));
            }
            if depth > 0 {
                let heaviest =
                    |list: &Vec<usize>| list.iter().map(|below| above[*below]).max().unwrap_or(0);
                sum = node.one_of.iter().fold(sum, |sum, list| sum.saturating_add(heaviest(list)));
                for (below, times) in &node.every {
                    sum = sum.saturating_add(above[*below].saturating_mul(*times));
                }
            }
            level[*at] = sum;
        }
        level
    }
}

/// What a reference leads to, which must be in the same document; the error is for the sender.
pub(crate) fn resolve<'s>(root: &'s Value, reference: &str) -> Result<&'s Value, String> {
    let nowhere = || {
        format!(
            "'$ref' is '{reference}', which leads to nothing within the schema; nothing is fetched, \
             so write '#/$defs/NAME' or '#ANCHOR'"
        )
    };
    let fragment = reference.strip_prefix('#').ok_or_else(nowhere)?;
    if !fragment.is_empty() && !fragment.starts_with('/') {
        return anchored(root, fragment).ok_or_else(nowhere);
    }
    let mut at = root;
    for step in fragment.split('/').skip(1) {
        let step = percent_decoded(step).ok_or_else(nowhere)?;
        let step = step.replace("~1", "/").replace("~0", "~");
        let next = match at {
            Value::Array(elements) => {
                step.parse().ok().and_then(|index: usize| elements.get(index))
            }
            other => other.as_object().and_then(|object| object.get(&step)),
        };
        at = next.ok_or_else(nowhere)?;
        if at.get("$id").as_str().is_some() {
            return Err(NESTED_ID.into());
        }
    }
    Ok(at)
}

fn anchored<'s>(root: &'s Value, anchor: &str) -> Option<&'s Value> {
    let mut pending = vec![root];
    while let Some(value) = pending.pop() {
        if value.get("$anchor").as_str() == Some(anchor) {
            return Some(value);
        }
        pending.extend(members(value).map(|(_, member)| member));
        pending.extend(value.as_array().unwrap_or_default());
    }
    None
}

const NESTED_ID: &str = "'$id' may stand at the root of a schema alone";

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let object = value.as_object();
    object.into_iter().flat_map(|object| object.iter().map(|(name, value)| (&**name, value)))
}

/// What a schema does with a value by itself.
fn own_work(schema: &Value) -> u64 {
    let lists = ["enum", "const", "required", "dependentRequired"];
    let lists = lists.iter().map(|name| size(schema.get(name)));
    let pattern = schema.get("pattern").as_str().map_or(0, pattern_work);
    let properties = members(schema.get("properties")).count() as u64;
    lists.fold(1 + pattern + properties, u64::saturating_add)
}

fn pattern_work(pattern: &str) -> u64 {
    1 + (pattern.len() / CHARS_PER_STEP) as u64
}

/// Values in a value.
fn size(value: &Value) -> u64 {
    match value {
        Value::Undefined => 0,
        Value::Array(elements) => elements.iter().map(size).fold(1, u64::saturating_add),
        Value::Object(object) => {
            object.iter().map(|(_, member)| size(member)).fold(1, u64::saturating_add)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = rest.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
