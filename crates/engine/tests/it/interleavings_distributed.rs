//! Distributed transactions that are stopped exactly between their reads and their commit, or whose answer is
//! lost, while a split of one of their ranges copies and cuts over. Each is done once and whole, on containers
//! of one range and of several.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use orrery_engine::partition::layout::LayoutChangeResult;
use orrery_engine::transaction::batch::{BatchAction, BatchAnswer};
use orrery_engine::transaction::distributed::{DistributedAnswers, DistributedOperation};
use orrery_storage::{Space, StorageError, Store, key};
use orrery_types::Result;

use crate::commit_stop::{CommitStop, let_others_run};
use crate::distributed::{A, B, MODEL, operation, put, read, token, words};
use crate::interposed::{Hook, Interposed, Read, Step};
use crate::rig::Rig;
use crate::stores::new_store;
use crate::world::name;

/// For containers of one range, and of three.
const THROUGHPUTS: [Option<i64>; 2] = [None, Some(18_000)];

/// A store that says when a split has copied everything and is about to cut over.
fn announcing_cutover(inner: Arc<dyn Store>) -> (Arc<dyn Store>, Arc<AtomicUsize>) {
    let flushes = Arc::new(AtomicUsize::new(0));
    let announced = flushes.clone();
    let hook: Hook = Box::new(move |step| {
        if step == Step::Flush {
            announced.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    });
    (Arc::new(Interposed::writes(inner, hook)), flushes)
}

/// A split flushes once before it chooses where to divide the range, and once when it has copied.
fn has_copied(flushes: &AtomicUsize) -> bool {
    flushes.load(Ordering::SeqCst) >= 2
}

/// Item `x` in container `a` and `y` in `b`, and the range where `x` lies.
fn filled(rig: &Rig) -> u32 {
    let written = rig.put("a", r#"{"id":"x","p":"k1","n":1}"#).expect("an item");
    rig.put("b", r#"{"id":"y","p":"k2","n":1}"#).expect("an item");
    // Rows and paths have their numbers: the next commit of a transaction is its own.
    let (a, b) = (rig.container("a"), rig.container("b"));
    let before = [put(&a, "k1", "w", 0), put(&b, "k2", "w", 0)];
    rig.engine.transactions().distributed(&before, Some(token(1))).expect("a commit");
    written.place.partition
}

fn split(rig: &Rig, range: u32) -> Result<LayoutChangeResult> {
    rig.engine.layouts().split_partition(&name("d"), &name("a"), Some(&range.to_string()), None)
}

fn increment(rig: &Rig, container: &str, key: &str, id: &str) -> DistributedOperation {
    let patch = br#"{"operations":[{"op":"incr","path":"/n","value":10}]}"#.to_vec();
    operation(&rig.container(container), key, BatchAction::Patch(name(id), patch.into()))
}

/// Reads `x`, and writes beside it and in the other container.
fn mixed(rig: &Rig) -> [DistributedOperation; 3] {
    let a = rig.container("a");
    [read(&a, "k1", "x"), increment(rig, "b", "k2", "y"), put(&a, "k1", "z", 5)]
}

fn ranges(rig: &Rig) -> Vec<u32> {
    rig.container("a").partitions.iter().map(|partition| partition.id).collect()
}

/// The transaction is sent again: it was done once, its places are the ranges of now, and nothing is damaged.
#[track_caller]
fn is_done_once(rig: &Rig, operations: &[DistributedOperation], split: u32) {
    let again = rig.engine.transactions().distributed(operations, Some(token(2)));
    let again = again.expect("an answer");
    assert!(again.is_repeated);
    places_are_current(rig, &again, split);
    rig.check();
}

#[track_caller]
fn places_are_current(rig: &Rig, answers: &DistributedAnswers, split: u32) {
    let ranges = ranges(rig);
    assert!(!ranges.contains(&split), "the range was replaced");
    let in_a = answers.answers.iter().filter(|answered| &*answered.container.id == "a");
    for answered in in_a {
        assert!(ranges.contains(&answered.place.partition), "{answered:?}");
    }
}

#[test]
fn a_split_cuts_over_after_a_transaction_that_is_about_to_commit() {
    for throughput in THROUGHPUTS {
        let (store, stop) = CommitStop::over(&new_store());
        let (store, flushes) = announcing_cutover(store);
        let rig = Rig::over(&store, &[(A, throughput), (B, throughput)], None);
        let range = filled(&rig);
        let operations = mixed(&rig);
        std::thread::scope(|threads| {
            let transaction = threads.spawn(|| {
                stop.stop_me();
                rig.engine.transactions().distributed(&operations, Some(token(2)))
            });
            stop.wait_reached();
            flushes.store(0, Ordering::SeqCst);
            let splitting = threads.spawn(|| split(&rig, range));
            let_others_run(|| has_copied(&flushes));
            let_others_run(|| splitting.is_finished());
            assert!(!splitting.is_finished(), "the range goes under a transaction that locks it");
            stop.release();
            let done = transaction.join().expect("no panic").expect("a commit");
            assert_eq!(words(&done), ["read 1", "replaced", "created"]);
            splitting.join().expect("no panic").expect("a split");
        });
        assert_eq!(rig.at("a", "k1", "z", "n"), "5");
        assert_eq!(rig.at("b", "k2", "y", "n"), "11");
        is_done_once(&rig, &operations, range);
    }
}

/// What it has read changes, so that it runs again; before it does, its range is split.
#[test]
fn a_transaction_whose_reads_have_changed_runs_again_in_the_new_ranges() {
    for throughput in THROUGHPUTS {
        let (store, stop) = CommitStop::over(&new_store());
        let rig = Rig::over(&store, &[(A, throughput), (B, throughput)], None);
        let range = filled(&rig);
        let operations = mixed(&rig);
        std::thread::scope(|threads| {
            let transaction = threads.spawn(|| {
                stop.stop_me();
                rig.engine.transactions().distributed(&operations, Some(token(2)))
            });
            stop.wait_reached();
            rig.put("a", r#"{"id":"x","p":"k1","n":2}"#).expect("another writer");
            // Every attempt begins with a look at the token, before it takes locks.
            let outcome = key::transaction_outcome(&token(2).0);
            rig.breakpoint.arm(move |read| {
                matches!(read, Read::Key { space: Space::Meta, key, .. } if **key == outcome)
            });
            stop.release();
            rig.breakpoint.wait_reached();
            split(&rig, range).expect("a split");
            rig.breakpoint.release();
            let done = transaction.join().expect("no panic").expect("a commit");
            assert_eq!(words(&done), ["read 2", "replaced", "created"]);
            places_are_current(&rig, &done, range);
        });
        assert_eq!(rig.at("b", "k2", "y", "n"), "11", "once, and not for each attempt");
        is_done_once(&rig, &operations, range);
    }
}

/// A model carries a transaction's writes into a container that it does not name and whose ranges it does not
/// lock. One of those is replaced between its reads and its commit, with and without another write to what
/// it has read there.
#[test]
fn a_split_of_a_range_that_only_a_model_reaches_makes_the_transaction_run_again() {
    let books: &str = &A.replace("\"a\"", "\"b\"");
    for (throughput, is_changed) in THROUGHPUTS.into_iter().flat_map(|t| [(t, false), (t, true)]) {
        let (store, stop) = CommitStop::over(&new_store());
        let rig = Rig::over(&store, &[(A, throughput), (books, throughput)], Some(MODEL));
        let author = rig.put("a", r#"{"id":"ada","p":"k","n":1}"#).expect("an author");
        let range = author.place.partition;
        let book = |id: &str| {
            let body = format!(r#"{{"id":"{id}","p":"s","authorId":"ada","authorKey":"k"}}"#);
            operation(&rig.container("b"), "s", BatchAction::Create(body.into_bytes().into()))
        };
        let before = rig.engine.transactions().distributed(&[book("b0")], Some(token(1)));
        before.expect("a commit");
        let operations = [book("b1"), book("b2")];
        std::thread::scope(|threads| {
            let transaction = threads.spawn(|| {
                stop.stop_me();
                rig.engine.transactions().distributed(&operations, Some(token(2)))
            });
            stop.wait_reached();
            if is_changed {
                let changed = r#"[{"op":"set","path":"/n","value":2}]"#;
                let patch = orrery_engine::item::patch::Patch::parse(&crate::world::json(changed));
                let none = orrery_engine::catalog::resource::Preconditions::default();
                let (key, id) = (crate::rig::pk("k"), name("ada"));
                let patch = patch.expect("a patch");
                let written =
                    rig.engine.items().patch(&rig.container("a"), Some(&key), &id, &patch, &none);
                written.expect("another writer");
            }
            split(&rig, range).expect("a split");
            assert!(!transaction.is_finished(), "it is stopped before its commit");
            stop.release();
            let done = transaction.join().expect("no panic").expect("a commit");
            assert_eq!(words(&done), ["created", "created"]);
        });
        assert_eq!(rig.at("a", "k", "ada", "count"), "3");
        assert_eq!(rig.at("a", "k", "ada", "n"), if is_changed { "2" } else { "1" });
        is_done_once(&rig, &operations, range);
    }
}

/// The commit is applied and its answer lost, while a split waits for the locks of its ranges.
#[test]
fn a_transaction_whose_answer_is_lost_before_a_cutover_is_found_by_its_token_after_it() {
    for throughput in THROUGHPUTS {
        let (store, stop) = CommitStop::losing_answers(&new_store());
        let (store, flushes) = announcing_cutover(store);
        let rig = Rig::over(&store, &[(A, throughput), (B, throughput)], None);
        let range = filled(&rig);
        let operations = [increment(&rig, "a", "k1", "x"), increment(&rig, "b", "k2", "y")];
        let send = || rig.engine.transactions().distributed(&operations, Some(token(2)));
        std::thread::scope(|threads| {
            let transaction = threads.spawn(|| {
                stop.stop_me();
                send()
            });
            stop.wait_reached();
            flushes.store(0, Ordering::SeqCst);
            let splitting = threads.spawn(|| split(&rig, range));
            let_others_run(|| has_copied(&flushes));
            assert!(send().expect("an answer").is_repeated, "its outcome is stored with it");
            stop.release();
            transaction.join().expect("no panic").expect_err("the answer is lost");
            splitting.join().expect("no panic").expect("a split");
        });
        assert_eq!((&*rig.at("a", "k1", "x", "n"), &*rig.at("b", "k2", "y", "n")), ("11", "11"));
        is_done_once(&rig, &operations, range);
    }
}

/// What a split does at each of its steps.
type AtStep = Arc<Mutex<Option<Box<dyn Fn() -> DistributedAnswers + Send>>>>;

/// The client sends a transaction again when a split begins, while it copies, and afterwards. If it was
/// applied before, it stays as it was; if not, the first of these does it, and the copy has to take it along.
#[test]
fn a_transaction_that_is_sent_again_during_a_split_is_done_once() {
    for (throughput, is_applied) in THROUGHPUTS.into_iter().flat_map(|t| [(t, false), (t, true)]) {
        let lose = Arc::new(AtomicBool::new(false));
        let losing = lose.clone();
        let hook: Hook = Box::new(move |step| match step {
            Step::Commit if losing.load(Ordering::SeqCst) => {
                Err(StorageError::Unavailable("the test has cut it off".into()))
            }
            _ => Ok(()),
        });
        let inner = new_store();
        let store: Arc<dyn Store> = if is_applied {
            Arc::new(Interposed::answers(inner, hook))
        } else {
            Arc::new(Interposed::writes(inner, hook))
        };
        let (resend, answers) = (AtStep::default(), Arc::new(Mutex::new(vec![])));
        let (asked, answered) = (resend.clone(), answers.clone());
        let seen = Mutex::new(vec![]);
        let steps: Hook = Box::new(move |step| {
            // What is sent again comes by here too, with other steps.
            if !matches!(step, Step::Copy | Step::Flush) {
                return Ok(());
            }
            let is_first = || {
                let mut seen = seen.lock().expect("a lock");
                !seen.contains(&step) && {
                    seen.push(step);
                    true
                }
            };
            if let Some(resend) = &*asked.lock().expect("a lock")
                && is_first()
            {
                answered.lock().expect("a lock").push((step, resend()));
            }
            Ok(())
        });
        let store: Arc<dyn Store> = Arc::new(Interposed::writes(store, steps));
        let rig = Rig::over(&store, &[(A, throughput), (B, throughput)], None);
        let range = filled(&rig);
        let operations = [increment(&rig, "a", "k1", "x"), increment(&rig, "b", "k2", "y")];
        lose.store(true, Ordering::SeqCst);
        let sent = rig.engine.transactions().distributed(&operations, Some(token(2)));
        sent.expect_err("nobody knows");
        lose.store(false, Ordering::SeqCst);
        let (engine, again) = (rig.engine.clone(), operations.clone());
        let send =
            move || engine.transactions().distributed(&again, Some(token(2))).expect("an answer");
        *resend.lock().expect("a lock") = Some(Box::new(send));
        split(&rig, range).expect("a split");
        *resend.lock().expect("a lock") = None;
        let answers = answers.lock().expect("a lock");
        let steps: Vec<(Step, bool)> =
            answers.iter().map(|(step, answers)| (*step, answers.is_repeated)).collect();
        assert_eq!(steps, [(Step::Flush, is_applied), (Step::Copy, true)]);
        for (_, answers) in answers.iter() {
            let is_written =
                answers.answers.iter().all(|a| matches!(a.answer, BatchAnswer::Written(_)));
            assert!(is_written, "{answers:?}");
        }
        assert_eq!((&*rig.at("a", "k1", "x", "n"), &*rig.at("b", "k2", "y", "n")), ("11", "11"));
        is_done_once(&rig, &operations, range);
    }
}
