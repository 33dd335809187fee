//! A model among many writers: it is built, replaced, raced against and verified while they write.

use std::sync::atomic::{AtomicUsize, Ordering};

use orrery_engine::catalog::resource::Preconditions;
use orrery_engine::model::VerificationProgress;
use orrery_types::Error;

use crate::modelled::{Case, LIBRARY};
use crate::random::Random;
use crate::world::{World, name};

/// Random writes among which a model is built, a few items at a time.
fn build_beside_writers(world: World, text: &str, seed: u64) {
    let mut case = Case::new(world);
    let mut random = Random::new(seed);
    let write = |case: &Case, random: &mut Random| {
        let author = format!("a{}", random.below(50));
        // Refusals are as good as successes here: only what is stored counts.
        let _ = match random.below(6) {
            0 => case.put(
                "library",
                &format!(
                    r#"{{"id":"{author}","type":"author","firstName":"F{}","countOfBooks":77}}"#,
                    random.below(9)
                ),
            ),
            1 => case.delete("library", &author),
            2 => case.delete("library", &format!("b{}", random.below(2500))),
            _ => {
                let other = format!("a{}", random.below(50));
                case.book(&format!("b{}", random.below(2500)), &[&author, &other])
            }
        };
    };
    for n in 0..2500 {
        case.book(&format!("b{n}"), &[&format!("a{}", n % 50)]).expect("there is no model yet");
    }
    for n in 0..50 {
        case.author(&format!("a{n}"));
    }
    // More than is built before the answer.
    case.store(text).expect("it is being built");
    for _ in 0..150 {
        write(&case, &mut random);
    }
    case.0.reopen();
    std::thread::scope(|threads| {
        let case = &case;
        for writer in 0..3 {
            threads.spawn(move || {
                let mut random = Random::new(seed * 10 + writer);
                for _ in 0..100 {
                    write(case, &mut random);
                }
            });
        }
        threads
            .spawn(move || case.0.engine().background().run_tasks(&|| false).expect("it is built"));
    });
    case.0.run_tasks();
    let state = case.0.engine().models().read(&name("d")).expect("a model").body;
    let state = state.get("_state").to_json();
    assert!(!state.contains("building") && !state.contains("verified"), "{state}");
    case.check();
}

#[test]
fn a_model_is_built_beside_writers_and_counts_everything_once() {
    let text = LIBRARY
        .replace("\"maxItems\":30", "\"maxItems\":10000")
        .replace("\"maxFanout\":20", "\"maxFanout\":1000")
        .replace("\"onMissing\":\"reject\",\n     \"onDelete\":\"pull\"", "\"onDelete\":\"pull\"");
    let text = text.replacen(r#""to":"author","onMissing":"reject""#, r#""to":"author""#, 1);
    build_beside_writers(World::memory(), &text, 1);
    let later = text.replace(r#""value":"COUNT(1)","propagate":"sync""#, r#""value":"COUNT(1)""#);
    build_beside_writers(World::memory(), &later, 2);
}

#[test]
fn a_reference_and_the_end_of_its_target_never_both_happen() {
    let case = Case::with_model(LIBRARY);
    for round in 0..40 {
        let stock = format!("s{round}");
        case.put("stocks", &format!(r#"{{"id":"{stock}"}}"#)).expect("a stock");
        let (held, gone) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|threads| {
            for n in 0..3 {
                let (case, stock, held) = (&case, &stock, &held);
                threads.spawn(move || {
                    let item =
                        format!(r#"{{"id":"p{round}-{n}","holdings":[{{"stockId":"{stock}"}}]}}"#);
                    held.fetch_add(
                        usize::from(case.put("people", &item).is_ok()),
                        Ordering::SeqCst,
                    );
                });
            }
            threads.spawn(|| {
                gone.fetch_add(
                    usize::from(case.delete("stocks", &stock).is_ok()),
                    Ordering::SeqCst,
                );
            });
        });
        let (held, gone) = (held.into_inner(), gone.into_inner());
        assert!(held == 0 || gone == 0, "{held} hold what is gone");
        assert!(held == 3 || gone == 1, "one of them won");
    }
    case.check();
}

#[test]
fn counts_are_right_after_many_writers_at_once() {
    let case = Case::with_model(&LIBRARY.replace("\"maxItems\":30", "\"maxItems\":1000"));
    case.author("a1");
    case.author("a2");
    std::thread::scope(|threads| {
        for writer in 0..4 {
            let case = &case;
            threads.spawn(move || {
                for n in 0..12 {
                    let id = format!("b{writer}-{n}");
                    case.book(&id, if n % 2 == 0 { &["a1", "a2"] } else { &["a1"] })
                        .expect("a book");
                    if n % 3 == 0 {
                        case.delete("library", &id).expect("a book");
                    }
                }
            });
        }
    });
    assert_eq!(case.at("library", "a1", "countOfBooks"), "32");
    case.check();
}

#[test]
fn a_model_takes_over_among_writers_and_nothing_slips_through() {
    let case = Case::new(World::memory());
    let text = LIBRARY.replace("\"maxItems\":30", "\"maxItems\":1000");
    let other = text.replace("' ', t.lastName", "'-', t.lastName");
    let none = Preconditions::default();
    case.store(&text).expect("a model");
    let stop = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for writer in 0..3 {
            let (case, stop) = (&case, &stop);
            threads.spawn(move || {
                let mut random = Random::new(writer);
                while stop.load(Ordering::SeqCst) == 0 {
                    let author = format!("a{}", random.below(4));
                    // Refusals are as good as successes here: only what is stored counts.
                    let _ = match random.below(4) {
                        0 => case.put(
                            "library",
                            &format!(
                                r#"{{"id":"{author}","type":"author","firstName":"F{}"}}"#,
                                random.below(9)
                            ),
                        ),
                        1 => case.delete("library", &format!("b{}", random.below(9))),
                        _ => case.book(&format!("b{}", random.below(9)), &[&author]),
                    };
                }
            });
        }
        for round in 0..12 {
            let stored = match round % 3 {
                0 => case.store(&other).map(drop),
                1 => case.0.engine().models().delete(&name("d"), &none),
                // Without a model books may refer to nobody; then it is refused.
                _ => match case.store(&text) {
                    Err(Error::ModelViolated(_)) => {
                        for n in 0..4 {
                            case.author(&format!("a{n}"));
                        }
                        case.store(&text).map(drop)
                    }
                    other => other.map(drop),
                },
            };
            assert_eq!(stored, Ok(()), "round {round}");
        }
        stop.store(1, Ordering::SeqCst);
    });
    case.check();
}

/// What is verified is one moment, so writers may go on; what is to follow later is no drift.
fn verify_among_writers(world: World, text: &str) {
    let mut case = Case::new(world);
    case.store(text).expect("a model");
    for n in 0..6 {
        case.author(&format!("a{n}"));
    }
    let stop = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for writer in 0..3 {
            let (case, stop) = (&case, &stop);
            threads.spawn(move || {
                let mut random = Random::new(writer);
                while stop.load(Ordering::SeqCst) == 0 {
                    let author = format!("a{}", random.below(6));
                    // Refusals are as good as successes here: only what is stored counts.
                    let _ = match random.below(8) {
                        0 => case.put(
                            "library",
                            &format!(
                                r#"{{"id":"{author}","type":"author","firstName":"F{}"}}"#,
                                random.below(9)
                            ),
                        ),
                        // One author stays, so that there is always something to verify.
                        1 => case.delete("library", &format!("a{}", 1 + random.below(5))),
                        2 => case.delete("library", &format!("b{}", random.below(40))),
                        _ => case.book(&format!("b{}", random.below(40)), &[&author, "a0"]),
                    };
                }
            });
        }
        threads.spawn(|| {
            while stop.load(Ordering::SeqCst) == 0 {
                case.0
                    .engine()
                    .deferred_effects()
                    .propagate(&|| false)
                    .expect("what is to follow follows");
            }
        });
        for _ in 0..20 {
            let progress = VerificationProgress::default();
            let found = case.0.engine().model_verification().verify_watched(&name("d"), &progress);
            let found = found.expect("it is verified");
            assert_eq!(found.drift, [""; 0]);
            assert!(progress.percent() > 0);
        }
        stop.store(1, Ordering::SeqCst);
    });
    case.0.run_tasks();
    let found = case
        .0
        .engine()
        .model_verification()
        .verify_watched(&name("d"), &VerificationProgress::default());
    let found = found.expect("it is verified");
    assert_eq!((found.drift_count, found.pending), (0, 0));
    assert!(found.items >= 1, "{found:?}");
    case.check();
}

#[test]
fn a_model_is_verified_while_others_write() {
    let text = LIBRARY.replace("\"maxItems\":30", "\"maxItems\":1000");
    verify_among_writers(World::memory(), &text);
    verify_among_writers(World::rocks(), &text);
    let later = text
        .replace("\"maxFanout\":20", "\"maxFanout\":1,\"onOverflow\":\"async\"")
        .replace(r#""value":"COUNT(1)","propagate":"sync""#, r#""value":"COUNT(1)""#);
    verify_among_writers(World::memory(), &later);
}

#[test]
fn what_is_to_follow_is_told_apart_from_drift() {
    let later = LIBRARY.replace("\"maxFanout\":20", "\"maxFanout\":1,\"onOverflow\":\"async\"");
    let mut case = Case::with_model(&later);
    case.author("a1");
    for n in 0..5 {
        case.book(&format!("b{n}"), &["a1"]).expect("a book");
    }
    case.put("library", r#"{"id":"a1","type":"author","firstName":"New","lastName":"L"}"#)
        .expect("it is renamed");
    let verified = |case: &Case| {
        let found = case
            .0
            .engine()
            .model_verification()
            .verify_watched(&name("d"), &VerificationProgress::default());
        found.expect("it is verified")
    };
    let found = verified(&case);
    assert_eq!((found.drift_count, found.pending), (0, 5), "{found:?}");
    case.0.run_tasks();
    let found = verified(&case);
    assert_eq!((found.drift_count, found.pending, found.items), (0, 0, 6), "{found:?}");
}

#[test]
fn a_verification_runs_beside_requests_and_can_be_ended() {
    let case = Case::with_model(LIBRARY);
    case.author("a1");
    let progress = VerificationProgress::default();
    progress.cancel();
    let ended = case.0.engine().model_verification().verify_watched(&name("d"), &progress);
    assert!(matches!(ended, Err(Error::Unavailable(_))), "{ended:?}");
    let none = case.0.engine().model_verification().newest(&name("d"));
    assert!(matches!(none, Err(Error::NotFound)), "{none:?}");
}
