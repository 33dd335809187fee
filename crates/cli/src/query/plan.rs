//! A plan for people: the tree with what was expected of each node and what it took, all pages of
//! the query together.

use orrery_types::Value;
use std::fmt::Write as _;

use crate::table::{self, Table};

/// What a node tells beside its text, by the names of the server, and the heads of the columns.
const COLUMNS: [(&str, &str); 4] = [
    ("estimatedRows", "estimated rows"),
    ("rows", "real rows"),
    ("entriesRead", "index entries"),
    ("itemsLoaded", "items loaded"),
];

/// One node, with the sums over pages.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    text: String,
    numbers: [Option<u64>; COLUMNS.len()],
    inputs: Vec<Node>,
}

/// The plans of a query's pages. Pages that went the same way are one tree.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    trees: Vec<(Node, u64)>,
}

impl Plans {
    /// Adds the plan of one page.
    pub(crate) fn add(&mut self, plan: &Value) {
        let node = Node::read(plan);
        match self.trees.iter_mut().find(|(known, _)| known.same_way(&node)) {
            Some((known, pages)) => {
                known.add(&node);
                *pages += 1;
            }
            None => self.trees.push((node, 1)),
        }
    }

    /// The trees as a table.
    pub(crate) fn to_text(&self, width: usize) -> String {
        let mut text = String::new();
        for (tree, pages) in &self.trees {
            if self.trees.len() > 1 {
                let plural = if *pages == 1 { "" } else { "s" };
                let gap = if text.is_empty() { "" } else { "\n" };
                let _ = writeln!(text, "{gap}{pages} page{plural}:");
            }
            let mut table = Table::new(["plan"].into_iter().chain(COLUMNS.map(|(_, head)| head)));
            tree.rows("", "", &mut table);
            text += &table.to_text(width);
        }
        text
    }

    /// The trees as JSON.
    pub(crate) fn to_value(&self) -> Value {
        Value::array(self.trees.iter().map(|(tree, _)| tree.to_value()).collect())
    }
}

impl Node {
    fn read(plan: &Value) -> Self {
        let number = |name| plan.get(name).as_i64().and_then(|n| u64::try_from(n).ok());
        let inputs = plan.get("inputs").as_array().unwrap_or_default();
        Self {
            text: plan.get("node").as_str().unwrap_or("?").to_owned(),
            numbers: COLUMNS.map(|(name, _)| number(name)),
            inputs: inputs.iter().map(Self::read).collect(),
        }
    }

    fn same_way(&self, other: &Self) -> bool {
        self.text == other.text
            && self.inputs.len() == other.inputs.len()
            && self.inputs.iter().zip(&other.inputs).all(|(a, b)| a.same_way(b))
    }

    /// What was expected is said of the whole query and does not add up; what it took does.
    fn add(&mut self, other: &Self) {
        for (own, more) in self.numbers.iter_mut().zip(other.numbers).skip(1) {
            *own = match (*own, more) {
                (Some(own), Some(more)) => Some(own + more),
                (own, more) => own.or(more),
            };
        }
        for (own, more) in self.inputs.iter_mut().zip(&other.inputs) {
            own.add(more);
        }
    }

    fn rows(&self, branch: &str, below: &str, table: &mut Table) {
        let numbers = self.numbers.map(|number| number.map_or(String::new(), table::count));
        table.row([format!("{branch}{}", self.text)].into_iter().chain(numbers));
        for (at, input) in self.inputs.iter().enumerate() {
            let last = at + 1 == self.inputs.len();
            let branch = format!("{below}{}", if last { "└─ " } else { "├─ " });
            let below = format!("{below}{}", if last { "   " } else { "│  " });
            input.rows(&branch, &below, table);
        }
    }

    fn to_value(&self) -> Value {
        let mut object = orrery_types::Object::new();
        object.set("node", self.text.as_str().into());
        for ((name, _), number) in COLUMNS.iter().zip(self.numbers) {
            if let Some(number) = number {
                object.set(name, i64::try_from(number).unwrap_or(i64::MAX).into());
            }
        }
        if !self.inputs.is_empty() {
            object.set("inputs", Value::array(self.inputs.iter().map(Self::to_value).collect()));
        }
        Value::object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = r#"{"node":"Filter","estimatedRows":9,"rows":5,"inputs":[
        {"node":"Intersect","estimatedRows":12,"entriesRead":40,"itemsLoaded":7,"inputs":[
            {"node":"IndexSeek /a = 1","estimatedRows":20},{"node":"IndexSeek /b = 2"}]}]}"#;

    fn plan(text: &str) -> Value {
        Value::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_plan_is_drawn_as_a_tree_and_pages_add_up() {
        let mut plans = Plans::default();
        plans.add(&plan(FIRST));
        plans.add(&plan(&FIRST.replace("\"rows\":5", "\"rows\":1200")));
        let lines: Vec<String> = plans.to_text(100).lines().skip(2).map(str::to_owned).collect();
        let expected = [
            "Filter                               9      1,205",
            "└─ Intersect                        12                        80            14",
            "   ├─ IndexSeek /a = 1              20",
            "   └─ IndexSeek /b = 2",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn pages_that_went_another_way_are_shown_apart() {
        let mut plans = Plans::default();
        plans.add(&plan(r#"{"node":"ContainerScan","rows":3}"#));
        plans.add(&plan(r#"{"node":"RowScan","rows":4}"#));
        let text = plans.to_text(100);
        assert!(text.starts_with("1 page:\n") && text.contains("\n\n1 page:\n"), "{text}");
        assert_eq!(plans.to_value().as_array().map(<[Value]>::len), Some(2));
    }
}
