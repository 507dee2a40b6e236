//! Sleep and wake-up in the publisher, under drawn schedules: no writer sleeps for ever.

use std::sync::Arc;

use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::checker::{check_random, thread};

use crate::control::publish::Publisher;

/// Schedules that are drawn: of 10,000 one set in thirty did not meet the bug that is planted.
const SCHEDULES: usize = 100_000;

/// Two writers take tickets, complete them and wait for them.
fn writers_wait_for_each_other() {
    let publisher = Arc::new(Publisher::new(0));
    let tickets = Arc::new(Mutex::new(0));
    let writers = [(); 2].map(|()| {
        let (publisher, tickets) = (publisher.clone(), tickets.clone());
        thread::spawn(move || {
            let ticket = {
                let mut next = tickets.lock();
                *next += 1;
                *next - 1
            };
            publisher.complete(ticket, ticket + 1, ticket, |_, _| {});
            publisher.wait(ticket);
            assert!(publisher.visible() > ticket);
        })
    });
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(publisher.visible(), 2);
}

#[test]
fn nobody_sleeps_for_ever() {
    check_random(writers_wait_for_each_other, SCHEDULES);
}

#[cfg(feature = "test-planted-bugs")]
#[test]
fn planted_a_sleeper_that_is_missed() {
    use cleavedb_base::planted::{Bug, must_notice};
    must_notice(Bug::SleeperMissed, || check_random(writers_wait_for_each_other, SCHEDULES));
}
