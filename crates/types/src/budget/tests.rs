//! Tests of budgets.

use super::*;
use crate::ManualClock;

#[test]
fn steps_and_reads_are_bounded_each_for_itself() {
    let limits = BudgetLimits { steps_max: 100, reads_max: 50, ..BudgetLimits::default() };
    let budget = ExecutionBudget::new(limits);
    assert_eq!((budget.step(100), budget.read(50)), (Ok(()), Ok(())));
    assert_eq!(budget.read(1), Err(Exceeded::Reads));
    assert_eq!(budget.step(0), Err(Exceeded::Reads), "what is exceeded stays exceeded");
    let budget = ExecutionBudget::new(limits);
    assert_eq!(budget.step(101), Err(Exceeded::Steps));
    assert_eq!((budget.read(1), budget.exceeded()), (Err(Exceeded::Steps), Some(Exceeded::Steps)));
}

#[test]
fn a_cancelled_token_ends_steps_and_reads_within_one_check() {
    for reads in [false, true] {
        let token = CancellationToken::default();
        let budget = ExecutionBudget::default().with_cancellation(Some(&token));
        let work = || if reads { budget.read(1) } else { budget.step(1) };
        for _ in 0..40_000 {
            work().expect("it is not cancelled");
        }
        token.cancel();
        let further = (0..STEPS_PER_CHECK * 2).take_while(|_| work().is_ok()).count() as u64;
        assert!(further < STEPS_PER_CHECK, "{further} steps after the cancellation");
        assert_eq!(budget.exceeded(), Some(Exceeded::Cancelled));
    }
}

#[test]
fn a_page_ends_before_the_deadline() {
    let clock = ManualClock::at_s(5);
    let budget = ExecutionBudget::default().with_time(&clock, 100, 1000);
    assert!(!budget.is_page_over());
    clock.advance_ms(101);
    assert!(budget.is_page_over() && budget.check().is_ok());
    clock.advance_ms(900);
    assert_eq!(budget.check(), Err(Exceeded::Deadline));
}

#[test]
fn what_is_reserved_is_given_back() {
    let pool = MemoryPool::new(4 << 20);
    {
        let limits = BudgetLimits { bytes_max: 3 << 20, ..BudgetLimits::default() };
        let budget = ExecutionBudget::new(limits).with_pool(&pool);
        budget.take_bytes(UNASKED_BYTES).expect("little");
        assert_eq!(pool.used_bytes(), 0, "little is not asked for");
        let mut list = budget.reservation();
        list.set(1 << 20).expect("some");
        assert_eq!(pool.used_bytes(), 2 << 20);
        let other = ExecutionBudget::default().with_pool(&pool);
        assert_eq!(other.take_bytes(3 << 20), Err(Exceeded::Pool));
        assert_eq!(other.step(1), Err(Exceeded::Pool));
        drop(list);
        assert_eq!(budget.bytes_left(), (3 << 20) - UNASKED_BYTES);
        assert_eq!(budget.take_bytes(3 << 20), Err(Exceeded::Bytes));
    }
    assert_eq!(pool.used_bytes(), 0);
}

#[test]
fn every_check_ends_a_time_slice() {
    let slices = Cell::new(0);
    let end_slice = || slices.set(slices.get() + 1);
    let budget = ExecutionBudget::default().with_slices(&end_slice);
    for _ in 0..STEPS_PER_CHECK * 3 {
        budget.step(1).expect("there is no limit");
    }
    for _ in 0..READS_PER_CHECK * 2 {
        budget.read(1).expect("there is no limit");
    }
    assert_eq!(slices.get(), 5);
}

#[test]
fn each_limit_has_its_error() {
    use Exceeded::{Bytes, Cancelled, Deadline, Items, Pool, Reads, Steps};
    for exceeded in [Steps, Reads, Items, Bytes] {
        assert!(matches!(Error::from(exceeded), Error::Query(_)), "{exceeded:?}");
    }
    assert!(matches!(Error::from(Pool), Error::RateLimited { .. }));
    for exceeded in [Deadline, Cancelled] {
        assert!(matches!(Error::from(exceeded), Error::Timeout(_)), "{exceeded:?}");
    }
}
