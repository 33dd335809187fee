//! Hostile schemas are refused or evaluated within the bound, and the bound holds for random ones.

use std::cell::Cell;
use std::fmt::Write as _;

use super::*;
use crate::schema::Schema;

fn parse(text: &str) -> Value {
    Value::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn nested(keyword: &str, depth: usize) -> String {
    let (mut text, mut end) = (String::new(), String::new());
    for _ in 0..depth {
        write!(text, r#"{{"{keyword}":["#).expect("text");
        end.push_str("]}");
    }
    format!(r#"{text}{{"type":"null"}},{{"type":"boolean"}}{end}"#)
}

/// Definitions of which each applies the next one twice.
fn doubling(steps: usize, apply: &str) -> String {
    let mut text = String::from(r#"{"$defs":{"#);
    for step in 0..steps {
        let next = format!(r##"{{"$ref":"#/$defs/d{}"}}"##, step + 1);
        write!(text, r#""d{step}":{},"#, apply.replace('@', &next)).expect("text");
    }
    write!(text, r##""d{steps}":{{"const":7}}}},"$ref":"#/$defs/d0"}}"##).expect("text");
    text
}

#[test]
fn schemas_that_can_explode_are_refused() {
    let hostile = [
        nested("anyOf", 24),
        nested("oneOf", 24),
        doubling(24, r#"{"anyOf":[@,@]}"#),
        doubling(24, r#"{"allOf":[@,@]}"#),
        doubling(24, r#"{"oneOf":[@,@]}"#),
        doubling(24, r#"{"if":@,"then":@,"else":@}"#),
        doubling(24, r#"{"not":@,"allOf":[@]}"#),
        doubling(24, r#"{"dependentSchemas":{"a":@,"b":@}}"#),
        doubling(24, r#"{"properties":{"a":@},"additionalProperties":@}"#),
        doubling(24, r#"{"patternProperties":{"a":@,"b":@}}"#),
        doubling(24, r#"{"items":@,"contains":@}"#),
        doubling(9, r#"{"unevaluatedProperties":false,"anyOf":[@]}"#),
        // For the same value without end, and for values within it twice at each step.
        r##"{"$ref":"#"}"##.to_owned(),
        r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}"##
            .to_owned(),
        r##"{"items":{"$ref":"#"},"contains":{"$ref":"#"}}"##.to_owned(),
        r##"{"properties":{"a":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}}}"##.to_owned(),
        r##"{"$dynamicAnchor":"n","items":{"$dynamicRef":"#n"}}"##.to_owned(),
        r##"{"$defs":{"a":{"$id":"x","items":{"$ref":"#"}}},"$ref":"#/$defs/a"}"##.to_owned(),
        // Patterns that need backtracking, and one that is large when compiled.
        r#"{"pattern":"(a+)+(?=b)"}"#.to_owned(),
        r#"{"pattern":"(a)\\1"}"#.to_owned(),
        r#"{"pattern":"((x{1000}){1000}){1000}"}"#.to_owned(),
        r#"{"patternProperties":{"(?!a)b":{}}}"#.to_owned(),
        r#"{"pattern":"("}"#.to_owned(),
    ];
    for text in hostile {
        assert!(Schema::parse(&parse(&text)).is_err(), "{text}");
    }
}

#[test]
fn ordinary_schemas_are_taken() {
    let wide: Vec<String> = (0..400).map(|n| format!(r#""p{n}":{{"type":"string"}}"#)).collect();
    let ordinary = [
        nested("anyOf", 5),
        format!(r#"{{"properties":{{{}}}}}"#, wide.join(",")),
        // A tree of comments.
        r##"{"type":"object","properties":{"text":{"type":"string"},"replies":{"type":"array",
            "items":{"$ref":"#"}}},"required":["text"],"additionalProperties":false}"##
            .to_owned(),
        r##"{"$id":"https://example.com/s","$defs":{"n":{"$anchor":"n","pattern":"^(a+)+$"}},
            "properties":{"x":{"$ref":"#n"},"y":{"$ref":"#/$defs/n"}}}"##
            .to_owned(),
        r#"{"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}"#.to_owned(),
    ];
    for text in ordinary {
        if let Err(reason) = Schema::parse(&parse(&text)) {
            panic!("{text}: {reason}");
        }
    }
}

#[test]
fn an_item_that_takes_too_many_steps_is_not_evaluated() {
    let schema = parse(&nested("anyOf", 10));
    let schema = format!(r#"{{"properties":{{"a":{{"items":{}}}}}}}"#, schema.to_json());
    let schema = Schema::parse(&parse(&schema)).expect("a schema");
    let item = |n: usize| parse(&format!(r#"{{"a":[{}1]}}"#, "0,".repeat(n)));
    let found = schema.complaints(&item(5));
    assert!(found[0].path.starts_with("/a/"), "{found:?}");
    let found = schema.complaints(&item(200));
    assert!(found[0].message.contains("too large to say where"), "{found:?}");
    let found = schema.complaints(&item(20_000));
    assert!(found[0].message.contains("too many values"), "{found:?}");
}

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Counts evaluations of the schema that it stands in.
struct Counter;

impl<'i> jsonschema::Keyword<'i> for Counter {
    fn validate(&self, _: &'i serde_json::Value) -> Result<(), jsonschema::ValidationError<'i>> {
        COUNT.set(COUNT.get() + 1);
        Ok(())
    }

    fn is_valid(&self, _: &'i serde_json::Value) -> bool {
        COUNT.set(COUNT.get() + 1);
        true
    }
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn schema(&mut self, depth: u64) -> String {
        let mut all = vec![r#""count":true"#.to_owned()];
        for _ in 0..self.below(3) + u64::from(depth > 0) {
            let mut sub =
                || if depth == 0 { r#"{"count":true}"#.into() } else { self.schema(depth - 1) };
            let (a, b) = (sub(), sub());
            let chosen = self.below(22);
            all.push(match chosen {
                0 => format!(r#""anyOf":[{a},{b}]"#),
                1 => format!(r#""allOf":[{a},{b}]"#),
                2 => format!(r#""oneOf":[{a},{b}]"#),
                3 => format!(r#""not":{a}"#),
                4 => format!(r#""if":{a},"then":{b}"#),
                5 => format!(r#""properties":{{"a":{a},"b":{b}}}"#),
                6 => format!(r#""additionalProperties":{a}"#),
                7 => format!(r#""items":{a}"#),
                8 => format!(r#""prefixItems":[{a}],"contains":{b}"#),
                9 => format!(r#""patternProperties":{{"a":{a},"^b":{b}}}"#),
                10 => format!(r#""dependentSchemas":{{"a":{a}}}"#),
                11 => format!(r#""unevaluatedProperties":{a}"#),
                12 => format!(r#""unevaluatedItems":{a}"#),
                13 => r##""$ref":"#/$defs/x""##.into(),
                14 => r##""$ref":"#/$defs/y""##.into(),
                15 => r#""type":"object""#.into(),
                16 => r#""type":["array","string"]"#.into(),
                17 => r#""required":["a"]"#.into(),
                18 => r#""maxItems":1"#.into(),
                19 => r#""pattern":"^a""#.into(),
                20 => r#""enum":[1,"a",[]]"#.into(),
                _ => r#""minimum":2"#.into(),
            });
        }
        format!("{{{}}}", all.join(","))
    }

    fn item(&mut self, depth: u64) -> String {
        match self.below(if depth == 0 { 3 } else { 5 }) {
            0 => self.below(4).to_string(),
            1 => r#""ab""#.into(),
            2 => "null".into(),
            3 => {
                let elements: Vec<_> = (0..self.below(4)).map(|_| self.item(depth - 1)).collect();
                format!("[{}]", elements.join(","))
            }
            _ => {
                let names = ["a", "b", "c"].iter();
                let members: Vec<_> =
                    names.map(|name| format!("\"{name}\":{}", self.item(depth - 1))).collect();
                format!("{{{}}}", members.join(","))
            }
        }
    }
}

#[test]
fn no_schema_takes_more_evaluations_of_an_item_than_its_bound() {
    let (mut taken, mut refused) = (0, 0);
    for seed in 1..=1500 {
        let mut random = Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        let (x, y) = (random.schema(2), random.schema(1));
        let text = random.schema(3);
        let text = format!(r#"{{"$defs":{{"x":{x},"y":{y}}},{}"#, &text[1..]);
        // A name that comes twice is refused before a schema is read.
        let Ok(schema) = Value::parse(text.as_bytes()) else { continue };
        let Ok(cost) = SchemaCost::of(&schema) else {
            refused += 1;
            continue;
        };
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let built = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .with_pattern_options(jsonschema::PatternOptions::regex())
            .with_keyword("count", |_, _, _| Ok(Box::new(Counter)))
            .build(&document);
        let validator = built.unwrap_or_else(|e| panic!("seed {seed}: {text}: {e}"));
        for _ in 0..8 {
            let item = random.item(4);
            let value: serde_json::Value = serde_json::from_str(&item).expect("JSON");
            let bound = cost.steps(&parse(&item));
            COUNT.set(0);
            let valid = validator.is_valid(&value);
            assert!(COUNT.get() <= bound, "seed {seed}: {} > {bound}: {text} {item}", COUNT.get());
            COUNT.set(0);
            assert_eq!(validator.iter_errors(&value).next().is_none(), valid, "seed {seed}");
            assert!(COUNT.get() <= bound, "seed {seed}: {} > {bound}: {text} {item}", COUNT.get());
            taken += 1;
        }
    }
    assert!(taken > 2000 && refused > 20, "{taken} {refused}");
}
