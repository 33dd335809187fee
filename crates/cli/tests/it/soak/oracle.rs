//! What a logical partition holds and what each operation on it must answer, computed in memory without
//! any code of the server.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::connection::own;

/// The items of a logical partition by id.
pub(super) type Items = BTreeMap<String, Stored>;

/// An item as it must be stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stored {
    pub(super) body: Value,
    /// Empty until it is known.
    pub(super) etag: String,
    pub(super) rid: String,
}

/// A change of one property.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    Set(&'static str, Value),
    Increment(&'static str, i64),
    Append(&'static str, Value),
}

impl Edit {
    fn apply(&self, body: &mut Value) {
        match self {
            Self::Set(name, value) => body[*name] = value.clone(),
            Self::Increment(name, by) => body[*name] = json!(body[*name].as_i64().unwrap() + by),
            Self::Append(name, value) => body[*name].as_array_mut().unwrap().push(value.clone()),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Set(name, value) => {
                json!({"op": "set", "path": format!("/{name}"), "value": value})
            }
            Self::Increment(name, by) => {
                json!({"op": "incr", "path": format!("/{name}"), "value": by})
            }
            Self::Append(name, value) => {
                json!({"op": "add", "path": format!("/{name}/-"), "value": value})
            }
        }
    }
}

/// What is done to an item.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Create(Value),
    Upsert(Value),
    Replace(Value),
    Patch(Vec<Edit>),
    Delete,
    Read,
}

/// An operation on one item, under an etag if one is given.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) action: Action,
    pub(super) if_match: Option<String>,
}

impl Operation {
    /// The name under which it is counted.
    pub(super) fn kind(&self) -> &'static str {
        match self.action {
            Action::Create(_) => "create",
            Action::Upsert(_) => "upsert",
            Action::Replace(_) => "replace",
            Action::Patch(_) => "patch",
            Action::Delete => "delete",
            Action::Read => "read",
        }
    }

    /// Applies it, and gives the status that must be answered; nothing is changed if that is a refusal.
    pub(super) fn apply(&self, items: &mut Items) -> u16 {
        let before = items.get(&self.id).cloned();
        match (&self.action, before) {
            (Action::Create(_), Some(_)) => 409,
            (Action::Create(body) | Action::Upsert(body), None) => {
                self.put(items, None, body.clone(), 201)
            }
            (_, None) => 404,
            (_, Some(before))
                if self.if_match.as_ref().is_some_and(|etag| *etag != before.etag) =>
            {
                412
            }
            (Action::Read, Some(_)) => 200,
            (Action::Upsert(body) | Action::Replace(body), Some(before)) => {
                self.put(items, Some(before), body.clone(), 200)
            }
            (Action::Patch(edits), Some(before)) => {
                let mut body = before.body.clone();
                for edit in edits {
                    edit.apply(&mut body);
                }
                self.put(items, Some(before), body, 200)
            }
            (Action::Delete, Some(_)) => {
                items.remove(&self.id);
                204
            }
        }
    }

    /// Stores a body unless its unique key belongs to another item.
    fn put(&self, items: &mut Items, before: Option<Stored>, body: Value, done: u16) -> u16 {
        let is_taken =
            |(id, item): (&String, &Stored)| *id != self.id && item.body["u"] == body["u"];
        if items.iter().any(is_taken) {
            return 409;
        }
        let rid = before.map(|before| before.rid).unwrap_or_default();
        items.insert(self.id.clone(), Stored { body, etag: String::new(), rid });
        done
    }

    /// The operation within a batch.
    pub(super) fn to_batch(&self) -> Value {
        let (name, body) = match &self.action {
            Action::Create(body) => ("Create", Some(body.clone())),
            Action::Upsert(body) => ("Upsert", Some(body.clone())),
            Action::Replace(body) => ("Replace", Some(body.clone())),
            Action::Patch(_) => ("Patch", Some(self.patch_body())),
            Action::Delete => ("Delete", None),
            Action::Read => ("Read", None),
        };
        let mut operation = json!({"operationType": name});
        if !matches!(self.action, Action::Create(_) | Action::Upsert(_)) {
            operation["id"] = json!(self.id);
        }
        if let Some(body) = body {
            operation["resourceBody"] = body;
        }
        if let Some(etag) = &self.if_match {
            operation["ifMatch"] = json!(etag);
        }
        operation
    }

    pub(super) fn patch_body(&self) -> Value {
        let Action::Patch(edits) = &self.action else { return Value::Null };
        json!({"operations": edits.iter().map(Edit::to_json).collect::<Vec<_>>()})
    }
}

/// Applies the operations of a transactional batch. Gives the status of each; if one is refused, the others
/// get 424 and nothing is changed.
pub(super) fn apply_batch(operations: &[Operation], items: &mut Items) -> Vec<u16> {
    let mut after = items.clone();
    let mut statuses = Vec::new();
    for operation in operations {
        let status = operation.apply(&mut after);
        if status >= 400 {
            let refused = statuses.len();
            let of = |n: usize| if n == refused { status } else { 424 };
            return (0..operations.len()).map(of).collect();
        }
        statuses.push(status);
    }
    *items = after;
    statuses
}

impl Stored {
    /// Takes over what an answer says, which must be this item.
    pub(super) fn answered(&mut self, item: &Value) {
        assert_eq!(own(item), self.body, "an item differs from what was written");
        let text = |name: &str| item[name].as_str().unwrap().to_owned();
        let rid = text("_rid");
        assert!(self.rid.is_empty() || self.rid == rid, "another _rid: {item}, known {self:?}");
        (self.etag, self.rid) = (text("_etag"), rid);
    }
}

#[test]
fn the_oracle_refuses_what_the_protocol_refuses() {
    let body = |u: &str| json!({"id": "a", "u": u, "c": 1, "list": []});
    let operation = |id: &str, action| Operation { id: id.to_owned(), action, if_match: None };
    let mut items = Items::new();
    assert_eq!(operation("a", Action::Replace(body("x"))).apply(&mut items), 404);
    assert_eq!(operation("a", Action::Create(body("x"))).apply(&mut items), 201);
    assert_eq!(operation("a", Action::Create(body("y"))).apply(&mut items), 409);
    assert_eq!(operation("b", Action::Upsert(body("x"))).apply(&mut items), 409);
    let stale = Operation { if_match: Some("other".into()), ..operation("a", Action::Delete) };
    assert_eq!(stale.apply(&mut items), 412);
    let edits = vec![Edit::Increment("c", 2), Edit::Append("list", json!(7))];
    assert_eq!(operation("a", Action::Patch(edits)).apply(&mut items), 200);
    assert_eq!(items["a"].body, json!({"id": "a", "u": "x", "c": 3, "list": [7]}));
    let before = items.clone();
    let batch = [operation("a", Action::Delete), operation("a", Action::Read), stale];
    assert_eq!(apply_batch(&batch, &mut items), [424, 404, 424]);
    assert_eq!(items, before);
}
