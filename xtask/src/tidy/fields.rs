//! Fields of the transaction core: what other modules see of it they may read, but only the file that
//! defines a field assigns to it.

use super::File;
use regex::Regex;
use std::sync::LazyLock;

const CORE: &str = "crates/engine/src/transaction/";

static FIELD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^    pub\((?:crate|super)\) (\w+):").expect("the pattern is valid")
});
/// What stands left of an assignment.
static ASSIGNED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s*\(?([\w., ]+)\)? (?:[-+|&*/]|<<|>>)?= ").expect("the pattern is valid")
});
/// The names under which other modules hold a transaction or a part of one.
const HELD_AS: &[&str] = &["tx", "transaction", "entry", "shard", "reads", "writes", "operation"];

pub(super) fn check(files: &[File]) -> Vec<String> {
    let is_core = |file: &&File| file.path.starts_with(CORE) && !file.path.ends_with("tests.rs");
    let mut complaints = Vec::new();
    for core in files.iter().filter(is_core) {
        let fields: Vec<&str> = FIELD
            .captures_iter(&core.text)
            .filter_map(|found| Some(found.get(1)?.as_str()))
            .collect();
        for user in files.iter().filter(|user| user.path != core.path && sees_core(user)) {
            for (number, line) in user.text.lines().enumerate() {
                for field in assigned_fields(line).filter(|field| fields.contains(field)) {
                    complaints.push(format!(
                        "{}:{}: assigns to the field {field} of {}; give it a method",
                        user.path,
                        number + 1,
                        core.path
                    ));
                }
            }
        }
    }
    complaints
}

/// The fields of parts of a transaction that a line assigns to, alone or in a tuple.
fn assigned_fields(line: &str) -> impl Iterator<Item = &str> {
    let left = ASSIGNED.captures(line).and_then(|found| found.get(1)).map_or("", |m| m.as_str());
    left.split(", ").filter_map(|place| {
        let (holder, field) = place.rsplit_once('.')?;
        let holder = holder.rsplit('.').next()?;
        HELD_AS.contains(&holder).then_some(field)
    })
}

fn sees_core(file: &File) -> bool {
    let is_source = file.path.starts_with("crates/engine/src/") && file.extension() == "rs";
    is_source && (file.path.starts_with(CORE) || file.text.contains("transaction::"))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn complaints(user: &str) -> usize {
        let core =
            "//! A.\npub(crate) struct State {\n    pub(crate) view: View,\n    lsn: Lsn,\n}\n";
        let core = file("crates/engine/src/transaction/state.rs", core);
        let text = format!("//! A.\nuse crate::transaction::state::State;\n{user}\n");
        check(&[core, file("crates/engine/src/model/rules.rs", &text)]).len()
    }

    #[test]
    fn a_field_of_the_core_is_assigned_in_its_own_file_only() {
        assert_eq!(complaints("    tx.view = view;"), 1);
        assert_eq!(complaints("    tx.view += 1;"), 1);
        assert_eq!(complaints("    (tx.view, self.lsn) = both;"), 1);
        assert_eq!(complaints("    (self.lsn, tx.view) = both;"), 1);
        assert_eq!(complaints("    self.lsn = lsn;"), 0, "it is private, and another's");
        assert_eq!(complaints("    database.view = view;"), 0, "not of a transaction");
        assert_eq!(complaints("    let view = tx.view.get(key) == value;"), 0);
        assert_eq!(complaints("    let is = tx.view == view;"), 0);
    }
}
