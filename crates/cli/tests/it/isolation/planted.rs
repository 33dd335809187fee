//! Histories with anomalies planted in them, which the checker must find, and histories without,
//! in which it must find nothing.

use std::collections::BTreeMap;

use super::checker::{Anomaly, Edge, check};
use super::history::{Element, History, Key, List, Outcome, Step, Transaction};
use crate::random::Random;

const X: Key = 0;
const Y: Key = 1;

fn read(key: Key, list: &[Element]) -> Step {
    Step::Read(key, list.to_vec())
}

fn append(key: Key, element: Element) -> Step {
    Step::Append(key, element)
}

/// Transactions that all ran at the same time.
fn at_once(outcomes: &[Outcome], steps: &[&[Step]], last: &[(Key, &[Element])]) -> History {
    let transactions = outcomes.iter().zip(steps).map(|(outcome, steps)| Transaction {
        door: "planted",
        steps: steps.to_vec(),
        outcome: *outcome,
        began: 0,
        ended: 100,
    });
    History {
        transactions: transactions.collect(),
        last: last.iter().map(|(key, list)| (*key, list.to_vec())).collect(),
    }
}

fn both_committed(steps: &[&[Step]], last: &[(Key, &[Element])]) -> History {
    at_once(&vec![Outcome::Committed; steps.len()], steps, last)
}

#[test]
fn a_lost_update_is_found() {
    // Both read the empty list, both wrote it back with their own element: one remains.
    let history = both_committed(
        &[&[read(X, &[]), append(X, 1)], &[read(X, &[]), append(X, 2)]],
        &[(X, &[2])],
    );
    assert_eq!(check(&history), [Anomaly::Lost { transaction: 0, key: X, element: 1 }]);
}

#[test]
fn an_update_of_a_stale_read_is_found() {
    // The same, with a database that merges: nothing is lost, but no order explains the reads.
    let history = both_committed(
        &[&[read(X, &[]), append(X, 1)], &[read(X, &[]), append(X, 2)]],
        &[(X, &[1, 2])],
    );
    let cycle = vec![(0, Edge::WriteWrite), (1, Edge::ReadWrite)];
    assert_eq!(check(&history), [Anomaly::Cycle(cycle)]);
}

#[test]
fn write_skew_is_found() {
    let history = both_committed(
        &[&[read(X, &[]), read(Y, &[]), append(X, 1)], &[read(X, &[]), read(Y, &[]), append(Y, 2)]],
        &[(X, &[1]), (Y, &[2])],
    );
    let cycle = vec![(0, Edge::ReadWrite), (1, Edge::ReadWrite)];
    assert_eq!(check(&history), [Anomaly::Cycle(cycle)]);
}

#[test]
fn a_dirty_read_is_found() {
    let history = at_once(
        &[Outcome::Aborted, Outcome::Committed],
        &[&[append(X, 1)], &[read(X, &[1])]],
        &[(X, &[])],
    );
    let found = check(&history);
    assert!(found.contains(&Anomaly::Dirty { transaction: 0, key: X, element: 1 }), "{found:?}");
    assert!(found.contains(&Anomaly::Diverged { reader: 1, key: X }), "{found:?}");
}

#[test]
fn what_failed_and_was_written_is_found() {
    let history = at_once(&[Outcome::Aborted], &[&[append(X, 1)]], &[(X, &[1])]);
    assert_eq!(check(&history), [Anomaly::Dirty { transaction: 0, key: X, element: 1 }]);
}

#[test]
fn an_intermediate_read_is_found() {
    let history =
        both_committed(&[&[append(X, 1), append(X, 2)], &[read(X, &[1])]], &[(X, &[1, 2])]);
    assert!(check(&history).contains(&Anomaly::Intermediate { reader: 1, key: X }));
}

#[test]
fn a_torn_read_over_two_lists_is_found() {
    // The reader saw one half of a transaction and not the other.
    let history = both_committed(
        &[&[append(X, 1), append(Y, 2)], &[read(X, &[1]), read(Y, &[])]],
        &[(X, &[1]), (Y, &[2])],
    );
    let cycle = vec![(0, Edge::WriteRead), (1, Edge::ReadWrite)];
    assert_eq!(check(&history), [Anomaly::Cycle(cycle)]);
}

#[test]
fn a_long_fork_is_found() {
    // Two readers saw two independent writes in opposite orders.
    let history = both_committed(
        &[
            &[append(X, 1)],
            &[append(Y, 2)],
            &[read(X, &[1]), read(Y, &[])],
            &[read(X, &[]), read(Y, &[2])],
        ],
        &[(X, &[1]), (Y, &[2])],
    );
    let found = check(&history);
    assert!(matches!(&found[..], [Anomaly::Cycle(cycle)] if cycle.len() == 4), "{found:?}");
}

#[test]
fn a_lost_commit_is_found() {
    let history = both_committed(&[&[append(X, 1)]], &[(X, &[])]);
    assert_eq!(check(&history), [Anomaly::Lost { transaction: 0, key: X, element: 1 }]);
}

#[test]
fn a_transaction_half_of_which_outlived_a_kill_is_found() {
    let torn = [append(X, 1), append(Y, 2)];
    let history = at_once(&[Outcome::Unknown], &[&torn], &[(X, &[1]), (Y, &[])]);
    assert_eq!(check(&history), [Anomaly::Torn { transaction: 0, key: Y, element: 2 }]);
    // Whole, or not at all, is what may be.
    let whole: [(Key, &[Element]); 2] = [(X, &[1]), (Y, &[2])];
    assert_eq!(check(&at_once(&[Outcome::Unknown], &[&torn], &whole)), []);
    assert_eq!(check(&at_once(&[Outcome::Unknown], &[&torn], &[])), []);
}

#[test]
fn doubled_and_invented_elements_are_found() {
    let history = both_committed(&[&[append(X, 1)]], &[(X, &[1, 1, 7])]);
    let garbage = |element| Anomaly::Garbage { key: X, element };
    assert_eq!(check(&history), [garbage(1), garbage(7)]);
}

#[test]
fn a_transaction_blind_to_its_own_append_is_found() {
    let history = both_committed(&[&[append(X, 1), read(X, &[])]], &[(X, &[1])]);
    assert!(check(&history).contains(&Anomaly::Blind { reader: 0, key: X }));
}

#[test]
fn a_stale_read_is_found_by_real_time_alone() {
    let mut history = both_committed(&[&[append(X, 1)], &[read(X, &[])]], &[(X, &[1])]);
    assert_eq!(check(&history), []);
    // It was sent after the write had been answered.
    (history.transactions[0].ended, history.transactions[1].began) = (1, 2);
    let cycle = vec![(0, Edge::RealTime), (1, Edge::ReadWrite)];
    assert_eq!(check(&history), [Anomaly::Cycle(cycle)]);
}

/// A database in memory that runs transactions one by one, or each on what was there some
/// transactions ago.
fn simulated(random: &mut Random, transactions: usize, staleness: usize) -> History {
    let mut states: Vec<BTreeMap<Key, List>> = vec![BTreeMap::new()];
    let mut history = History::default();
    for number in 0..transactions {
        let seen = states[states.len().saturating_sub(1 + random.below(staleness + 1))].clone();
        let mut state = states[states.len() - 1].clone();
        let (mut steps, mut own) = (Vec::new(), seen);
        for step in 0..=random.below(4) {
            let key = random.below(5);
            if random.one_in(2) {
                let element = (number * 10 + step) as Element;
                state.entry(key).or_default().push(element);
                own.entry(key).or_default().push(element);
                steps.push(Step::Append(key, element));
            } else {
                steps.push(Step::Read(key, own.get(&key).cloned().unwrap_or_default()));
            }
        }
        let began = (number * 10) as u64;
        history.transactions.push(Transaction {
            door: "simulated",
            steps,
            outcome: Outcome::Committed,
            // Up to three at a time.
            began: began.saturating_sub(25),
            ended: began,
        });
        states.push(state);
    }
    history.last = states.pop().unwrap_or_default();
    history
}

#[test]
fn a_serial_database_has_no_anomaly_and_a_stale_one_has() {
    let mut random = Random::from_environment("simulated histories");
    let mut found_in_stale = 0;
    for _ in 0..50 {
        let found = check(&simulated(&mut random, 200, 0));
        assert_eq!(found, [], "in a serial history");
        found_in_stale += usize::from(!check(&simulated(&mut random, 200, 2)).is_empty());
    }
    assert_eq!(found_in_stale, 50, "stale histories in which an anomaly was found");
}
