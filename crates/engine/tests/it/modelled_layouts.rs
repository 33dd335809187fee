//! What a model keeps goes on while physical partitions split and merge.

use crate::modelled::{Case, LIBRARY};
use crate::world::name;

#[test]
fn references_and_what_is_kept_go_on_in_other_layouts() {
    let case = Case::with_model(LIBRARY);
    for author in 0..6 {
        case.author(&format!("a{author}"));
    }
    let books = |from: usize, to: usize| {
        for book in from..to {
            let (one, two) = (format!("a{}", book % 6), format!("a{}", (book + 1) % 6));
            case.book(&format!("b{book}"), &[&one, &two]).expect("a book");
        }
    };
    books(0, 10);
    let engine = case.0.engine();
    let largest = || engine.layouts().split_partition(&name("d"), &name("library"), None, None);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| books(10, 30));
        for _ in 0..3 {
            largest().expect("a split");
        }
        for _ in 0..4 {
            engine.layouts().merge_partitions(&name("d"), &name("library"), None).expect("a merge");
        }
        writer.join().expect("a writer");
    });
    case.check();
    assert_eq!(case.at("library", "a0", "countOfBooks"), "10");
    case.delete("library", "a0").expect("it is pulled out of its books");
    case.check();
    assert!(!case.get("library", "b0").expect("a book").to_json().contains("a0"));
}
