use proptest::prelude::*;

use super::*;

const RATES: Rates = Rates {
    messages: Rate {
        sustained: 50,
        burst: 100,
    },
    bytes: Rate {
        sustained: 1_000,
        burst: 5_000,
    },
    malformed: Rate { sustained: 1, burst: 5 },
    events: Rate { sustained: 1, burst: 5 },
    sessions: Rate {
        sustained: 12,
        burst: 3,
    },
    work: Rate { sustained: 1, burst: 4 },
    cluster: Rate { sustained: 1, burst: 4 },
    stored: Rate {
        sustained: 6_000,
        burst: 10_000,
    },
};

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).expect("time")
}

fn budget() -> Budget {
    Budget::new(RATES, at(0))
}

#[test]
fn an_honest_work_going_through_its_states_is_never_held_back() {
    let mut budget = budget();
    for ms in [0, 100, 250, 900] {
        assert_eq!(budget.work("w", 100, at(ms)), Ok(()));
    }
    assert_eq!(
        budget.work("other", 100, at(900)),
        Ok(()),
        "each Work has a pace of its own"
    );
}

#[test]
fn one_work_is_written_once_a_second_and_told_only_if_it_goes_on() {
    let mut budget = budget();
    let (mut written, mut told) = (0, 0);
    for ms in (0..120_000).step_by(100) {
        match budget.work("w", 1, at(ms)) {
            Ok(()) => written += 1,
            Err(wait) => {
                assert!(wait.time <= SignedDuration::from_secs(1) && wait.held == Held::Work);
                told += u32::from(wait.tell);
            }
        }
    }
    assert!((120..=124).contains(&written), "{written}");
    assert_eq!(told, 1);
}

#[test]
fn a_large_status_is_written_less_often() {
    let rates = Rates {
        stored: Rate {
            sustained: u32::MAX,
            burst: u32::MAX,
        },
        ..RATES
    };
    let written = |bytes: usize| {
        let mut budget = Budget::new(rates, at(0));
        let tries = (0..60_000).step_by(100);
        tries.filter(|ms| budget.work("w", bytes, at(*ms)).is_ok()).count()
    };
    assert!((60..=64).contains(&written(1)));
    assert!((20..=22).contains(&written(2 * LARGE)), "three turns each");
    assert!(written(100 * LARGE) >= 15, "but it is written");
}

#[test]
fn stored_bytes_have_a_bound_and_a_held_write_costs_no_turn() {
    let mut budget = budget();
    assert_eq!(budget.work("w", 10_000, at(0)), Ok(()));
    let wait = budget.work("w", 1_000, at(0)).unwrap_err();
    assert_eq!(
        (wait.held, wait.time, wait.tell),
        (Held::Stored, SignedDuration::from_secs(10), true)
    );
    assert!(!budget.cluster(1_000, at(0)).unwrap_err().tell, "one spell, one word");
    for _ in 0..50 {
        assert!(budget.work("w", 1_000, at(1)).is_err());
    }
    assert_eq!(budget.work("w", 1_000, at(10_000)), Ok(()));
    let later = 20 * 60 * 1_000;
    assert_eq!(budget.work("w", 10_000, at(later)), Ok(()));
    assert!(budget.work("w", 10_000, at(later)).unwrap_err().tell, "another spell");
}

#[test]
fn sessions_are_counted_over_reconnects() {
    let mut budget = budget();
    assert!((0..3).all(|_| budget.session(at(0)).is_ok()));
    let wait = budget.session(at(0)).unwrap_err();
    assert_eq!(
        (wait.held, wait.time, wait.tell),
        (Held::Session, SignedDuration::from_secs(5), true)
    );
    assert_eq!(budget.session(at(5_000)), Ok(()));
}

#[test]
fn paces_of_works_do_not_pile_up() {
    let mut budget = budget();
    for i in 0..10_000i64 {
        let _ = budget.work(&format!("w{i}"), 0, at(i * 100));
    }
    assert!(budget.works.len() <= PACES + 1, "{}", budget.works.len());
}

proptest! {
    #[test]
    fn no_order_of_writes_stores_more_than_burst_and_rate(
        steps in prop::collection::vec((0..400i64, 0..5usize, 1..3_000usize, any::<bool>()), 1..300),
    ) {
        let mut budget = budget();
        let (mut now, mut stored) = (0, 0usize);
        for (gap, work, bytes, about_cluster) in steps {
            now += gap;
            let result = if about_cluster {
                budget.cluster(bytes, at(now))
            } else {
                budget.work(&format!("w{work}"), bytes, at(now))
            };
            match result {
                Ok(()) => stored += bytes,
                Err(wait) => prop_assert!(wait.time.is_positive()),
            }
            let most = 10_000 + usize::try_from(now).unwrap() * 6_000 / 60_000;
            prop_assert!(stored <= most, "{} > {}", stored, most);
        }
    }
}
