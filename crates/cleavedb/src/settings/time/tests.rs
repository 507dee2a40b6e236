//! Tests of time.

use super::*;

fn at(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

#[test]
fn reads_stand_still_for_small_steps_back_and_follow_jumps() {
    let clock = Arc::new(ManualTime::new(at(50_000)));
    let time = Time::new(clock.clone());
    let shows = |millis: u64| {
        clock.set(at(millis));
        (time.millis(), time.jumps())
    };
    assert_eq!(shows(50_000), (50_000, 0));
    assert_eq!(shows(50_000 - STEP_MAX), (50_000, 0));
    assert_eq!(shows(50_001), (50_001, 0));
    assert_eq!(shows(50_000 - STEP_MAX), (50_000 - STEP_MAX, 1));
    assert_eq!(shows(90_000), (90_000, 1), "only who looks for it knows a jump ahead");
}

#[test]
fn jobs_believe_a_jump_ahead_once_it_has_lasted() {
    let clock = Arc::new(ManualTime::new(at(50_000)));
    let time = Time::new(clock.clone());
    let passes = |millis| clock.advance(Duration::from_millis(millis));
    passes(1_000_000);
    assert_eq!(time.believed(), 1_050_000, "time that passes is no jump");
    clock.set(at(1_050_000 + STEP_MAX));
    assert_eq!(time.believed(), 1_050_000 + STEP_MAX, "nor is a correction");
    clock.set(at(9_000_000));
    assert_eq!((time.believed(), time.millis()), (1_060_000, 9_000_000));
    passes(JUMP_LASTS - 1);
    assert_eq!((time.believed(), time.jumps()), (1_060_000 + JUMP_LASTS - 1, 1));
    clock.set(at(1_060_000 + JUMP_LASTS));
    assert_eq!((time.believed(), time.jumps()), (1_060_000 + JUMP_LASTS, 2), "it was wrong");
    clock.set(at(9_000_000));
    time.believed();
    passes(JUMP_LASTS);
    assert_eq!((time.believed(), time.jumps()), (9_000_000 + JUMP_LASTS, 3), "it is right");
    clock.set(at(20));
    assert_eq!((time.believed(), time.jumps()), (20, 4));
}

/// A lock of 30 seconds lasts 30 seconds by the clock, whatever that showed before.
#[test]
fn a_time_to_live_begins_with_the_clock_as_it_is() {
    let clock = Arc::new(ManualTime::new(at(50_000)));
    let time = Time::new(clock.clone());
    let expiry = |millis| {
        Lifetime::For(Duration::from_millis(millis)).end(Lifetime::after(None), &time).millis()
    };
    assert_eq!(time.millis(), 50_000);
    clock.set(at(45_000));
    assert_eq!((expiry(30_000), expiry(7)), (75_000, 50_001), "reads still see 50,000");
    assert_eq!((expiry(0), time.millis()), (50_000, 50_000), "gone at once");
    clock.set(at(1000));
    assert_eq!((expiry(30_000), expiry(7), expiry(0)), (31_000, 1007, 1000));
}

#[test]
fn a_lifetime_ends_no_earlier_than_asked_for() {
    let clock = Arc::new(ManualTime::default());
    let time = Time::new(clock.clone());
    clock.advance(Duration::from_millis(1000));
    let of = |lifetime: Lifetime, usual| lifetime.end(Lifetime::after(usual), &time).millis();
    let second = Duration::from_secs(1);
    assert_eq!(of(Lifetime::OfKeyspace, None), u64::MAX);
    assert_eq!(of(Lifetime::OfKeyspace, Some(second)), 2000);
    assert_eq!(of(Lifetime::For(Duration::from_nanos(1)), Some(second)), 1001);
    assert_eq!(of(Lifetime::For(Duration::MAX), None), u64::MAX, "longer than any clock runs");
    assert_eq!(of(Lifetime::until(None), Some(second)), u64::MAX);
    assert_eq!(of(Lifetime::until(Some(UNIX_EPOCH + second)), None), 1000);
}
