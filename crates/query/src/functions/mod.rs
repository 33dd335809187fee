//! The registry of built-in functions: documented name, number of arguments, how it treats
//! undefined, whether its value depends on anything but its arguments, and the function itself.
//! Unknown names and wrong argument counts are noticed here and nowhere else; the list of supported
//! functions is printed from here.
//!
//! A function answers `None` for undefined, which is also its answer to wrong types. It fails, by
//! telling its host, only where a limit of ours keeps it from the right answer.

pub(crate) mod aggregate;
pub(crate) mod array;
mod date_time;
mod extract;
pub(crate) mod full_text;
pub(crate) mod like;
mod math;
mod object;
pub(crate) mod pattern;
mod pcre;
pub(crate) mod spatial;
pub(crate) mod string;
mod type_check;
pub(crate) mod vector;

use std::cell::Cell;

use orrery_types::{Value, limits};

use pattern::Patterns;

/// What a function may use besides its arguments.
pub(crate) struct Host {
    /// The current time in ticks of 100 ns since 1970; the same throughout one execution.
    pub(crate) now_ticks: i64,
    /// Compiled patterns.
    pub(crate) patterns: Patterns,
    random: Cell<u64>,
    failure: Cell<Option<&'static str>>,
    /// Memory that the answer of a function may take.
    pub(crate) room_bytes: Cell<usize>,
}

impl Host {
    pub(crate) fn new(now_us: i64, seed: u64) -> Self {
        Self {
            now_ticks: now_us.saturating_mul(10),
            patterns: Patterns::default(),
            random: Cell::new(seed | 1),
            failure: Cell::new(None),
            room_bytes: Cell::new(limits::QUERY_MEMORY_BYTES_MAX),
        }
    }

    /// Has the execution fail where any answer would be a guess: a limit of ours was reached.
    fn fail(&self, why: &'static str) {
        self.failure.set(Some(why));
    }

    /// Whether an answer of so many bytes may be made; has the execution fail if not.
    fn has_room(&self, bytes: usize) -> bool {
        let has = bytes <= self.room_bytes.get();
        if !has {
            self.fail("The result of a function exceeded the maximum memory of the query.");
        }
        has
    }

    /// The failure that the last call reported, if any.
    pub(crate) fn take_failure(&self) -> Option<&'static str> {
        self.failure.take()
    }

    /// A number in [0, 1).
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    fn random(&self) -> f64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// How a function treats an undefined argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndefinedRule {
    /// Any undefined argument makes the result undefined.
    Propagates,
    /// The function looks at it.
    Seen,
}

/// What the value of a call depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependence {
    /// Its arguments only: a call with constant arguments is a constant.
    Arguments,
    /// The time or chance as well.
    Moment,
    /// The place where it stands: the binder handles it.
    Place,
}

/// One built-in function.
pub struct Function {
    /// The name as documented; calls match it without regard to case.
    pub name: &'static str,
    /// Least number of arguments.
    pub arguments_min: usize,
    /// Greatest number of arguments; `None` for any.
    pub arguments_max: Option<usize>,
    /// Treatment of undefined.
    pub undefined: UndefinedRule,
    /// What its value depends on.
    pub dependence: Dependence,
    pub(crate) call: fn(&[Value], &Host) -> Option<Value>,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Function {
    /// A pure function of exactly so many arguments.
    const fn new(
        name: &'static str,
        arguments: usize,
        call: fn(&[Value], &Host) -> Option<Value>,
    ) -> Self {
        Self {
            name,
            arguments_min: arguments,
            arguments_max: Some(arguments),
            undefined: UndefinedRule::Propagates,
            dependence: Dependence::Arguments,
            call,
        }
    }

    const fn up_to(self, arguments: usize) -> Self {
        Self { arguments_max: Some(arguments), ..self }
    }

    const fn or_more(self) -> Self {
        Self { arguments_max: None, ..self }
    }

    const fn sees_undefined(self) -> Self {
        Self { undefined: UndefinedRule::Seen, ..self }
    }

    const fn of_the_moment(self) -> Self {
        Self { dependence: Dependence::Moment, ..self }
    }

    const fn of_the_place(self) -> Self {
        Self { dependence: Dependence::Place, ..self }
    }

    /// The complaint about a number of arguments it does not take.
    pub(crate) fn arity_error(&self, given: usize) -> Option<(&'static str, String)> {
        let max = self.arguments_max.unwrap_or(usize::MAX);
        let is_half = self.name == "NOW" && given == 1;
        if (self.arguments_min..=max).contains(&given) && !is_half {
            return None;
        }
        // A time span is a part and a number; one of them alone is not a matter of counting.
        if matches!((self.name, given), ("NOW", 1) | ("DateTimeAdd", 2)) {
            let message = "The timespan argument provided to the DateTime function is invalid.";
            return Some(("SC2053", message.to_owned()));
        }
        Some(("SC2050", wrong_count(self.name, &(self.arguments_min..=max))))
    }
}

/// All groups of functions, by topic.
pub fn registry() -> impl Iterator<Item = (&'static str, &'static Function)> {
    let groups: [(&'static str, &'static [Function]); 11] = [
        ("aggregate", aggregate::FUNCTIONS),
        ("array", array::FUNCTIONS),
        ("date and time", date_time::FUNCTIONS),
        ("full text", full_text::FUNCTIONS),
        ("mathematical", math::FUNCTIONS),
        ("object and item", object::FUNCTIONS),
        ("spatial", spatial::FUNCTIONS),
        ("string", string::FUNCTIONS),
        ("string", extract::FUNCTIONS),
        ("type checking", type_check::FUNCTIONS),
        ("vector", vector::FUNCTIONS),
    ];
    groups.into_iter().flat_map(|(topic, list)| list.iter().map(move |f| (topic, f)))
}

/// The function of that name, whatever its case.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    let documented = SYNONYMS.iter().find(|(synonym, _)| synonym.eq_ignore_ascii_case(name));
    let name = documented.map_or(name, |(_, documented)| documented);
    registry().map(|(_, f)| f).find(|f| f.name.eq_ignore_ascii_case(name))
}

/// Other names that the service's planner accepts for documented functions.
const SYNONYMS: &[(&str, &str)] = &[
    ("ArrayContains", "ARRAY_CONTAINS"),
    ("SET_DIFFERENCE", "SetDifference"),
    ("SET_EQUAL", "SetEqual"),
    ("SET_INTERSECT", "SetIntersect"),
    ("SET_UNION", "SetUnion"),
];

/// A function that the service's planner knows although nothing documents what it does.
pub(crate) struct PlannedOnly {
    /// How many arguments it takes.
    pub(crate) arguments: std::ops::RangeInclusive<usize>,
    /// Whether its value may be one of JSON's.
    pub(crate) has_value: bool,
}

/// The function of that name that can be planned and not run.
pub(crate) fn planned_only(name: &str) -> Option<PlannedOnly> {
    let upper = name.to_ascii_uppercase();
    let (arguments, has_value) = match upper.as_str() {
        "_TRY_ARRAY_CONTAINS" => (2..=3, true),
        "HASH" => (1..=usize::MAX, true),
        "_OBJECTTOARRAY" | "GENERATEEMBEDDINGS" => (1..=1, true),
        "_COMPARE_BSON_BINARYDATA" | "_COMPARE_OBJECTS" | "_ST_DISTANCE" => (2..=2, true),
        "_REGEX_MATCH" => (2..=4, true),
        "_PROXY_PROJECTION" => (3..=4, true),
        "C_BINARY" | "C_FLOAT32" | "C_FLOAT64" | "C_GUID" | "C_INT16" | "C_INT32" | "C_INT64"
        | "C_INT8" | "C_LIST" | "C_MAP" | "C_SET" | "C_TUPLE" | "C_UDT" | "C_UINT32" => {
            (1..=1, false)
        }
        other if other.starts_with("_M_EVAL_") => (2..=3, true),
        _ => return None,
    };
    Some(PlannedOnly { arguments, has_value })
}

/// The complaint about a number of arguments.
pub(crate) fn wrong_count(name: &str, arguments: &std::ops::RangeInclusive<usize>) -> String {
    let (min, max) = (*arguments.start(), *arguments.end());
    let takes = match max {
        usize::MAX => format!("at least {min}"),
        max if max == min => format!("{min}"),
        max => format!("{min} to {max}"),
    };
    format!("The {name} function requires {takes} argument(s).")
}

fn text(arguments: &[Value], at: usize) -> Option<&str> {
    arguments.get(at)?.as_str()
}

fn number(arguments: &[Value], at: usize) -> Option<f64> {
    arguments.get(at)?.as_number().map(orrery_types::Number::as_f64)
}

fn integer(arguments: &[Value], at: usize) -> Option<i64> {
    arguments.get(at)?.as_i64()
}

fn array(arguments: &[Value], at: usize) -> Option<&[Value]> {
    arguments.get(at)?.as_array()
}

/// A flag that may be left out: absent is false, another type is no answer.
fn flag(arguments: &[Value], at: usize) -> Option<bool> {
    match arguments.get(at) {
        None => Some(false),
        Some(Value::Bool(b)) => Some(*b),
        Some(_) => None,
    }
}

/// Three-valued AND or OR over tests that may have no answer: one `decisive` answer decides.
fn combine(answers: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<Value> {
    let mut unknown = false;
    for answer in answers {
        match answer {
            Some(b) if b == decisive => return Some(decisive.into()),
            Some(_) => {}
            None => unknown = true,
        }
    }
    if unknown { None } else { Some((!decisive).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_in_any_case() {
        let mut names: Vec<String> = registry().map(|(_, f)| f.name.to_ascii_uppercase()).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(find("regexMatch").map(|f| f.name), Some("RegexMatch"));
        assert!(find("BADFUNC").is_none());
        assert_eq!(find("set_union").map(|f| f.name), Some("SetUnion"));
        for (synonym, documented) in SYNONYMS {
            let names = [find(synonym), find(documented)].map(|f| f.map(|f| f.name));
            assert_eq!(names, [Some(*documented); 2], "{synonym}");
        }
    }

    #[test]
    fn wrong_argument_counts_are_worded_as_the_service_does() {
        let check = |name: &str, given: usize, says: Option<&str>| {
            let error = find(name).unwrap().arity_error(given);
            assert_eq!(error.as_ref().map(|(_, says)| says.as_str()), says, "{name}");
        };
        check("STARTSWITH", 4, Some("The STARTSWITH function requires 2 to 3 argument(s)."));
        check("ABS", 0, Some("The ABS function requires 1 argument(s)."));
        check("CONCAT", 1, Some("The CONCAT function requires at least 2 argument(s)."));
        check("CONCAT", 9, None);
    }
}
