//! The query language: a text is refused, or reads into a tree whose own text reads again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orrery_query::Query;

fuzz_target!(|text: &str| {
    let _ = Query::parse_condition(text);
    if let Ok(query) = Query::parse(text) {
        let printed = query.select().to_string();
        match Query::parse(&printed) {
            Ok(again) => assert_eq!(again.select().to_string(), printed),
            // Parentheses count as nesting, and the tree's own text has more of them.
            Err(error) if format!("{error:?}").contains("nested too deeply") => {}
            Err(error) => panic!("{printed}: {error:?}"),
        }
    }
});
